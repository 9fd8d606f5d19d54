"""Tokens as columns that a data set computes from its texts."""

from __future__ import annotations

import inspect
import os
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from shardmill._choices import check_fields
from shardmill._digests import digest
from shardmill._native import load as _native
from shardmill._option_values import listed, whole
from shardmill._sizes import byte_count
from shardmill.data._chat_template import json_of, template_kwargs_of, template_text
from shardmill.data._counts_directory import check_counts_directory, default_counts
from shardmill.data._token_function import TokenFunction, name_of
from shardmill.data._token_ids import token_id_of
from shardmill.data._tokenizer import SpecialInText, Tokenizer, native_tokenizer
from shardmill.errors import FormatError, OptionError
from shardmill.storage._paths import PathLike

NullTexts = Literal["raise", "fill"]
InvalidBytes = Literal["raise", "replace"]
TokenType = Literal["int32", "int64"]
Labels = Literal["all", "assistant", "completion", "function"]
AssistantSpans = Literal["generation", "prefix"]
Unlabelled = Literal["keep", "raise"]

#: Incremented when the ids of a text change, so that older counts and states are not reused.
TOKENIZATION_VERSION = 2

#: The largest text, in bytes.
_MOST_BYTES = 256 << 20

#: How many characters of a text, such as a template, the ``repr`` shows.
_SHOWN = 80


@dataclass(frozen=True, init=False)
class Tokenize:
    """How a ``Dataset`` computes tokens from the texts or messages of its rows.

    The list column ``output`` follows the other columns. The source columns are read, but delivered only if ``columns`` names them. Texts are
    tokenized by the threads that decode them, so they never become Python strings. No special token is added unless an option asks for it. An
    empty text, or an empty list of messages, has no tokens, not even ``bos`` or ``eos``.

    Pass exactly one source: ``text``, ``messages``, ``prompt`` with ``completion``, or ``function``.

    Args:
        text: the text column, or several columns, which are joined with ``separator``. Their values are strings, or bytes in UTF-8. With
            ``function``, the columns passed to it; all columns by default.
        messages: a column of conversations. A conversation is a list of structs with ``role`` and ``content``, or the same as JSON. The chat
            template makes one text of it, as ``apply_chat_template`` of transformers does.
        prompt: a column of prompts. A prompt is a text, or a list of messages.
        completion: a column of what follows each prompt. Both are encoded as one text.
        function: called as ``function(batch)`` with a ``pyarrow.RecordBatch``. Returns a dict that maps ``output``, and ``labels_output`` with
            ``labels="function"``, to a list of lists. It holds the GIL and may be called from several threads.
        version: required with ``function``. Change it whenever the results of the function change. It also stands for the arguments of a
            ``functools.partial`` and for the attributes of an object. Counts of other versions are not used.
            States of other versions are rejected with packing; without packing they are loaded with a warning.
        tokenizer: a ``Tokenizer``, or its path.
        bos: token before each non-empty row: a token, an id, or ``True`` for the one named in the tokenizer's directory. Not
            for messages, whose template writes such tokens.
        eos: token after each non-empty row, likewise.
        add_special_tokens: run the post-processor of the tokenizer, which may add special tokens.
        special_in_text: what special tokens in a text become. ``"text"`` encodes them like other text, ``"id"`` returns their ids, as Hugging
            Face tokenizers do, and ``"raise"`` raises with file and row, as tiktoken does. By default ``"id"`` for messages, whose template
            writes special tokens, and ``"text"`` for all else. For ``tekken.json`` and ``.model`` files, ``"id"`` is allowed for messages only.
        separator: text between the texts of several columns. A null is left out together with its separator.
        chat_template: the Jinja template for messages, or a ``Path`` to it; that of the tokenizer's directory by default.
        assistant_spans: how to find what an assistant wrote. ``"generation"`` uses the generation blocks of the template. ``"prefix"`` compares
            the text up to and including a turn with the text before it and a generation prompt.
        tools: column of the tools that the template gets, as lists of structs or JSON.
        documents: column of the documents that the template gets, likewise.
        template_kwargs: further variables of the template, as a dict of JSON values.
        now: the date for templates that ask for it, such as ``"2026-01-31"``. Without it they raise, since their tokens change every day.
        labels: adds a list column of labels, which are the tokens, not shifted, or ``ignore_index``. ``"all"`` labels all tokens,
            ``"assistant"`` what an assistant wrote, ``"completion"`` the completion, and ``"function"`` takes them from ``function``. A token
            that overlaps labelled text has a label. The first label of a row is always ``ignore_index``, except with ``function``.
        ignore_index: label of tokens that a loss ignores.
        on_unlabelled: what happens to a row in which all labels are ignored, with ``labels="assistant"`` or ``"completion"``. ``"keep"``
            delivers it, and the first such row logs a warning; ``"raise"`` raises an error that names the file and the row.
        output: name of the column of tokens.
        labels_output: name of the column of labels, int64.
        dtype: type of the tokens, ``"int32"`` or ``"int64"``.
        nulls: what to do with a null: ``"raise"`` raises an error that names the file and the row; ``"fill"`` produces a row without tokens.
        invalid: what to do with invalid UTF-8: ``"raise"`` raises an error that names the file, the row and the offset; ``"replace"``
            substitutes U+FFFD.
        counts: directory for the token counts that packing needs. It may be in an object store, and data sets and processes share it. The
            default is ``counts`` in ``SHARDMILL_CACHE_DIR`` or in the user's cache directory. Below the data, its name must start with ``_``
            or ``.``, such as ``_counts``, so that it does not become data itself. Missing counts are recomputed. Processes that
            count at the same time count each block once, and take over what a dead one leaves; in object stores and other places without
            file locks, a block may be counted several times.
        max_document_bytes: maximum size of a text, such as ``"256MiB"``. A larger text raises an error. A rendered conversation is also
            limited to 64 MiB.

    Raises:
        ValueError: If an option is not valid, such as a token that the tokenizer does not have, or a template that cannot tell what an
            assistant wrote.
    """

    text: tuple[str, ...]
    messages: str | None
    prompt: str | None
    completion: str | None
    function: Callable[[Any], Mapping[str, Any]] | None
    version: str | None
    tokenizer: Tokenizer | None
    bos: int | None
    eos: int | None
    add_special_tokens: bool
    special_in_text: SpecialInText | None
    separator: str | None
    chat_template: str | None
    assistant_spans: AssistantSpans
    tools: str | None
    documents: str | None
    template_kwargs: dict[str, Any]
    now: str | None
    labels: Labels | None
    ignore_index: int
    on_unlabelled: Unlabelled
    output: str
    labels_output: str
    dtype: TokenType
    nulls: NullTexts
    invalid: InvalidBytes
    counts: str
    max_document_bytes: int

    def __init__(
        self,
        text: str | Sequence[str] = (),
        *,
        messages: str | None = None,
        prompt: str | None = None,
        completion: str | None = None,
        function: Callable[[Any], Mapping[str, Any]] | None = None,
        version: str | None = None,
        tokenizer: Tokenizer | str | Path | None = None,
        bos: str | int | bool | None = None,
        eos: str | int | bool | None = None,
        add_special_tokens: bool = False,
        special_in_text: SpecialInText | None = None,
        separator: str | None = None,
        chat_template: str | Path | None = None,
        assistant_spans: AssistantSpans = "generation",
        tools: str | None = None,
        documents: str | None = None,
        template_kwargs: Mapping[str, Any] | None = None,
        now: str | None = None,
        labels: Labels | None = None,
        ignore_index: int = -100,
        on_unlabelled: Unlabelled = "keep",
        output: str = "tokens",
        labels_output: str = "labels",
        dtype: TokenType = "int32",
        nulls: NullTexts = "raise",
        invalid: InvalidBytes = "raise",
        counts: PathLike | None = None,
        max_document_bytes: int | str = _MOST_BYTES,
    ) -> None:
        given = {name: value for name, value in locals().items() if name != "self"}
        check_fields(Tokenize, given)
        texts = (
            "messages",
            "prompt",
            "completion",
            "separator",
            "tools",
            "documents",
            "now",
            "output",
            "labels_output",
        )
        for name in texts:
            value = given[name]
            is_text = isinstance(value, str) and (value != "" or name == "separator")
            if not is_text and (value is not None or name in ("output", "labels_output")):
                raise OptionError(f"{name} must be a non-empty string, not {reprlib.repr(value)}")
        if not isinstance(chat_template, str | Path | None):
            raise OptionError(
                f"chat_template must be the text of a template or a Path to it, not {reprlib.repr(chat_template)}"
            )
        if not isinstance(counts, str | os.PathLike | None) or counts == "":
            raise OptionError(f"counts must be a directory, not {reprlib.repr(counts)}")
        if labels is not None and output == labels_output:
            raise OptionError(f"output and labels_output must differ, and both are {output!r}")
        ignored = whole("ignore_index", ignore_index, -(2**63))
        if tokenizer is not None and not isinstance(tokenizer, Tokenizer):
            tokenizer = Tokenizer(tokenizer)
        values = given | {
            "tokenizer": tokenizer,
            "text": (text,) if isinstance(text, str) else tuple(listed("text", text)),
            "bos": token_id_of("bos", bos, tokenizer),
            "eos": token_id_of("eos", eos, tokenizer),
            "chat_template": template_text(chat_template),
            "template_kwargs": template_kwargs_of(template_kwargs),
            "ignore_index": ignored,
            "counts": default_counts() if counts is None else os.fspath(counts),
            "max_document_bytes": byte_count(max_document_bytes, "max_document_bytes"),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        self._check_source()
        self._check_template()
        # Says now what the tokenizer or the template cannot do.
        _ = self._native

    @property
    def _sources(self) -> list[str] | None:
        """Names of the source columns; ``None`` if a function gets all of them."""
        if self.function is not None:
            return list(self.text) or None
        named = (*self.text, self.messages, self.prompt, self.completion, self.tools, self.documents)
        return [name for name in named if name is not None]

    @cached_property
    def fingerprint(self) -> str:
        """Identifies what determines the ids, as 32 hexadecimal digits."""
        unrelated = {
            "function",
            "tokenizer",
            "output",
            "labels_output",
            "dtype",
            "counts",
            "max_document_bytes",
            "on_unlabelled",
        }
        identity = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in unrelated}
        identity["tokenization"] = TOKENIZATION_VERSION
        identity["tokenizer"] = self.tokenizer and self.tokenizer.fingerprint
        identity["function"] = None if self.function is None else name_of(self.function)
        identity["chat_template"] = self._template
        if self._tool_template is not None:
            identity["tool_template"] = self._tool_template
        if self._named_roles:
            identity["roles"] = self._named_roles
        # Variables may come in any order. A template may show the order of the keys inside of them.
        identity["template_kwargs"] = dict(sorted(self.template_kwargs.items()))
        return digest(dict(sorted(identity.items())))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tokenize):
            return NotImplemented
        # Tokenizers are equal by their ids alone. The fingerprint also has the templates and roles of their directories.
        names = [field.name for field in fields(self)]
        is_equal = all(getattr(self, name) == getattr(other, name) for name in names)
        return is_equal and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        defaults = {name: option.default for name, option in inspect.signature(type(self)).parameters.items()}
        defaults |= {"template_kwargs": {}, "counts": default_counts()}
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        given = {name: value for name, value in values.items() if value != defaults[name]}
        for name in ("bos", "eos"):
            if name in given and self.tokenizer is not None:
                given[name] = native_tokenizer(self.tokenizer).token(given[name]) or given[name]
        text = given.pop("text", ())
        shown = [repr(text[0] if len(text) == 1 else list(text))] if text else []
        return f"Tokenize({', '.join([*shown, *(f'{name}={_short(value)}' for name, value in given.items())])})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_native"}

    @property
    def outputs(self) -> list[str]:
        """Names of the columns that are computed."""
        return [self.output] if self.labels is None else [self.output, self.labels_output]

    @property
    def _template(self) -> str | None:
        """The chat template; ``None`` if there is none, or none is needed."""
        if self.messages is None and self.completion is None:
            return None
        if self.chat_template is not None:
            return self.chat_template
        return self.tokenizer and native_tokenizer(self.tokenizer).chat_template

    @property
    def _tool_template(self) -> str | None:
        """The template for rows with tools, if the directory has another one for them."""
        if self._template is None or self.chat_template is not None or self.tools is None or self.tokenizer is None:
            return None
        return native_tokenizer(self.tokenizer).tool_template

    @property
    def _named_roles(self) -> dict[str, str]:
        """The special tokens of the directory that a template names, by role, such as ``eos_token``."""
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
        given = [name for name in ("messages", "completion", "function") if getattr(self, name) is not None]
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
        if source == "function" and (not callable(self.function) or not isinstance(self.version, str)):
            raise OptionError(
                "function must be a function, with version= a string that changes when its results change"
            )
        if self.function is None and self.version is not None:
            raise OptionError("version is for function")
        if source == "text" and (len(self.text) > 1) != (self.separator is not None):
            raise OptionError(
                "several text columns need a separator\nhint: pass separator= the text between them, such as two line breaks"
                if self.separator is None
                else "separator is for several text columns"
            )
        wanted = {"assistant": "messages", "completion": "completion", "function": "function"}
        if self.labels in wanted and wanted[self.labels] != source:
            raise OptionError(f"labels={self.labels!r} is for {wanted[self.labels]}, and the source is {source}")
        if source == "function" and self.labels not in (None, "function"):
            raise OptionError(f"labels must be None or 'function' for a function, not {reprlib.repr(self.labels)}")
        for name, used_by in _USED_BY.items():
            value = getattr(self, name)
            # A token may have the id 0, which equals False.
            is_unset = value is None or value is False or value == _DEFAULTS.get(name, {})
            if not is_unset and source not in used_by:
                raise OptionError(f"{name} is for {' and '.join(used_by)}, and the source is {source}")
        json_of(self.template_kwargs)
        if reserved := _RESERVED.intersection(self.template_kwargs):
            raise OptionError(f"template_kwargs cannot set {', '.join(sorted(reserved))}, which come from the columns")
        if "add_generation_prompt" in self.template_kwargs:
            raise OptionError("template_kwargs cannot set add_generation_prompt: training data end with the answer")
        if source == "messages":
            if self.special_in_text == "text":
                raise OptionError("special_in_text='text' is not for messages, whose template writes special tokens")
            if self._template is None:
                raise OptionError(
                    "the directory of the tokenizer has no chat template\nhint: set chat_template= to the template, or to the Path of its file"
                )

    def _check_template(self) -> None:
        if not self.add_special_tokens or self.tokenizer is None:
            return
        prefix, suffix = native_tokenizer(self.tokenizer).template
        for name, id, added in (("bos", self.bos, prefix), ("eos", self.eos, suffix)):
            if id is not None and id in added:
                raise OptionError(
                    f"add_special_tokens=True adds token {id} already, which is {name}\nhint: remove {name}=, or add_special_tokens"
                )

    @cached_property
    def _native(self) -> _native.Tokens:
        columns = self.output, self.dtype == "int64", None if self.labels is None else self.labels_output
        counts = f"{self.counts}/{self.fingerprint}"
        if self.tokenizer is None:
            assert self.function is not None
            return _native.Tokens.of_function(
                TokenFunction(self.function, self.outputs, self.dtype), columns=columns, counts=counts
            )
        return _native.Tokens(
            native_tokenizer(self.tokenizer),
            self._input(self.tokenizer),
            bos=self.bos,
            eos=self.eos,
            add_special_tokens=self.add_special_tokens,
            special_in_text=self.special_in_text,
            has_empty_nulls=self.nulls == "fill",
            is_lossy=self.invalid == "replace",
            max_document_bytes=self.max_document_bytes,
            labels=None
            if self.labels is None
            else (self.ignore_index, self.labels != "all", self.on_unlabelled == "raise"),
            columns=columns,
            counts=counts,
        )

    def _input(self, tokenizer: Tokenizer) -> _native.TokenInput:
        if self.messages is None and self.completion is None:
            return _native.TokenInput.texts(self.separator or "")
        chat, reason = None, "the tokenizer has none; pass chat_template="
        try:
            chat = self._chat(tokenizer)
        except (FormatError, OptionError) as error:
            # Texts need no template, whatever the directory has.
            if self.messages is not None or self.chat_template is not None:
                raise
            reason = f"that of the tokenizer cannot be used: {error}"
        return chat if chat is not None and self.messages is not None else _native.TokenInput.completion(chat, reason)

    def _chat(self, tokenizer: Tokenizer) -> _native.TokenInput | None:
        template = self._template
        if template is None:
            return None
        return _native.TokenInput.chat(
            native_tokenizer(tokenizer),
            (template, self._tool_template),
            now=self.now,
            by_prefix=self.assistant_spans == "prefix",
            template_kwargs=json_of(self.template_kwargs),
            has_tools=self.tools is not None,
            has_documents=self.documents is not None,
        )


def native_tokens(tokenize: Tokenize, paths: Sequence[str]) -> tuple[_native.Tokens, list[str] | None]:
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


#: The sources that an option is for, if not for all.
_USED_BY = {
    "bos": ("text", "completion"),
    "eos": ("text", "completion"),
    "add_special_tokens": ("text", "completion"),
    "separator": ("text",),
    "chat_template": ("messages", "completion"),
    "assistant_spans": ("messages",),
    "tools": ("messages", "completion"),
    "documents": ("messages", "completion"),
    "template_kwargs": ("messages", "completion"),
    "now": ("messages", "completion"),
    "special_in_text": ("text", "messages", "completion"),
    "nulls": ("text", "messages", "completion"),
    "invalid": ("text", "messages", "completion"),
    "max_document_bytes": ("text", "messages", "completion"),
}

#: Those of these options that are never ``None``, ``False`` or empty.
_DEFAULTS = {"assistant_spans": "generation", "nulls": "raise", "invalid": "raise", "max_document_bytes": _MOST_BYTES}


#: Variables of a template that the rows determine.
_RESERVED = {"messages", "tools", "documents"}


def _short(value: Any) -> str:
    """Return the ``repr`` of a value, without most of a long text."""
    is_long = isinstance(value, str) and len(value) > _SHOWN
    return repr(f"{value[:_SHOWN]}…" if is_long else value)
