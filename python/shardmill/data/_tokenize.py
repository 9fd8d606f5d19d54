"""Tokens as columns that a data set computes from its texts."""

from __future__ import annotations

import inspect
import os
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

from shardmill._choices import check_fields
from shardmill._digests import digest
from shardmill._extras import pyarrow_for
from shardmill._native import load as _native
from shardmill._option_values import check_filled, check_kind, listed
from shardmill.data._chat_template import ChatTemplate, json_of
from shardmill.data._counts_directory import check_counts_directory, default_counts
from shardmill.data._token_function import TokenFunction, name_of, token_lists
from shardmill.data._token_ids import token_id_of
from shardmill.data._token_options import LabelKind, Labels, TextPolicy
from shardmill.data._tokenizer import Tokenizer, native_tokenizer
from shardmill.errors import FormatError, OptionError
from shardmill.storage._paths import PathLike

TokenType = Literal["int32", "int64"]

#: Incremented when the ids of a text change, so that older counts and states are not reused.
TOKENIZATION_VERSION = 2

#: How many characters of an option, such as a template, the ``repr`` shows.
_SHOWN = 200


@dataclass(frozen=True, init=False)
class Tokenize:
    """How a ``Dataset`` computes tokens from the texts or messages of its rows.

    The list column ``output`` follows the other columns. The source columns are read; to deliver
    them too, name them in ``columns``. Texts are tokenized by the threads that decode them, so they
    never become Python strings. By default, no special token is added. An empty text, or an empty
    list of messages, has no tokens, not even ``bos`` or ``eos``.

    Pass exactly one source: ``text``, ``messages``, ``prompt`` with ``completion``, or
    ``function``.

    Args:
        text: the text column, or several columns, which are joined with ``separator``. Their values
            are strings, or bytes in UTF-8. With ``function``, the columns passed to it; all columns
            by default.
        messages: a column of conversations. A conversation is a list of structs with ``role`` and
            ``content``, or the same as JSON. The chat template makes one text of it, as
            ``apply_chat_template`` of transformers does.
        prompt: a column of prompts. A prompt is a text, or a list of messages.
        completion: a column of what follows each prompt. Both are encoded as one text.
        function: a ``TokenFunction`` that computes the tokens.
        tokenizer: a ``Tokenizer``, or its path.
        bos: token before each non-empty row: a token, an id, or ``True`` for the one named in the
            tokenizer's directory. Not for messages, whose template writes such tokens.
        eos: token after each non-empty row, likewise.
        add_special_tokens: run the post-processor of the tokenizer, which may add special tokens.
        separator: text between the texts of several columns. A null is left out together with its
            separator.
        chat_template: the Jinja template for messages, a ``Path`` to it, or a ``ChatTemplate`` with
            further options; that of the tokenizer's directory by default.
        labels: adds a list column of labels. ``"all"`` labels all tokens, ``"assistant"`` what an
            assistant wrote, ``"completion"`` the completion, which for messages is the last turn of
            an assistant, and ``"function"`` takes them from ``function``. ``Labels`` has further
            options.
        text_policy: what happens to special tokens, nulls and invalid bytes in texts.
        output: name of the column of tokens.
        dtype: type of the tokens, ``"int32"`` or ``"int64"``.
        counts: directory for the token counts that packing needs. It may be in an object store, and
            data sets and processes share it. The default is ``counts`` in ``SHARDMILL_CACHE_DIR``
            or in the user's cache directory. Below the data, its name must start with ``_`` or
            ``.``, such as ``_counts``, so that it does not become data itself. Missing counts are
            recomputed. Processes that count at the same time count each block once, and take over
            what a dead one leaves; in object stores and other places without file locks, a block
            may be counted several times.

    Raises:
        ValueError: If an option is not valid, such as a token that the tokenizer does not have, or
            a template that cannot tell what an assistant wrote.
    """

    text: tuple[str, ...]
    messages: str | None
    prompt: str | None
    completion: str | None
    function: TokenFunction | None
    tokenizer: Tokenizer | None
    bos: int | None
    eos: int | None
    add_special_tokens: bool
    separator: str | None
    chat_template: ChatTemplate
    labels: Labels | None
    text_policy: TextPolicy
    output: str
    dtype: TokenType
    counts: str

    def __init__(
        self,
        text: str | Sequence[str] = (),
        *,
        messages: str | None = None,
        prompt: str | None = None,
        completion: str | None = None,
        function: TokenFunction | None = None,
        tokenizer: Tokenizer | str | Path | None = None,
        bos: str | int | bool | None = None,
        eos: str | int | bool | None = None,
        add_special_tokens: bool = False,
        separator: str | None = None,
        chat_template: str | Path | ChatTemplate | None = None,
        labels: LabelKind | Labels | None = None,
        text_policy: TextPolicy | None = None,
        output: str = "tokens",
        dtype: TokenType = "int32",
        counts: PathLike | None = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name != "self"}
        check_fields(Tokenize, given)
        for name in ("messages", "prompt", "completion", "separator", "output"):
            if name != "separator" or separator != "":
                check_filled(name, given[name], is_optional=name != "output")
        check_kind("function", function, TokenFunction, 'sm.TokenFunction(f, version="1")')
        check_kind("text_policy", text_policy, TextPolicy, 'sm.TextPolicy(nulls="fill")')
        if not isinstance(counts, str | os.PathLike | None) or counts == "":
            raise OptionError(f"counts must be a directory, not {reprlib.repr(counts)}")
        if tokenizer is not None and not isinstance(tokenizer, Tokenizer):
            tokenizer = Tokenizer(tokenizer)
        values = given | {
            "tokenizer": tokenizer,
            "text": (text,) if isinstance(text, str) else tuple(listed("text", text)),
            "bos": token_id_of("bos", bos, tokenizer),
            "eos": token_id_of("eos", eos, tokenizer),
            "chat_template": chat_template
            if isinstance(chat_template, ChatTemplate)
            else ChatTemplate(chat_template),
            "labels": labels if isinstance(labels, Labels | None) else Labels(labels),
            "text_policy": text_policy or TextPolicy(),
            "counts": default_counts() if counts is None else os.fspath(counts),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        if self.labels is not None and output == self.labels.output:
            raise OptionError(f"output and Labels.output must differ, and both are {output!r}")
        self._check_source()
        self._check_template()
        # Says now what the tokenizer or the template cannot do.
        _ = self._native

    @property
    def _sources(self) -> list[str] | None:
        """Names of the source columns; ``None`` if a function gets all of them."""
        if self.function is not None:
            return list(self.text) or None
        more = self.chat_template.tools, self.chat_template.documents
        named = (*self.text, self.messages, self.prompt, self.completion, *more)
        return [name for name in named if name is not None]

    @cached_property
    def fingerprint(self) -> str:
        """Identifies what determines the ids, as 32 hexadecimal digits."""
        groups = self, self.chat_template, self.labels or Labels("all"), self.text_policy
        options = {
            field.name: getattr(group, field.name) for group in groups for field in fields(group)
        }
        identity = {name: value for name, value in options.items() if name not in _UNRELATED}
        identity["tokenization"] = TOKENIZATION_VERSION
        identity["tokenizer"] = self.tokenizer and self.tokenizer.fingerprint
        identity["function"] = self.function and name_of(self.function.function)
        identity["version"] = self.function and self.function.version
        identity["labels"] = self.labels and self.labels.kind
        identity["chat_template"] = self._template
        if self._tool_template is not None:
            identity["tool_template"] = self._tool_template
        if self._named_roles:
            identity["roles"] = self._named_roles
        # Variables may come in any order. A template may show the order of the keys inside of them.
        identity["template_kwargs"] = dict(
            sorted((self.chat_template.template_kwargs or {}).items())
        )
        return digest(dict(sorted(identity.items())))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tokenize):
            return NotImplemented
        # Tokenizers are equal by their ids alone. The fingerprint also has the templates and roles
        # of their directories.
        names = [field.name for field in fields(self)]
        is_equal = all(getattr(self, name) == getattr(other, name) for name in names)
        return is_equal and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        unset = default_counts(), ChatTemplate(), TextPolicy()
        given = {name: value for name, value in _changed(self).items() if value not in unset}
        for name in ("bos", "eos"):
            if name in given and self.tokenizer is not None:
                given[name] = native_tokenizer(self.tokenizer).token(given[name]) or given[name]
        text = given.pop("text", ())
        first = [repr(text[0] if len(text) == 1 else list(text))] if text else []
        options = [f"{name}={_short(value)}" for name, value in given.items()]
        return f"Tokenize({', '.join([*first, *options])})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_native"}

    @property
    def outputs(self) -> list[str]:
        """Names of the columns that are computed."""
        return [self.output] if self.labels is None else [self.output, self.labels.output]

    @property
    def _template(self) -> str | None:
        """The chat template; ``None`` if there is none, or none is needed."""
        if self.messages is None and self.completion is None:
            return None
        if self.chat_template.template is not None:
            return str(self.chat_template.template)
        return self.tokenizer and native_tokenizer(self.tokenizer).chat_template

    @property
    def _tool_template(self) -> str | None:
        """The template for rows with tools, if the directory has another one for them."""
        chat = self.chat_template
        if (
            self._template is None
            or chat.template is not None
            or chat.tools is None
            or self.tokenizer is None
        ):
            return None
        return native_tokenizer(self.tokenizer).tool_template

    @property
    def _named_roles(self) -> dict[str, str]:
        """Special tokens of the directory that a template names, by role, such as ``eos_token``."""
        roles = {} if self.tokenizer is None else native_tokenizer(self.tokenizer).roles
        templates = f"{self._template or ''}{self._tool_template or ''}"
        return {role: token for role, token in roles.items() if role in templates}

    def _check_source(self) -> None:
        """Check that there is exactly one source and that all options apply to it.

        Raises:
            ValueError: If there is none or several, or an option has no meaning for it.
        """
        if (self.prompt is None) != (self.completion is None):
            raise OptionError("prompt and completion are used together")
        given = [
            name
            for name in ("messages", "completion", "function")
            if getattr(self, name) is not None
        ]
        if self.text and self.function is None:
            given.append("text")
        if len(given) != 1:
            raise OptionError(
                "Tokenize needs one source, "
                f"{'and has none' if not given else 'not ' + ' and '.join(given)}\n"
                "hint: name a text column, or pass messages=, prompt= and completion=, or function="
            )
        [source] = given
        if (self.tokenizer is None) != (source == "function"):
            raise OptionError(
                "function computes the ids itself, without tokenizer="
                if source == "function"
                else "Tokenize needs a tokenizer\nhint: pass tokenizer= its file or directory"
            )
        if source == "text" and (len(self.text) > 1) != (self.separator is not None):
            raise OptionError(
                "several text columns need a separator\n"
                "hint: pass separator= the text between them, such as two line breaks"
                if self.separator is None
                else "separator is for several text columns"
            )
        wanted = {
            "text": ("Sequences",),
            "assistant": ("messages",),
            "completion": _CHATS,
            "function": ("function",),
        }
        labels = self.labels and self.labels.kind
        if source not in (needed := wanted.get(labels or "", (source,))):
            raise OptionError(
                f"labels={labels!r} is for {' and '.join(needed)}, and the source is {source}"
            )
        if source == "function" and labels not in (None, "function"):
            raise OptionError(f"labels must be None or 'function' for a function, not {labels!r}")
        for group in (self, self.chat_template, self.text_policy):
            prefix = "" if group is self else f"{type(group).__name__}."
            for name in _changed(group):
                if source not in _USED_BY.get(name, (source,)):
                    used_by = " and ".join(_USED_BY[name])
                    raise OptionError(
                        f"{prefix}{name} is for {used_by}, and the source is {source}"
                    )
        if source == "messages":
            if self.text_policy.special_in_text == "text":
                raise OptionError(
                    "special_in_text='text' is not for messages, "
                    "whose template writes special tokens"
                )
            if self._template is None:
                raise OptionError(
                    "the directory of the tokenizer has no chat template\n"
                    "hint: set chat_template= to the template, or to the Path of its file"
                )

    def _check_template(self) -> None:
        if not self.add_special_tokens or self.tokenizer is None:
            return
        prefix, suffix = native_tokenizer(self.tokenizer).template
        for name, id, added in (("bos", self.bos, prefix), ("eos", self.eos, suffix)):
            if id is not None and id in added:
                raise OptionError(
                    f"add_special_tokens=True adds token {id} already, which is {name}\n"
                    f"hint: remove {name}=, or add_special_tokens"
                )

    @cached_property
    def _native(self) -> _native.Tokens:
        return self._tokens(has_images=False)

    def _tokens(self, *, has_images: bool) -> _native.Tokens:
        columns = self.output, self.dtype == "int64", self.labels and self.labels.output
        counts = f"{self.counts}/{self.fingerprint}"
        if self.tokenizer is None:
            assert self.function is not None
            # Says it now instead of in a thread that tokenizes.
            pyarrow_for("Tokenize with a function")
            types = dict(zip(self.outputs, (self.dtype, "int64"), strict=False))
            lists = partial(token_lists, self.function.function, types)
            return _native.Tokens.of_function(lists, columns=columns, counts=counts)
        labels, policy = self.labels, self.text_policy
        return _native.Tokens(
            native_tokenizer(self.tokenizer),
            self._input(self.tokenizer, has_images),
            bos=self.bos,
            eos=self.eos,
            add_special_tokens=self.add_special_tokens,
            special_in_text=policy.special_in_text,
            has_empty_nulls=policy.nulls == "fill",
            is_lossy=policy.invalid == "replace",
            max_document_bytes=int(policy.max_document_bytes),
            labels=labels
            and (labels.ignore_index, labels.kind != "all", labels.on_unlabelled == "raise"),
            columns=columns,
            counts=counts,
        )

    def _input(self, tokenizer: Tokenizer, has_images: bool) -> _native.TokenInput:
        if self.messages is None and self.completion is None:
            return _native.TokenInput.texts(self.separator or "")
        chat, reason = None, "the tokenizer has none; pass chat_template="
        try:
            chat = self._chat(tokenizer, has_images)
        except (FormatError, OptionError) as error:
            # Texts need no template, whatever the directory has.
            if self.messages is not None or self.chat_template.template is not None:
                raise
            reason = f"that of the tokenizer cannot be used: {error}"
        return (
            chat
            if chat is not None and self.messages is not None
            else _native.TokenInput.completion(chat, reason)
        )

    def _chat(self, tokenizer: Tokenizer, has_images: bool) -> _native.TokenInput | None:
        template = self._template
        if template is None:
            return None
        chat = self.chat_template
        is_completion = self.labels is not None and self.labels.kind == "completion"
        return _native.TokenInput.chat(
            native_tokenizer(tokenizer),
            (template, self._tool_template),
            now=chat.now,
            spans="last" if is_completion else chat.assistant_spans,
            template_kwargs=json_of(chat.template_kwargs),
            has_tools=chat.tools is not None,
            has_documents=chat.documents is not None,
            has_images=has_images,
        )


def native_tokens(
    tokenize: Tokenize, paths: Sequence[str]
) -> tuple[_native.Tokens, list[str] | None]:
    """Return what computes the tokens of a data set, and the columns that it gets.

    Args:
        tokenize: the options.
        paths: the paths of the data set.

    Returns:
        The second is ``None`` if it gets all columns.

    Raises:
        ValueError: If the counts would become a part of the data set.
    """
    check_counts_directory(tokenize.counts, tokenize.fingerprint, paths)
    return tokenize._native, tokenize._sources  # pyright: ignore[reportPrivateUsage]


def chats_with_images(tokenize: Tokenize) -> tuple[_native.Tokens, list[str]]:
    """Return what computes the tokens of messages that may have images, and its columns."""
    tokens = tokenize._tokens(has_images=True)  # pyright: ignore[reportPrivateUsage]
    return tokens, tokenize._sources or []  # pyright: ignore[reportPrivateUsage]


_TEXTS = ("text", "completion")
_CHATS = ("messages", "completion")

#: The sources that an option is for, if not for all.
_USED_BY = {
    **dict.fromkeys(("bos", "eos", "add_special_tokens"), _TEXTS),
    "separator": ("text",),
    "assistant_spans": ("messages",),
    **dict.fromkeys(("template", "tools", "documents", "template_kwargs", "now"), _CHATS),
    **dict.fromkeys(
        ("special_in_text", "nulls", "invalid", "max_document_bytes"),
        ("text", "messages", "completion"),
    ),
}

#: Options that do not change ids, and those whose parts are named by themselves.
_UNRELATED = {
    *("output", "dtype", "counts", "max_document_bytes", "on_unlabelled"),
    *("text_policy", "kind", "template"),
}


def _changed(options: Any) -> dict[str, Any]:
    """Return those options of a dataclass that differ from their defaults."""
    defaults = inspect.signature(type(options)).parameters
    values = {field.name: getattr(options, field.name) for field in fields(options)}
    return {name: value for name, value in values.items() if value != defaults[name].default}


def _short(value: Any) -> str:
    """Return the ``repr`` of a value, without most of a long one."""
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
