r"""Escape data that is shown on a terminal.

File names and file contents are untrusted. A control character in them could move the cursor, set
the window title or reverse the reading direction, so the terminal would not show the actual data.
Invariant: such characters are printed as JSON escapes, ``\u001b``, so printed JSON stays valid.
Commands print no control characters except their own newlines and tabs.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

#: Control characters, invisible characters (bidi, zero width), lone surrogates, and line and
#: paragraph separators.
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")


def escape(text: object, keep: str = "") -> str:
    r"""Return ``text`` as one line that is safe on a terminal.

    Args:
        text: any object; it is converted with ``str``.
        keep: control characters that are not escaped.

    Examples:
        >>> from shardmill._terminal import escape
        >>> print(escape("a\x1b[31mb\nc"))
        a\u001b[31mb\nc
    """
    text = str(text)
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() or mark in keep else _escaped(mark) for mark in text)


def _escaped(mark: str) -> str:
    if unicodedata.category(mark) not in _HIDDEN:
        return mark
    return _SHORT.get(mark) or _code_units(mark)


def _code_units(mark: str) -> str:
    units = mark.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _encodable(text: str, encoding: str) -> str:
    """Return ``text`` with JSON escapes for the characters that the encoding lacks."""

    def is_encodable(mark: str) -> bool:
        try:
            mark.encode(encoding)
        except UnicodeEncodeError:
            return False
        return True

    return "".join(mark if is_encodable(mark) else _code_units(mark) for mark in text)


def aligned(lines: Sequence[Sequence[str]], *, to_the_right: Sequence[bool]) -> list[str]:
    """Format cells as aligned columns."""
    if not lines:
        return []
    lines = [[escape(cell) for cell in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    placed = [
        [
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(line, widths, to_the_right, strict=True)
        ]
        for line in lines
    ]
    return ["  ".join(line).rstrip() for line in placed]


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: ``1 file``, ``2 files``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def size_text(count: float) -> str:
    """Format a number of bytes for display: ``1.5 MiB``."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:,.0f} bytes" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"


class Escaping:
    """A text stream that escapes control characters, and characters that its encoding lacks.

    Newlines and tabs are the only control characters that are not escaped.

    Args:
        stream: the stream to write to; ``None`` if it is closed.
    """

    #: Not forwarded: bytes written to it would not be escaped.
    buffer = None

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write ``text``, escaped.

        Raises:
            TypeError: If ``text`` is bytes, so that callers can detect a text stream.
            BrokenPipeError: If the stream is closed.
        """
        if not isinstance(text, str):
            raise TypeError(f"a text stream does not accept {type(text).__name__}")
        self._write(escape(text, keep="\n\t"))
        return len(text)

    def _write(self, text: str) -> None:
        if self._stream is None:
            raise BrokenPipeError("the stream is closed")
        try:
            self._stream.write(text)
        except UnicodeEncodeError:
            self._stream.write(_encodable(text, self._stream.encoding))

    def writelines(self, lines: Any) -> None:
        """Write each of ``lines``, escaped."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush the wrapped stream."""
        if self._stream is not None:
            self._stream.flush()

    def redraw(self, line: str) -> None:
        """Overwrite the current line with ``line``."""
        self._write("\r" + escape(line))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
