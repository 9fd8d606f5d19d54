"""Converts Arrow values to plain data for the page, truncated if they are long.

Every value becomes a small JSON tree whose leaves are strings. An image becomes a reference: the
row and the path within it, by which the page requests its bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shardmill._native import images as native
from shardmill.curate._pictures import image_format
from shardmill.data._nanoseconds import exact_time

#: A column name, then positions within lists and structs.
Path = Sequence[str | int]

_HEX_BYTES = 24
_DEEPEST = 8
_MOST_FIELDS = 48


@dataclass(frozen=True)
class Cells:
    """Convert the values of one row to cells.

    Attributes:
        row: index of the row.
        characters: maximum number of characters shown of a string.
        items: maximum number of items shown of a list.
    """

    row: int
    characters: int = 2_000
    items: int = 24

    def cell(self, value: Any, path: Path) -> dict[str, Any]:
        """Convert a ``pyarrow.Scalar``."""
        import pyarrow as pa

        value = plain_scalar(value)
        if not value.is_valid:
            return {"kind": "null"}
        if len(path) > _DEEPEST:
            return {"kind": "note", "text": "… deeper values are not shown"}
        if isinstance(value, pa.StructScalar):
            names = [field.name for field in value.type]
            fields = [
                [name, self.cell(value[at], [*path, at])]
                for at, name in enumerate(names[:_MOST_FIELDS])
            ]
            return {"kind": "struct", "fields": fields, "length": len(names)}
        if hasattr(value, "values"):
            # All kinds of lists, and maps.
            values = value.values
            items = [
                self.cell(values[at], [*path, at]) for at in range(min(len(values), self.items))
            ]
            return {"kind": "list", "items": items, "length": len(values)}
        # Before bytes: pyarrow's string scalars are a subclass of binary scalars.
        if isinstance(value, pa.StringScalar | pa.LargeStringScalar | pa.StringViewScalar):
            return text_cell(value.as_buffer(), self.characters)
        if isinstance(value, pa.BinaryScalar | pa.LargeBinaryScalar | pa.BinaryViewScalar):
            return self._bytes(value.as_buffer(), path)
        return {"kind": "value", "text": scalar_text(value)}

    def _bytes(self, buffer: Any, path: Path) -> dict[str, Any]:
        kind = image_format(buffer)
        if kind is not None:
            return self._image(bytes(buffer), kind, path)
        text = text_cell(buffer, self.characters)
        if (
            all(mark.isprintable() or mark in "\t\n\r" for mark in text["text"])
            and "�" not in text["text"]
        ):
            return text
        # After text: some of these formats begin like text.
        unsupported = native.unsupported_name(bytes(buffer))
        if unsupported is not None:
            return self._image(bytes(buffer), unsupported, path)
        first = bytes(buffer[:_HEX_BYTES]).hex(" ")
        return {
            "kind": "bytes",
            "text": first,
            "length": len(buffer),
            "cut": len(buffer) > _HEX_BYTES,
        }

    def _image(self, payload: bytes, kind: str, path: Path) -> dict[str, Any]:
        facts = {
            "kind": "image",
            "row": self.row,
            "path": list(path),
            "bytes": len(payload),
            "format": kind,
        }
        try:
            facts["width"], facts["height"] = native.image_size(payload)
            return facts | ({"pages": native.tiff_pages(payload)} if kind == "tiff" else {})
        except ValueError:
            return facts | {"note": "its header cannot be read"}


def plain_scalar(value: Any) -> Any:
    """Return the value stored by a dictionary or an extension type."""
    import pyarrow as pa

    while isinstance(value, pa.DictionaryScalar | pa.ExtensionScalar) and value.is_valid:
        value = value.value
    return value


def buffer_of(value: Any) -> Any | None:
    """Return the bytes of a string or binary value; None for other values and for null."""
    value = plain_scalar(value)
    return value.as_buffer() if value.is_valid and hasattr(value, "as_buffer") else None


def found(value: Any, path: Path) -> Any:
    """Return the scalar at ``path``, below the column.

    Raises:
        LookupError: If it does not exist.
    """
    for place in path:
        value = plain_scalar(value)
        if not value.is_valid or not isinstance(place, int) or place < 0:
            raise LookupError("there is no such value")
        inner = getattr(value, "values", None)
        # For a struct, `values` is a method.
        value = value[place] if inner is None or callable(inner) else inner[place]
    return plain_scalar(value)


def text_cell(buffer: Any, characters: int) -> dict[str, Any]:
    """Return the start of UTF-8 text; invalid bytes become U+FFFD."""
    # A character has at most four bytes; one that was truncated is omitted.
    start = bytes(buffer[: characters * 4 + 4])
    text = start.decode(errors="replace")
    if len(start) < len(buffer):
        text = text[:-4]
    shown = text[:characters]
    is_cut = len(start) < len(buffer) or len(shown) < len(text)
    return {"kind": "text", "text": shown} | (
        {"cut": True, "length": len(buffer)} if is_cut else {}
    )


def scalar_text(value: Any) -> str:
    """Return a number, time or similar value as a string."""
    import pyarrow as pa

    try:
        exact = exact_time(value)
        plain = value.as_py() if exact is None else exact
        if isinstance(plain, bool):
            return "true" if plain else "false"
        return repr(plain) if isinstance(plain, float) and math.isfinite(plain) else str(plain)
    except (ValueError, OverflowError, ImportError, pa.ArrowException):
        # Years that Python objects cannot represent.
        try:
            return str(value.cast(pa.string()).as_py())
        except pa.ArrowException:
            return "a value that Python cannot format"
