"""Chat templates and what they get besides messages."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, Literal

from shardmill._choices import check_fields
from shardmill._option_values import check_filled
from shardmill.errors import FormatError, NotFoundError, OptionError

AssistantSpans = Literal["generation", "prefix"]

#: Variables of a template that the rows determine.
_RESERVED = {"messages", "tools", "documents"}


@dataclass(frozen=True)
class ChatTemplate:
    """The chat template that makes a text of messages, and what it gets besides them.

    Attributes:
        template: the Jinja template, or a ``Path`` to it; that of the tokenizer's directory by
            default.
        tools: column of the tools that the template gets, as lists of structs or JSON.
        documents: column of the documents that the template gets, likewise.
        template_kwargs: further variables of the template, as a dict of JSON values.
        now: the date for templates that ask for it, such as ``"2026-01-31"``. Without it they
            raise, since their tokens change every day.
        assistant_spans: how to find what an assistant wrote, for labels. ``"generation"`` uses the
            generation blocks of the template. ``"prefix"`` compares the text up to and including a
            turn with the text before it and a generation prompt.

    Raises:
        FileNotFoundError: If the file of the template does not exist.
        ValueError: If an option is not valid.

    Examples:
        >>> import shardmill as sm
        >>> sm.ChatTemplate(tools="tools", template_kwargs={"enable_thinking": False}).tools
        'tools'
    """

    template: str | Path | None = None
    _: KW_ONLY
    tools: str | None = None
    documents: str | None = None
    template_kwargs: Mapping[str, Any] | None = None
    now: str | None = None
    assistant_spans: AssistantSpans = "generation"

    def __post_init__(self) -> None:
        check_fields(ChatTemplate, vars(self), prefix="ChatTemplate.")
        for name in ("tools", "documents", "now"):
            check_filled(f"ChatTemplate.{name}", getattr(self, name), is_optional=True)
        object.__setattr__(self, "template", _template_text(self.template))
        kwargs = self.template_kwargs
        if not isinstance(kwargs, Mapping | None):
            raise OptionError(
                "ChatTemplate.template_kwargs must be a dict of JSON values, "
                f"not {reprlib.repr(kwargs)}"
            )
        # A copy: the caller may go on to change its own.
        object.__setattr__(self, "template_kwargs", dict(kwargs) if kwargs else None)
        json_of(kwargs)
        cannot = "ChatTemplate.template_kwargs cannot set"
        if reserved := _RESERVED.intersection(kwargs or ()):
            raise OptionError(
                f"{cannot} {', '.join(sorted(reserved))}, which come from the columns"
            )
        if "add_generation_prompt" in (kwargs or ()):
            raise OptionError(f"{cannot} add_generation_prompt: training data end with the answer")


def _template_text(template: str | Path | None) -> str | None:
    """Return the text of a template, which is given as text or as the path of a file.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If it is not a template.
    """
    if isinstance(template, Path):
        return _template_of_file(template)
    if not isinstance(template, str | None):
        raise OptionError(
            "chat_template must be the text of a template or a Path to it, "
            f"not {reprlib.repr(template)}"
        )
    if template is not None and "{" not in template:
        raise OptionError(
            f"chat_template={template!r} is not a template: "
            "it writes the same text for all messages\n"
            "hint: pass Path(…) to read it from a file"
        )
    return template


def _template_of_file(path: Path) -> str:
    if not path.is_file():
        raise NotFoundError(f"the chat template {str(path)!r} does not exist")
    try:
        template = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"the chat template {str(path)!r} is not UTF-8: {error}") from None
    if not template.strip():
        raise OptionError(
            f"the chat template {str(path)!r} is empty\n"
            "hint: write the template into the file, "
            "or omit chat_template to use that of the tokenizer"
        )
    if "{" not in template:
        raise OptionError(
            f"the file {str(path)!r} is not a template: it writes the same text for all messages"
        )
    return template


def json_of(kwargs: Mapping[str, Any] | None) -> str:
    """Return the variables of a template as JSON.

    Raises:
        ValueError: If one has no JSON value, or a key is not a string.
    """
    kwargs = dict(kwargs or {})
    for name, value in kwargs.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise OptionError(
                "ChatTemplate.template_kwargs must be a dict of JSON values, "
                f"and template_kwargs[{name!r}]={value!r} has none: {error}"
            ) from None
    if others := list(_other_keys(kwargs)):
        raise OptionError(
            "the keys of template_kwargs, and of dicts in it, must be strings, "
            f"not {reprlib.repr(others[0])}"
        )
    return json.dumps(kwargs)


def _other_keys(value: Any) -> Iterator[Any]:
    """Yield the keys in a JSON value that are not strings."""
    if isinstance(value, dict):
        yield from (key for key in value if not isinstance(key, str))
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _other_keys(item)
