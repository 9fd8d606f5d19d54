"""List and struct columns of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from reprlib import recursive_repr
from typing import Any, Literal

import numpy as np

from shardmill._choices import check_choice
from shardmill._option_values import row_at
from shardmill.errors import OptionError
from shardmill.load._selection import is_selection, on_host, rows_at
from shardmill.load._shown import described, lines, shortened

Side = Literal["right", "left"]


class Ragged:
    """Lists of different lengths: row *i* is ``values[offsets[i]:offsets[i + 1]]``.

    Lists of lists are ragged on two levels: ``values`` is then a ``Ragged`` of the inner lists.

    Attributes:
        values: the values of all rows, a tensor or an array ``[items, ...]``, or a ``Ragged``.
        offsets: int64, ``[rows + 1]``; starts at 0 in every batch.
        valid: with ``nulls="mask"``, one boolean for each value; otherwise, and for floats, whose
            nulls are NaN, ``None``.

    Examples:
        >>> import pyarrow as pa, pyarrow.parquet as pq, shardmill as sm
        >>> pq.write_table(pa.table({"tokens": [[1, 2, 3], [], [4, 5]]}), "tokens.parquet")
        >>> tokens = next(iter(sm.Loader("tokens.parquet", output="numpy")))["tokens"]
        >>> len(tokens), tokens[-1].tolist(), tokens[:2].tolist()
        (3, [4, 5], [[1, 2, 3], []])
        >>> tokens.to_padded(pad_value=-1).tolist()
        [[1, 2, 3], [-1, -1, -1], [4, 5, -1]]
    """

    __slots__ = ("offsets", "valid", "values")

    def __init__(self, values: Any, offsets: Any, valid: Any = None) -> None:
        self.values, self.offsets, self.valid = values, offsets, valid

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: Any) -> Any:
        """Return the values of a row, or a ``Ragged`` of several rows.

        Args:
            row: a row number, or a slice, a boolean mask or a list of row numbers.

        Raises:
            IndexError: If the index is out of range, or a mask does not have one value per row.
        """
        if is_selection(row):
            return self._taken(rows_at(row, len(self)))
        if isinstance(row, slice):
            return self._rows(range(*row.indices(len(self))))
        place = row_at(row, len(self))
        return self.values[int(self.offsets[place]) : int(self.offsets[place + 1])]

    def __iter__(self) -> Iterator[Any]:
        edges = self.offsets.tolist()
        return (self.values[start:stop] for start, stop in pairwise(edges))

    def __repr__(self) -> str:
        return f"Ragged({len(self)} rows, values={described(self.values)})"

    def _described(self) -> str:
        return f"Ragged [{len(self)}] of {described(self.values)}"

    def tolist(self) -> list[Any]:
        """Return the rows as lists."""
        values, edges = self.values.tolist(), self.offsets.tolist()
        return [values[start:stop] for start, stop in pairwise(edges)]

    def to(self, device: Any, *, non_blocking: bool = False) -> Ragged:
        """Return a copy on another device.

        Raises:
            TypeError: If it holds NumPy arrays.
        """
        self._check_tensors("to")
        return _mapped(self, lambda part: part.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Ragged:
        """Return a copy in page-locked memory.

        Raises:
            TypeError: If it holds NumPy arrays.
        """
        self._check_tensors("pin_memory")
        return _mapped(self, lambda part: part.pin_memory())

    def to_padded(
        self, pad_value: float = 0, side: Side = "right", length: int | None = None
    ) -> Any:
        """Return a tensor or array ``[rows, length, ...]``.

        Args:
            pad_value: padding value; it must fit the type of the values.
            side: side on which rows are padded.
            length: length of the rows; by default, that of the longest one. Inner lists are padded
                to the longest inner list.

        Raises:
            ValueError: If a row is longer than ``length``, or an option is not valid.
        """
        check_choice("side", side, Side)
        if length is not None and length < 1:
            raise OptionError(f"length must be at least 1, not {length!r}")
        values = (
            self.values.to_padded(pad_value, side)
            if isinstance(self.values, Ragged)
            else self.values
        )
        _check_fits(pad_value, values[:0])
        edges = on_host(self.offsets)
        lengths = edges[1:] - edges[:-1]
        longest = int(lengths.max(initial=0))
        if length is not None and longest > length:
            raise OptionError(
                f"row {int(lengths.argmax())} has {longest} values, more than length={length}"
            )
        width = longest if length is None else length
        columns = np.arange(width)
        is_value = (
            columns < lengths[:, None] if side == "right" else columns >= width - lengths[:, None]
        )
        shape = (len(self), width, *values.shape[1:])
        if isinstance(values, np.ndarray):
            padded = np.full(shape, pad_value, values.dtype)
            padded[is_value] = values
            return padded
        padded = values.new_full(shape, pad_value)
        padded[self._beside(is_value)] = values
        return padded

    def to_nested(self) -> Any:
        """Return a nested tensor with jagged layout that shares the memory of ``values``.

        Raises:
            TypeError: If it holds NumPy arrays, or lists of lists.
        """
        self._check_tensors("to_nested")
        if isinstance(self.values, Ragged):
            raise TypeError(
                "a nested tensor has one ragged level, but these are lists of lists\n"
                "hint: call values.to_nested()"
            )
        import torch  # pyright: ignore[reportMissingImports] - an extra

        return torch.nested.nested_tensor_from_jagged(self.values, self.offsets)

    def _rows(self, rows: range) -> Ragged:
        if rows.step != 1:
            return self._taken(np.array(rows, dtype=np.int64))
        offsets = self.offsets[rows.start : rows.start + len(rows) + 1]
        items = slice(int(offsets[0]), int(offsets[-1]))
        return Ragged(
            self.values[items],
            offsets - offsets[0],
            None if self.valid is None else self.valid[items],
        )

    def _taken(self, rows: np.ndarray) -> Ragged:
        edges = on_host(self.offsets)
        starts, lengths = edges[rows], edges[rows + 1] - edges[rows]
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        items = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        places = self._beside(items)
        return Ragged(
            self.values._taken(items) if isinstance(self.values, Ragged) else self.values[places],
            self._beside(offsets),
            None if self.valid is None else self.valid[places],
        )

    def _beside(self, array: np.ndarray) -> Any:
        """Return ``array`` as a tensor on the device of ``offsets``.

        It is unchanged if ``offsets`` is a NumPy array.
        """
        if isinstance(self.offsets, np.ndarray):
            return array
        import torch  # pyright: ignore[reportMissingImports] - an extra

        return torch.from_numpy(array).to(self.offsets.device)

    def _check_tensors(self, method: str) -> None:
        if isinstance(self.offsets, np.ndarray):
            raise TypeError(
                f"{method}() needs tensors, but this Ragged holds NumPy arrays\n"
                "hint: use output='torch'"
            )


class Batch(dict[str, Any]):
    """The columns of a batch by name: a dict that shows types and shapes instead of values."""

    @recursive_repr("Batch(…)")
    def __repr__(self) -> str:
        return "\n".join(["Batch", *lines(self, Struct)])

    def __reduce__(self) -> tuple[Any, ...]:
        # `torch.load` does not set items of other classes.
        return type(self), (dict(self),)


class Rows(list[dict[str, Any]]):
    """The rows of a batch: a list that shows the first row, with the start of long values."""

    @recursive_repr("Rows(…)")
    def __repr__(self) -> str:
        more = f", … {len(self):,} rows" if len(self) > 1 else ""
        return f"[{', '.join(map(shortened, self[:1]))}{more}]"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (list(self),)


class Struct(dict[str, Any]):
    """A struct column of a batch: a dict with one column for each field.

    Examples:
        >>> import pyarrow as pa, pyarrow.parquet as pq, shardmill as sm
        >>> rows = [{"lang": "en", "score": 0.5}, {"lang": "de", "score": 1.0}]
        >>> pq.write_table(pa.table({"meta": rows}), "meta.parquet")
        >>> meta = next(iter(sm.Loader("meta.parquet", output="numpy")))["meta"]
        >>> meta["lang"].tolist(), meta["score"].tolist()
        (['en', 'de'], [0.5, 1.0])
    """

    @recursive_repr("Struct(…)")
    def __repr__(self) -> str:
        return (
            f"Struct({', '.join(f'{name}: {described(column)}' for name, column in self.items())})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)

    def _described(self) -> str:
        return repr(self)

    def to(self, device: Any, *, non_blocking: bool = False) -> Struct:
        """Return a copy with all fields on another device."""
        return Struct(
            {name: column.to(device, non_blocking=non_blocking) for name, column in self.items()}
        )

    def pin_memory(self) -> Struct:
        """Return a copy with all fields in page-locked memory."""
        return Struct({name: column.pin_memory() for name, column in self.items()})


def map_tensors(value: Any, change: Callable[[Any], Any]) -> Any:
    """Apply ``change`` to the tensors in ``value``, also in nested dicts, lists and tuples."""
    return map_leaves(value, lambda leaf: change(leaf) if _is_of_torch(leaf) else leaf)


def map_leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    """Apply ``change`` to all leaves of nested dicts, lists, tuples and ``Ragged`` in ``value``."""
    if isinstance(value, dict):
        kind = next((kind for kind in (Struct, Batch) if isinstance(value, kind)), dict)
        return kind({name: map_leaves(part, change) for name, part in value.items()})
    if isinstance(value, Ragged):
        return _mapped(value, lambda part: map_leaves(part, change))
    if isinstance(value, list | tuple) and not _is_of_torch(value):
        parts = [map_leaves(part, change) for part in value]
        # A named tuple takes its fields one by one.
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return change(value)


def _is_of_torch(value: Any) -> bool:
    # A torch.nn.utils.rnn.PackedSequence is a tuple too, and moves itself.
    return type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "to")


def _mapped(column: Ragged, change: Callable[[Any], Any]) -> Ragged:
    valid = None if column.valid is None else change(column.valid)
    return Ragged(change(column.values), change(column.offsets), valid)


def _check_fits(pad_value: Any, empty: Any) -> None:
    """Check that a value of the type of ``empty`` can be ``pad_value``.

    Raises:
        ValueError: If it cannot.
    """
    if not isinstance(empty, np.ndarray):
        if empty.dtype.is_floating_point:
            return
        empty = empty.cpu().numpy()
    kind = empty.dtype
    if kind.kind == "f":
        return
    try:
        fits = np.asarray(pad_value, dtype=kind).item() == pad_value or kind.kind in "mM"
    except (OverflowError, TypeError, ValueError):
        fits = False
    if not fits:
        raise OptionError(f"pad_value {pad_value!r} does not fit values of type {empty.dtype}")
