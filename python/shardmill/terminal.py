r"""Escapes data that is shown on a terminal.

File names and file contents are untrusted. A control character in them could move the cursor, set the window title or reverse the reading
direction, so the terminal would show something else than the data. The invariant: such characters are printed as JSON escapes them, ``\u001b``,
so printed JSON stays valid. Commands print no control characters except their own newlines and tabs.
"""

from __future__ import annotations

import unicodedata
from typing import Any

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

#: Control characters, invisible ones (bidi, zero width), halves of pairs, and ends of lines and paragraphs.
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")


def escape(text: object, keep: str = "") -> str:
    r"""``text`` as one line that is safe on a terminal.

    Args:
        text: anything; its ``str`` is taken.
        keep: control characters that are not escaped.

    Example:
        >>> from shardmill.terminal import escape
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
    if mark in _SHORT:
        return _SHORT[mark]
    code = ord(mark)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


class Escaping:
    """A text stream that escapes all control characters except newlines and tabs.

    Args:
        stream: where the text goes.
    """

    #: Not passed on: bytes written to it would not be escaped.
    buffer = None

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes ``text``, escaped.

        Raises:
            TypeError: for bytes, so that callers can detect a text stream.
        """
        if not isinstance(text, str):
            raise TypeError(f"a stream of text takes no {type(text).__name__}")
        self._stream.write(escape(text, keep="\n\t"))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Writes each of ``lines``, escaped."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flushes the wrapped stream."""
        self._stream.flush()

    def redraw(self, line: str) -> None:
        """Overwrites the line of the cursor with ``line``."""
        self._stream.write("\r" + escape(line))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
