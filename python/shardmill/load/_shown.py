"""Short descriptions of batches and their columns.

They show types and shapes, and only the start of long values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from reprlib import Repr
from typing import Any

_BYTES_SHOWN = 16


class _Short(Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxdict, self.maxlist, self.maxtuple, self.maxset = 3, 6, 4, 4, 4
        self.maxstring = self.maxother = 60
        self.fillvalue = "…"

    def repr_bytes(self, x: bytes, level: int) -> str:
        """Return the first bytes and the length."""
        if len(x) <= 2 * _BYTES_SHOWN:
            return repr(x)
        return f"{x[:_BYTES_SHOWN]!r}… ({len(x):,} bytes)"

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        """Return the first entries, in their order."""
        if level <= 0 and x:
            return "{…}"
        shown = [
            f"{self.repr1(name, level - 1)}: {self.repr1(x[name], level - 1)}"
            for name in islice(x, self.maxdict)
        ]
        return f"{{{', '.join(shown)}{', …' if len(x) > self.maxdict else ''}}}"

    def repr_ndarray(self, x: Any, level: int) -> str:
        """Return type and shape."""
        return described(x)


_short = _Short()


def shortened(value: Any) -> str:
    """Return the representation of a value of any size in about a line."""
    return _short.repr(value)


def described(value: Any) -> str:
    """Return the type and shape of a column, or of a value that a user has put in its place."""
    if own := getattr(type(value), "_described", None):
        return own(value)
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if dtype is not None and isinstance(shape, tuple):
        kind = type(value).__name__.removeprefix("nd").lower()
        device = str(getattr(value, "device", "cpu"))
        place = "" if device == "cpu" else f" on {device}"
        return f"{kind} {str(dtype).removeprefix('torch.')} {list(shape)}{place}"
    if type(value) is list:
        kind = next((type(one).__name__ for one in value if one is not None), "None")
        return f"list [{len(value)}] of {kind}"
    return shortened(value)


def lines(
    columns: Mapping[Any, Any], kind: type[dict[Any, Any]], indent: str = "  "
) -> Iterator[str]:
    """Yield a line for each column.

    Below a column of type ``kind``, there is a line for each of its fields.
    """
    width = max((len(str(name)) for name in columns), default=0)
    for name, column in columns.items():
        is_nested = isinstance(column, kind) and column is not columns
        yield f"{indent}{name!s:{width}}  {kind.__name__ if is_nested else described(column)}"
        if is_nested:
            yield from lines(column, kind, f"{indent}  ")
