"""Superbatches of columns, cut into batches.

The native threads convert several consecutive batches at once, into one array a column: a *superbatch*. Here, a superbatch becomes
dicts of views, one a batch. Views share the memory of their superbatch: a batch that is kept keeps its superbatch alive, and
``torch.save`` of one tensor writes all of it. Use ``clone()`` for tensors that stay.

What a column becomes depends on its type alone, never on the data:

=================================================  =============================  ===============================
Arrow                                              ``output="torch"``             ``output="numpy"``
=================================================  =============================  ===============================
integer, float, boolean; a dictionary of them      tensor                         array
date, time, timestamp, duration                    int64 tensor, column's unit    datetime64, timedelta64
fixed-size list of the above                       tensor ``[rows, width]``       array ``[rows, width]``
list of the above                                  :class:`Ragged` of tensors     :class:`Ragged` of arrays
string, binary, decimal, struct, map, other lists  list of objects                object array
=================================================  =============================  ===============================

A time of day is the time since midnight; a timestamp with a zone counts in UTC. ``output="dict"`` gives lists of objects for every column.

Nulls among floats become NaN, among objects None. For the other numbers ``nulls`` decides:

* ``"error"`` names the file, the column and the row.
* ``"fill"`` puts ``fill_values[column]`` in their place, for floats as well; a list that is null becomes empty. Columns without a value
  keep to "error".
* ``"mask"`` puts zeros there, and every batch has a boolean column ``<column>__valid``. A row of a list column is valid when neither the
  list nor a number in it is null; ``<column>__valid_items`` of fixed-size lists and ``valid`` of a :class:`Ragged` tell which numbers are.

A row of a fixed-size list of floats that is null becomes NaNs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise, repeat
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from shardmill.errors import OptionError

if TYPE_CHECKING:
    from shardmill._native.columns import Objects

#: Fewer than start a collection of the youngest generation.
_TENSORS_AT_ONCE = 500

__all__ = ["Ragged", "check_torch", "plain_fill_values", "split"]


class Ragged(TypedDict):
    """Lists of numbers of different lengths: row *i* is ``values[offsets[i]:offsets[i + 1]]``."""

    values: Any
    offsets: Any
    """int64, one more than there are rows, from 0 on in every batch."""
    valid: NotRequired[Any]
    """Only with ``nulls="mask"`` and where the numbers are no floats: one boolean for each of ``values``."""


def split(names: Sequence[str], parts: Sequence[Any], sizes: Sequence[int], kind: str) -> Iterator[dict[str, Any]]:
    """Batches of ``sizes`` rows, which together are the rows of the superbatch.

    Tensors are cut some batches at once, since that is the fastest; objects are made when their batch is asked for.

    Args:
        names: Of the entries of a batch, as ``Converter.names`` has them.
        parts: The columns of the superbatch in the same order, as ``Converter.convert`` returns them.
        sizes: Rows of each batch.
        kind: "torch", "numpy" or "dict".
    """
    if not parts or not sizes:
        return iter([{} for _ in sizes])
    bounds = list(pairwise(accumulate(sizes, initial=0)))
    if kind == "torch":
        return _in_groups(names, parts, bounds)
    return _cut(names, parts, bounds, kind)


def _in_groups(names: Sequence[str], parts: Sequence[Any], bounds: list[tuple[int, int]]) -> Iterator[dict[str, Any]]:
    # Tensors that live at the same time count towards Python's garbage collection. A whole superbatch of them would start it repeatedly.
    size = max(1, _TENSORS_AT_ONCE // len(parts))
    for first in range(0, len(bounds), size):
        yield from _cut(names, parts, bounds[first : first + size], "torch")


def _cut(
    names: Sequence[str], parts: Sequence[Any], bounds: list[tuple[int, int]], kind: str
) -> Iterator[dict[str, Any]]:
    cut_array = _tensors if kind == "torch" else _arrays
    columns: list[Iterable[Any]] = []
    for part in parts:
        if isinstance(part, tuple):
            columns.append(_ragged(part, bounds, cut_array, as_tensors=kind == "torch"))
        elif hasattr(part, "to_list"):
            columns.append(_objects(part, bounds, as_arrays=kind == "numpy"))
        else:
            columns.append(cut_array(part, bounds))
    return (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))


def _arrays(array: Any, bounds: list[tuple[int, int]]) -> list[Any]:
    return [array[start:stop] for start, stop in bounds]


def _tensors(array: Any, bounds: list[tuple[int, int]]) -> Iterable[Any]:
    torch = _torch()
    # The views of `split` share a version counter: writing to one batch would fail the backward pass of another.
    # These have one each, and are cheaper.
    rows = torch.from_numpy(array[bounds[0][0] : bounds[-1][1]])
    return torch.unsafe_split_with_sizes(rows, [stop - start for start, stop in bounds])


def _objects(column: Objects, bounds: list[tuple[int, int]], *, as_arrays: bool) -> Iterator[Any]:
    make = column.to_array if as_arrays else column.to_list
    return (make(start, stop) for start, stop in bounds)


def _ragged(
    part: tuple[Any, Any, Any],
    bounds: list[tuple[int, int]],
    cut_array: Callable[[Any, list[tuple[int, int]]], Iterable[Any]],
    *,
    as_tensors: bool,
) -> Iterator[Ragged]:
    values, offsets, valid = part
    edges = offsets[[0, *(stop for _, stop in bounds)]].tolist()
    items = list(pairwise(edges))
    masks = repeat(None) if valid is None else cut_array(valid, items)
    for (start, stop), first, batch_values, mask in zip(bounds, edges, cut_array(values, items), masks, strict=False):
        batch_offsets = offsets[start : stop + 1] - first
        if as_tensors:
            batch_offsets = _torch().from_numpy(batch_offsets)
        batch = Ragged(values=batch_values, offsets=batch_offsets)
        if mask is not None:
            batch["valid"] = mask
        yield batch


def _torch() -> Any:
    import torch  # pyright: ignore[reportMissingImports] - an extra, and slow to import

    return torch


def check_torch(wide_unsigned: str | None) -> None:
    """Raises what would else fail at the first batch.

    Args:
        wide_unsigned: A column of unsigned integers of 16 bits or more, as ``Converter.wide_unsigned`` names it.
    """
    try:
        torch = _torch()
    except ImportError as error:
        raise ImportError('output="torch" needs torch\nhint: pip install torch, or use output="numpy"') from error
    if wide_unsigned is None or hasattr(torch, "uint64"):
        return
    raise OptionError(
        f"Column `{wide_unsigned}` is an unsigned integer that torch {torch.__version__} has no type for"
        '\nhint: upgrade to torch 2.3, leave the column out by `columns`, or use output="numpy"'
    )


def plain_fill_values(values: Mapping[str, Any] | None) -> dict[str, Any]:
    """Fill values as the native code takes them: NumPy scalars become Python's, dates and times become ISO 8601 texts."""
    return {name: _plain(value) for name, value in (values or {}).items()}


def _plain(value: Any) -> Any:
    value = value.item() if hasattr(value, "item") else value
    return value.isoformat() if hasattr(value, "isoformat") else value
