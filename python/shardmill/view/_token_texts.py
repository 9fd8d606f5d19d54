"""Texts of single tokens, in parts that the page can show."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from shardmill.data._tokenizer import native_tokenizer

if TYPE_CHECKING:
    from shardmill.data._tokenizer import Tokenizer
    from shardmill.view._token_columns import TokenColumns

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
#: The tokens that may make up one character: it has at most four bytes.
_MOST_OF_CHARACTER = 4
#: Distinct tokens of a text in any language; the vocabulary may be larger.
_KEPT = 100_000


def _byte_alphabet() -> dict[str, int]:
    """Return the byte of each character in which byte-level models write their tokens."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = (byte for byte in range(256) if byte not in printable)
    return {chr(byte): byte for byte in printable} | {
        chr(0x100 + at): byte for at, byte in enumerate(others)
    }


_ALPHABET = _byte_alphabet()


class TokenTexts:
    """The texts of the ids of one tokenizer."""

    def __init__(self, columns: TokenColumns) -> None:
        self._columns = columns
        self._tokenizer = columns.tokenizer
        self._known: dict[int | None, tuple[bytes, dict[str, Any]]] = {}

    def cell(
        self,
        ids: Any,
        labels: Any | None,
        most: int,
        pictures: Sequence[dict[str, Any]] = (),
    ) -> dict[str, Any]:
        """Return the first ``most`` tokens of an Arrow array of ids.

        The result also has what the page shows about all of them.

        Args:
            ids: the tokens.
            labels: their labels, if there are any.
            most: how many are shown.
            pictures: images in order, each in place of its ``tokens`` tokens from ``start`` on.

        Returns:
            ``length``, the number of tokens; ``shown``, how many of them are shown; ``pictures``,
            the number of images; ``labelled``, the number of tokens with a label, if there are
            labels; and ``tokens``, each of which is a picture or has ``id``, ``kind``, ``parts`` as
            pairs of a kind and a text, and ``spelling``, the token as the tokenizer's file writes
            it. A token of an incomplete character has ``of``, the character that it makes together
            with its neighbors.
        """
        tokens: list[dict[str, Any]] = []
        shown = 0
        for picture in (*pictures, None):
            start = len(ids) if picture is None else picture["start"]
            count = min(start - shown, most - len(tokens))
            tokens += self._run(ids, labels, shown, count)
            shown += count
            if picture is None or shown < start or len(tokens) == most:
                break
            tokens.append(picture)
            shown += picture["tokens"]
        facts = {"length": len(ids), "shown": shown, "pictures": len(pictures)}
        cell = facts | {"tokens": tokens}
        return cell if labels is None else cell | self._labelled(len(ids), labels)

    def _run(self, ids: Any, labels: Any | None, start: int, count: int) -> list[dict[str, Any]]:
        """Return ``count`` tokens from ``start`` on."""
        run = [self._of(number) for number in ids.slice(start, count).to_pylist()]
        tokens = [dict(facts) for _, facts in run]
        for first, end, text in _characters([raw for raw, _ in run]):
            for token in tokens[first:end]:
                token["of"] = text
        of_tokens = [] if labels is None else labels.slice(start, count).to_pylist()
        for token, label in zip(tokens, of_tokens, strict=False):
            token["label"] = None if label == self._columns.ignore_index else label
        return tokens

    def _labelled(self, length: int, labels: Any) -> dict[str, Any]:
        import pyarrow.compute as pc

        is_labelled = pc.call_function("not_equal", [labels, self._columns.ignore_index])
        facts: dict[str, Any] = {"labelled": pc.call_function("sum", [is_labelled]).as_py() or 0}
        return (
            facts
            if len(labels) == length
            else facts | {"note": f"{len(labels):,} labels of {length:,} tokens"}
        )

    def _of(self, number: int | None) -> tuple[bytes, dict[str, Any]]:
        found = self._known.get(number)
        if found is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            found = self._known[number] = self._looked_up(number)
        return found

    def _looked_up(self, number: int | None) -> tuple[bytes, dict[str, Any]]:
        facts: dict[str, Any] = {"id": number, "kind": "token", "spelling": ""}
        if self._tokenizer is None or number is None:
            text = "null" if number is None else str(number)
            return b"", facts | {"kind": "number", "parts": [["text", text]]}
        tokenizer = self._tokenizer
        spelling = spelling_of(tokenizer, number)
        if spelling is None:
            return b"", facts | {"kind": "unknown", "parts": [["text", str(number)]]}
        facts["spelling"] = spelling
        if any(number == id for _, id in native_tokenizer(tokenizer).special_tokens):
            facts["kind"] = "special"
        raw = _bytes_of(tokenizer, number, spelling)
        return raw, facts | {"parts": _parts(raw)}


def spelling_of(tokenizer: Tokenizer, id: int) -> str | None:
    """Return a token as its tokenizer's file writes it.

    It is None for an id that is not in the vocabulary.
    """
    return native_tokenizer(tokenizer).token(id) if 0 <= id < tokenizer.vocab_size else None


def _bytes_of(tokenizer: Tokenizer, number: int, spelling: str) -> bytes:
    """Return what a token adds to a text after another token. It need not be whole characters."""
    alone = tokenizer.decode([number])
    if _REPLACEMENT in alone:
        byte = _BYTE.fullmatch(spelling)
        raw = (
            bytes([int(byte[1], 16)])
            if byte
            else bytes(_ALPHABET.get(mark, 0) for mark in spelling)
        )
        if raw.decode(errors="replace") == alone:
            return raw
    # Decoders may remove the space at the start of a text.
    twice = tokenizer.decode([number, number])
    text = twice[len(alone) :] if twice.startswith(alone) else ""
    return (text or spelling).encode(errors="replace")


def _parts(raw: bytes) -> list[list[str]]:
    """Return the text as pairs of a kind and a text.

    Bytes and characters that cannot be seen are written as their numbers.
    """
    parts: list[list[str]] = []
    for kind, marks in groupby(raw.decode(errors="surrogateescape"), _kind):
        text = "".join(marks)
        if kind == "byte":
            text = "".join(f"<0x{ord(mark) - 0xDC00:02X}>" for mark in text)
        elif kind == "code":
            text = "".join(f"<U+{ord(mark):04X}>" for mark in text)
        parts += [[kind, mark] for mark in text] if kind in ("newline", "tab") else [[kind, text]]
    return parts


def _kind(mark: str) -> str:
    if mark in " \n\t":
        return {" ": "space", "\n": "newline", "\t": "tab"}[mark]
    if "\udc80" <= mark <= "\udcff":
        return "byte"
    return "text" if mark.isprintable() else "code"


def _characters(pieces: Sequence[bytes]) -> Iterator[tuple[int, int, str]]:
    """Yield runs of tokens that make characters only together.

    Each run is its start, its end and the text.
    """
    start = 0
    for end, piece in enumerate(pieces, 1):
        if _text(piece) is not None:
            start = end
            continue
        start = max(start, end - _MOST_OF_CHARACTER)
        text = _text(b"".join(pieces[start:end]))
        if text is not None:
            yield start, end, text.strip()
            start = end


def _text(piece: bytes) -> str | None:
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return None
