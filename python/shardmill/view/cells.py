"""Values of Arrow arrays as plain data for the page, cut where they are long.

Every value becomes a small tree of JSON whose leaves are texts; the page makes text of them and nothing else. Images become a reference:
the row and the path within it, by which the page asks for their bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from shardmill.view.images import image_format, measured

#: A column's name, then places within lists and structs.
Path = Sequence[str | int]

_HEX_BYTES = 24
_DEEPEST = 8


@dataclass(frozen=True)
class Limits:
    """Where values are cut."""

    characters: int = 2_000
    items: int = 24
    fields: int = 48

    @classmethod
    def for_page(cls, cells: int) -> Limits:
        """So that a page of so many cells stays a few megabytes."""
        share = 3_000_000 // max(cells, 1)
        return cls(characters=min(2_000, max(120, share)), items=min(24, max(4, share // 40)))


@dataclass(frozen=True)
class Cells:
    """Turns the values of one row into cells.

    Attributes:
        row: its number.
        limits: where values are cut.
        on_image: is told the path and the bytes of each image.
    """

    row: int
    limits: Limits
    on_image: Callable[[int, Path, Any], None]

    def cell(self, value: Any, path: Path) -> dict[str, Any]:
        """Of a ``pyarrow.Scalar``."""
        import pyarrow as pa

        value = plain_scalar(value)
        if not value.is_valid:
            return {"kind": "null"}
        if len(path) > _DEEPEST:
            return {"kind": "note", "text": "… deeper values are not shown"}
        if isinstance(value, pa.StructScalar):
            return self._struct(value, path)
        if hasattr(value, "values"):
            # Lists of every kind, and maps.
            return self._list(value.values, path)
        # Before bytes: pyarrow's texts are a kind of them.
        if isinstance(value, pa.StringScalar | pa.LargeStringScalar | pa.StringViewScalar):
            return text_cell(value.as_buffer(), self.limits.characters)
        if isinstance(value, pa.BinaryScalar | pa.LargeBinaryScalar | pa.BinaryViewScalar):
            return self._bytes(value.as_buffer(), path)
        return {"kind": "value", "text": scalar_text(value)}

    def _list(self, values: Any, path: Path) -> dict[str, Any]:
        shown = min(len(values), self.limits.items)
        items = [self.cell(values[place], [*path, place]) for place in range(shown)]
        return {"kind": "list", "items": items, "length": len(values)}

    def _struct(self, value: Any, path: Path) -> dict[str, Any]:
        names = [field.name for field in value.type]
        shown = names[: self.limits.fields]
        fields = [[name, self.cell(value[place], [*path, place])] for place, name in enumerate(shown)]
        return {"kind": "struct", "fields": fields, "length": len(names)}

    def _bytes(self, buffer: Any, path: Path) -> dict[str, Any]:
        kind = image_format(buffer)
        if kind is not None:
            self.on_image(self.row, path, buffer)
            return {"kind": "image", "row": self.row, "path": list(path), "bytes": len(buffer)} | measured(buffer, kind)
        text = text_cell(buffer, self.limits.characters)
        if all(mark.isprintable() or mark in "\t\n\r" for mark in text["text"]) and "�" not in text["text"]:
            return text
        first = bytes(buffer[:_HEX_BYTES]).hex(" ")
        return {"kind": "bytes", "text": first, "length": len(buffer), "cut": len(buffer) > _HEX_BYTES}


def plain_scalar(value: Any) -> Any:
    """What a dictionary or an extension type stores."""
    import pyarrow as pa

    while isinstance(value, pa.DictionaryScalar | pa.ExtensionScalar) and value.is_valid:
        value = value.value
    return value


def found(value: Any, path: Path) -> Any:
    """The scalar at ``path``, below the column.

    Raises:
        LookupError: when there is none.
    """
    for place in path:
        value = plain_scalar(value)
        if not value.is_valid or not isinstance(place, int) or place < 0:
            raise LookupError("there is no such value")
        inner = getattr(value, "values", None)
        # Of a struct, `values` is a method.
        value = value[place] if inner is None or callable(inner) else inner[place]
    return plain_scalar(value)


def text_cell(buffer: Any, characters: int) -> dict[str, Any]:
    """The start of UTF-8 text; what is none becomes U+FFFD."""
    # A character has at most four bytes; one that the cut broke is left out.
    start = bytes(buffer[: characters * 4 + 4])
    is_whole = len(start) == len(buffer)
    text = start.decode(errors="replace")
    if not is_whole:
        text = text[:-4] if len(text) > 4 else text
    shown = text[:characters]
    is_cut = not is_whole or len(shown) < len(text)
    return {"kind": "text", "text": shown} | ({"cut": True, "length": len(buffer)} if is_cut else {})


def scalar_text(value: Any) -> str:
    """A number, time or the like, as text."""
    import pyarrow as pa

    try:
        plain = value.as_py()
        if isinstance(plain, bool):
            return "true" if plain else "false"
        if isinstance(plain, float):
            return repr(plain) if math.isfinite(plain) else str(plain)
        return str(plain)
    except (ValueError, OverflowError, ImportError, pa.ArrowException):
        # Nanoseconds and years that Python has no object for.
        try:
            return str(value.cast(pa.string()).as_py())
        except pa.ArrowException:
            return "a value that Python has no text for"
