"""Chat templates and their variables, as options."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from shardmill.errors import FormatError, NotFoundError, OptionError


def template_text(template: str | Path | None) -> str | None:
    """Return the text of a template, which is given as text or as the path of a file.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If it is not a template.
    """
    if isinstance(template, Path):
        return _template_of_file(template)
    if template is not None and "{" not in template:
        raise OptionError(
            f"chat_template={template!r} is not a template: it writes the same text for all messages"
            "\nhint: pass Path(…) to read it from a file"
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
            "hint: write the template into the file, or omit chat_template to use that of the tokenizer"
        )
    if "{" not in template:
        raise OptionError(f"the file {str(path)!r} is not a template: it writes the same text for all messages")
    return template


def template_kwargs_of(kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the variables of a template.

    Raises:
        ValueError: If they are not a dict.
    """
    if not isinstance(kwargs, Mapping | None):
        raise OptionError(f"template_kwargs must be a dict of JSON values, not {reprlib.repr(kwargs)}")
    return dict(kwargs or {})


def json_of(kwargs: dict[str, Any]) -> str:
    """Return the variables of a template as JSON.

    Raises:
        ValueError: If one has no JSON value, or a key is not a string.
    """
    for name, value in kwargs.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise OptionError(
                f"template_kwargs must be a dict of JSON values, and template_kwargs[{name!r}]={value!r} has none: {error}"
            ) from None
    if others := list(_other_keys(kwargs)):
        raise OptionError(
            f"the keys of template_kwargs, and of dicts in it, must be strings, not {reprlib.repr(others[0])}"
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
