"""Columns of a batch whose rows are Python objects. The objects are created on access."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from shardmill._native.columns import Objects
from shardmill._option_values import row_at
from shardmill.load._selection import is_selection, rows_at
from shardmill.load._shown import shortened


class _Column(Protocol):
    """The rows of a whole superbatch."""

    def __len__(self) -> int: ...

    def to_list(self, start: int, stop: int) -> list[Any]: ...

    def to_array(self, start: int, stop: int) -> np.ndarray: ...


class _List:
    """Objects that already exist."""

    def __init__(self, values: Iterable[Any]) -> None:
        self._values = list(values)

    def __len__(self) -> int:
        return len(self._values)

    def to_list(self, start: int, stop: int) -> list[Any]:
        return self._values[start:stop]

    def to_array(self, start: int, stop: int) -> np.ndarray:
        array = np.empty(stop - start, object)
        for place, value in enumerate(self._values[start:stop]):
            array[place] = value
        return array


class Span(NamedTuple):
    """Rows of a column, from which an array is made without a copy."""

    column: _Column
    start: int
    stop: int


class ObjectArray:
    """Rows that no tensor can hold, such as decimals, maps and lists of strings.

    Nulls are ``None``. The array compares equal to a list of the same values. ``numpy.asarray``
    converts it to an object array.

    Args:
        values: the rows.
    """

    __slots__ = ("_column", "_start", "_stop")
    __hash__ = None  # type: ignore[assignment] - as a list

    _column: _Column

    def __init__(self, values: Iterable[Any]) -> None:
        if not isinstance(values, Span):
            column = self._columned(values)
            values = Span(column, 0, len(column))
        self._column, self._start, self._stop = values

    @staticmethod
    def _columned(values: Iterable[Any]) -> _Column:
        return _List(values)

    def __len__(self) -> int:
        return self._stop - self._start

    def __getitem__(self, row: Any) -> Any:
        """Return a row, or the rows of a slice, a boolean mask or a list of row numbers.

        Raises:
            IndexError: If the index is out of range, or a mask does not have one value per row.
        """
        if is_selection(row):
            values = self.tolist()
            return type(self)([values[place] for place in rows_at(row, len(self))])
        if isinstance(row, slice):
            rows = range(*row.indices(len(self)))
            if rows.step != 1:
                return type(self)(self.tolist()[row])
            start = self._start + rows.start
            return type(self)(Span(self._column, start, start + len(rows)))
        place = self._start + row_at(row, len(self))
        return self._column.to_list(place, place + 1)[0]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ObjectArray | list):
            return len(self) == len(other) and self.tolist() == list(other)
        return NotImplemented

    def __repr__(self) -> str:
        shown = self[:3].tolist()
        more = ", …" if len(self) > 3 else ""
        return f"{type(self).__name__}({len(self)} rows: {', '.join(map(shortened, shown))}{more})"

    def _described(self) -> str:
        return f"{type(self).__name__} [{len(self)}]"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self._column.to_array(self._start, self._stop)
        return array if dtype is None else array.astype(dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.tolist(),)

    def tolist(self) -> list[Any]:
        """Return the rows as a list."""
        return self._column.to_list(self._start, self._stop)

    def to(self, device: Any, *, non_blocking: bool = False) -> Self:
        """Return this array unchanged: Python objects stay in host memory."""
        return self

    def pin_memory(self) -> Self:
        """Return this array unchanged: Python objects cannot be pinned."""
        return self


class _ArrowArray(ObjectArray):
    """Rows in the memory of an Arrow array."""

    __slots__ = ()

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        column: Any = self._column
        return column.to_arrow(self._start, self._stop).__arrow_c_array__(requested_schema)

    def __reduce__(self) -> tuple[Any, ...]:
        # Only the view's own rows, without an object for each of them.
        column: Any = self._column
        return _unpickled, (type(self), *column.packed(self._start, self._stop))


class StringArray(_ArrowArray):
    """A column of strings. Each becomes a ``str`` on access; nulls are ``None``.

    It compares equal to a list of the same strings. ``pyarrow.array`` and ``polars.Series`` read it
    without a copy through ``__arrow_c_array__``.

    Args:
        values: the strings.

    Examples:
        >>> import shardmill as sm
        >>> texts = sm.StringArray(["a", None, "c"])
        >>> len(texts), texts[-1], texts[:2].tolist()
        (3, 'c', ['a', None])
    """

    __slots__ = ()

    @staticmethod
    def _columned(values: Iterable[str | None]) -> Objects:
        return Objects.of_strings(list(values))


class BinaryArray(_ArrowArray):
    """A column of ``bytes``, otherwise like ``StringArray``.

    Args:
        values: the bytes of each row.
    """

    __slots__ = ()

    @staticmethod
    def _columned(values: Iterable[bytes | None]) -> Objects:
        return Objects.of_binaries(list(values))


def _unpickled(kind: type[_ArrowArray], lengths: bytes, content: bytes) -> _ArrowArray:
    column = Objects.of_packed(
        "string" if issubclass(kind, StringArray) else "binary", lengths, content
    )
    return kind(Span(column, 0, len(column)))


#: Class of a native column, by kind.
CLASSES: dict[str, type[ObjectArray]] = {
    "string": StringArray,
    "binary": BinaryArray,
    "object": ObjectArray,
}
