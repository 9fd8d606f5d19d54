"""Tokenizers: text to token ids, without the GIL."""

from __future__ import annotations

import os
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from shardmill._native import tokens as _native
from shardmill._option_values import index_of
from shardmill._threads import checked_threads
from shardmill._warnings import warn_caller
from shardmill.errors import NotFoundError, OptionError
from shardmill.storage._paths import served_path

SpecialInText = Literal["text", "id", "raise"]

#: The name of a repository of Hugging Face.
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+|[\w-]+", re.ASCII)

#: What was warned about in this process.
_WARNED: set[str] = set()

#: Ids are stored in 32 bits.
_HIGHEST_ID = 2**32 - 1

#: Tables of the tokenizer are by id.
_HIGHEST_SPECIAL_ID = 2**24 - 1


class Tokenizer:
    """Encodes text as token ids, natively and on several threads.

    Reads ``tokenizer.json`` (Hugging Face), ``tekken.json`` (Mistral), ``.tiktoken`` (OpenAI) and
    SentencePiece ``.model`` files. Ids are those of each format's own library, except at code
    points whose Unicode properties have changed since that library's tables were made. No special
    token is added to a text.

    Args:
        path: a file, or a directory with one of these files. In a directory,
            ``tokenizer_config.json``, ``special_tokens_map.json``, ``added_tokens.json``,
            ``chat_template.jinja`` and ``additional_chat_templates/tool_use.jinja`` add tokens, the
            roles of special tokens and the chat templates. A setting that would change ids and is
            not supported raises an error. The path may be in an object store.
        pattern: for ``.tiktoken`` files, which do not contain it: ``"gpt2"``, ``"cl100k"``,
            ``"o200k"``, or a regular expression.
        special_tokens: for ``.tiktoken`` files: id of each special token.

    Raises:
        FileNotFoundError: If there is no tokenizer.
        ValueError: If a file is not valid, or an option is missing or does not apply.

    Examples:
        >>> import json
        >>> from pathlib import Path
        >>> vocabulary = {"[UNK]": 0, "hello": 1, "world": 2}
        >>> model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"}
        >>> text = json.dumps(
        ...     {
        ...         "version": "1.0",
        ...         "added_tokens": [],
        ...         "pre_tokenizer": {"type": "Whitespace"},
        ...         "model": model,
        ...     }
        ... )
        >>> _ = Path("tokenizer.json").write_text(text)
        >>> import shardmill as sm
        >>> tokenizer = sm.Tokenizer("tokenizer.json")
        >>> tokenizer.encode("hello world"), tokenizer.decode([2, 1])
        ([1, 2], 'world hello')
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        pattern: str | None = None,
        special_tokens: Mapping[str, int] | None = None,
    ) -> None:
        if not isinstance(path, str | os.PathLike):
            raise OptionError(
                "the tokenizer must be the path of a file or directory, "
                f"not {type(path).__name__}\n"
                "hint: save it first: tokenizer.save_pretrained(directory), "
                "or tokenizer.save(file) with the tokenizers library"
            )
        if pattern is not None and not isinstance(pattern, str):
            raise OptionError(f"pattern must be a string, not {reprlib.repr(pattern)}")
        special = None if special_tokens is None else _checked_special_tokens(special_tokens)
        try:
            native = _native.Tokenizer.open(served_path(path), pattern, special)
        except NotFoundError as error:
            if Path(path).exists() or _REPOSITORY.fullmatch(str(path)) is None:
                raise
            hint = (
                "check the path, or download the repository first: "
                f"hf download {path} --local-dir DIR, and pass DIR"
            )
            raise NotFoundError(f"{str(error).partition(chr(10))[0]}\nhint: {hint}") from None
        self._set(native, pattern, special)
        if ignored := self._native.ignored:
            message = f"`{self._native.path}` has {' and '.join(ignored)}, which are not applied"
            if message not in _WARNED:
                _WARNED.add(message)
                warn_caller(f"{message}\nhint: remove them from the file to silence this warning")

    def _set(self, native: Any, pattern: str | None, special_tokens: dict[str, int] | None) -> None:
        self._native = native
        self._options = (pattern, special_tokens)

    def encode(
        self, text: str, *, special_in_text: SpecialInText = "text", threads: int | None = None
    ) -> list[int]:
        """Return the ids of a text. An empty text has none.

        Args:
            text: the text. Long texts are encoded in pieces, with the same result.
            special_in_text: what happens to a special token that is spelled out in the text.
                ``"text"`` encodes it as any other text, ``"id"`` as its id, and ``"raise"`` raises.
                In ``tekken.json`` and ``.model`` files, text is never a control token, and ``"id"``
                raises.
            threads: number of threads for the pieces of a long text; the number of cores by
                default.

        Raises:
            ValueError: If the text contains a special token and ``special_in_text="raise"``, or
                ``"id"`` is not possible.
        """
        return self._native.encode(
            _checked_text(text), special_in_text, max(checked_threads(threads), 1)
        )

    def encode_batch(
        self,
        texts: Iterable[str],
        *,
        special_in_text: SpecialInText = "text",
        threads: int | None = None,
    ) -> list[list[int]]:
        """Return the ids of each text.

        Args:
            texts: the texts.
            special_in_text: as for ``encode``.
            threads: number of threads; the number of cores by default.

        Raises:
            ValueError: As for ``encode``; the message has the index of the text.
        """
        if isinstance(texts, str):
            raise OptionError(f"texts must be a list of strings, not {reprlib.repr(texts)}")
        checked = [_checked_text(text) for text in texts]
        return self._native.encode_batch(checked, special_in_text, max(checked_threads(threads), 1))

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids, special tokens included.

        Bytes that are not valid UTF-8 become U+FFFD.

        Raises:
            ValueError: If an id is not in the vocabulary.
        """
        return self._native.decode([_checked_id(number) for number in ids])

    def token_id(self, token: str) -> int:
        """Return the id of a token.

        Raises:
            ValueError: If there is no such token. The message lists similar ones.
        """
        return self._native.required_id(_checked_text(token, "a token"))

    @property
    def vocab_size(self) -> int:
        """One more than the highest id."""
        return self._native.vocab_size

    @property
    def fingerprint(self) -> str:
        """32 hexadecimal digits that identify what determines ids.

        Reformatting a file does not change them.
        """
        return self._native.fingerprint

    def __repr__(self) -> str:
        return (
            f"Tokenizer({self._native.path!r}, "
            f"vocab_size={self.vocab_size}, fingerprint={self.fingerprint!r})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokenizer) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __reduce__(self) -> tuple[Callable[..., Tokenizer], tuple[Any, ...]]:
        # The contents, since a process on another machine may not have the files.
        return Tokenizer._from_files, (self._native.files(), *self._options)

    @staticmethod
    def _from_files(
        files: Any, pattern: str | None, special_tokens: dict[str, int] | None
    ) -> Tokenizer:
        tokenizer = object.__new__(Tokenizer)
        tokenizer._set(
            _native.Tokenizer.from_files(files, pattern, special_tokens), pattern, special_tokens
        )
        return tokenizer


def native_tokenizer(tokenizer: Tokenizer) -> _native.Tokenizer:
    """Return what encodes and decodes."""
    return tokenizer._native  # pyright: ignore[reportPrivateUsage]


def _checked_special_tokens(special_tokens: Any) -> dict[str, int]:
    if not isinstance(special_tokens, Mapping):
        raise OptionError(
            f"special_tokens must be a dict of ids by text, not {reprlib.repr(special_tokens)}"
        )
    return {
        _checked_text(token, "a special token"): _checked_id(
            number, f"the id of {reprlib.repr(token)}", _HIGHEST_SPECIAL_ID
        )
        for token, number in special_tokens.items()
    }


def _checked_text(text: Any, role: str = "a text") -> str:
    if not isinstance(text, str):
        raise OptionError(f"{role} must be a string, not {reprlib.repr(text)}")
    return text


def _checked_id(number: Any, role: str = "an id", highest: int = _HIGHEST_ID) -> int:
    checked = index_of(number)
    if checked is None or not 0 <= checked <= highest:
        raise OptionError(
            f"{role} must be an integer from 0 to {highest}, not {reprlib.repr(number)}"
        )
    return checked
