"""Superbatches of columns, cut into batches.

Native threads convert several consecutive batches at once, into one array per column: a
*superbatch*. This module cuts a superbatch into dicts of views, one per batch. Views share the
memory of their superbatch: keeping one batch keeps its whole superbatch alive, and ``torch.save``
of one tensor writes all of it. Call ``clone()`` on tensors that are kept.

The type of an output column depends on the type of the input column:

=============================================  ===========================  =======================
Arrow                                          ``output="torch"``           ``output="numpy"``
=============================================  ===========================  =======================
integer, float, boolean; a dictionary of them  tensor                       array
date, time, timestamp, duration                int64 tensor, column's unit  datetime64, timedelta64
fixed-size list of the above                   tensor ``[rows, width]``     array ``[rows, width]``
list of the above, or of such lists            ``Ragged`` of tensors        ``Ragged`` of arrays
struct                                         ``Struct`` of columns        ``Struct`` of columns
string, binary                                 ``StringArray``,             ``StringArray``,
                                               ``BinaryArray``              ``BinaryArray``
decimal, map, other lists                      ``ObjectArray``              object array
=============================================  ===========================  =======================

Variable-length lists that are all equally long, such as embeddings, become a tensor
``[rows, width]``. This is decided once per data set, when the loader is created: in every Parquet
row group, the number of values must be the same multiple of the number of rows, without nulls, and
all lists of the first and the last block must have that length. A row of another length then
raises. With ``Output(lists="ragged")``, such lists always become a ``Ragged``.

With ``pad``, lists become a tensor ``[rows, length]``, and ``<column>__length``, int32, ``[rows]``,
is the length of each row. Lists of lists become ``[rows, length, length_1]``;
``<column>__length_1``, ``[rows, length]``, is the length of each inner list. Each batch is padded
separately, so its shape depends only on its own rows.

A time of day is the time since midnight. A timestamp with a time zone is in UTC. With
``output="dict"``, every column is a list of objects.

Nulls become NaN in float columns and None in object columns. For other numeric types,
``nulls`` decides:

* ``"raise"`` raises with the file, the column and the row.
* ``"fill"`` replaces them with ``fill_values[column]``, for floats as well; a null list becomes
  empty. Columns without a fill value raise.
* ``"mask"`` replaces them with zeros and adds a boolean column ``<column>__valid`` to every batch.
  Columns that have no nulls, by the schema of the files, get none. ``<column>__valid`` is true
  where the row is not null, as in Arrow; a list with null elements is not null.
  ``<column>__valid_items`` (lists that become a tensor) and ``valid`` (``Ragged``) mark single
  elements; null floats need no mark, because they are NaN. Lists of floats have ``<column>__valid``
  too, because a null list becomes an empty one, or a row of NaNs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, repeat
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

from shardmill._native.columns import Objects
from shardmill.errors import OptionError
from shardmill.load._nested import Batch, Ragged, Struct
from shardmill.load._objects import CLASSES, Span

if TYPE_CHECKING:
    from shardmill.data._opened_files import OpenedFiles
    from shardmill.load._options import Output

#: Below the threshold of a collection of the youngest generation.
_TENSORS_AT_ONCE = 500

_NONE: Mapping[str, int] = {}

__all__ = ["check_fill", "check_torch", "equal_lists", "output_form", "plain_fill_values", "split"]

_Named = TypeVar("_Named", Batch, Struct)

#: First and last row of a batch in its superbatch.
_Bounds = list[tuple[int, int]]


def split(
    names: Sequence[str], parts: Sequence[Any], sizes: Sequence[int], kind: str
) -> Iterator[Batch]:
    """Split a superbatch into batches of the given sizes.

    Tensors are cut for several batches at once, which is fastest. Objects are created when their
    batch is requested.

    Args:
        names: names of the batch entries, as given by ``Converter.names``.
        parts: the columns of the superbatch in the same order, as returned by
            ``Converter.convert``.
        sizes: number of rows of each batch.
        kind: "torch", "numpy" or "dict".
    """
    if not parts or not sizes:
        return iter([Batch() for _ in sizes])
    bounds = list(pairwise(accumulate(sizes, initial=0)))
    if kind == "torch":
        return _in_groups(names, parts, bounds)
    return _Cut(kind, bounds, 0).batches(names, parts, Batch)


def _in_groups(names: Sequence[str], parts: Sequence[Any], bounds: _Bounds) -> Iterator[Batch]:
    # Live tensors count towards Python's garbage collection thresholds. Cutting a whole superbatch
    # at once would trigger it repeatedly.
    size = max(1, _TENSORS_AT_ONCE // len(parts))
    for first in range(0, len(bounds), size):
        yield from _Cut("torch", bounds[first : first + size], first).batches(names, parts, Batch)


@dataclass(frozen=True)
class _Cut:
    """Bounds of consecutive batches.

    ``first`` is the position of the first of them in its superbatch.
    """

    kind: str
    bounds: _Bounds
    first: int

    def batches(
        self, names: Sequence[str], parts: Sequence[Any], made: type[_Named]
    ) -> Iterator[_Named]:
        columns = [self.column(part) for part in parts]
        return (made(zip(names, row, strict=True)) for row in zip(*columns, strict=True))

    def column(self, part: Any) -> Iterable[Any]:
        """Return one column, for each batch.

        ``part`` has a form that ``Converter.convert`` returns.
        """
        if isinstance(part, Objects):
            return self._objects(part)
        if not isinstance(part, tuple):
            return self._arrays(part, self.bounds)
        form, *content = part
        if form == "padded":
            return self._padded(*content)
        if form == "each":
            return self._each(*content)
        return self._ragged(*content) if form == "ragged" else self._structs(*content)

    def _arrays(self, array: Any, bounds: _Bounds) -> Iterable[Any]:
        if self.kind != "torch":
            return [array[start:stop] for start, stop in bounds]
        torch = _torch()
        # Views made by `split` share a version counter: writing to one batch would make the
        # backward pass of another fail. These views have their own counters, and are cheaper.
        rows = array[bounds[0][0] : bounds[-1][1]]
        if not isinstance(rows, torch.Tensor):
            rows = torch.from_numpy(rows)
        return torch.unsafe_split_with_sizes(rows, [stop - start for start, stop in bounds])

    def _padded(self, values: Any, shapes: list[list[int]]) -> Iterator[Any]:
        edges = list(accumulate(map(prod, shapes), initial=0))
        own = slice(self.first, self.first + len(self.bounds))
        parts = self._arrays(values, list(pairwise(edges))[own])
        return (part.reshape(shape) for part, shape in zip(parts, shapes[own], strict=True))

    def _each(self, values: Any) -> Iterable[Any]:
        own = values[self.first : self.first + len(self.bounds)]
        # A tensor for each batch: views would share their memory.
        return map(_torch().tensor, own.tolist()) if self.kind == "torch" else own

    def _ragged(self, values: Any, offsets: Any, valid: Any) -> Iterator[Ragged]:
        edges = offsets[[self.bounds[0][0], *(stop for _, stop in self.bounds)]].tolist()
        items = _Cut(self.kind, list(pairwise(edges)), 0)
        masks = repeat(None) if valid is None else items._arrays(valid, items.bounds)
        for (start, stop), first, own, mask in zip(
            self.bounds, edges, items.column(values), masks, strict=False
        ):
            own_offsets = offsets[start : stop + 1] - first
            yield Ragged(
                own, _torch().from_numpy(own_offsets) if self.kind == "torch" else own_offsets, mask
            )

    def _structs(self, names: list[str], parts: list[Any]) -> Iterator[Struct]:
        return (
            self.batches(names, parts, Struct) if parts else iter([Struct() for _ in self.bounds])
        )

    def _objects(self, column: Objects) -> Iterator[Any]:
        if self.kind == "dict":
            return (column.to_list(start, stop) for start, stop in self.bounds)
        if self.kind == "numpy" and column.kind == "object":
            return (column.to_array(start, stop) for start, stop in self.bounds)
        kind = CLASSES[column.kind]
        return (kind(Span(column, start, stop)) for start, stop in self.bounds)


def _torch() -> Any:
    import torch  # pyright: ignore[reportMissingImports] - an extra, and slow to import

    return torch


def check_torch(wide_unsigned: str | None) -> None:
    """Check what would otherwise fail only at the first batch.

    Args:
        wide_unsigned: a column of unsigned integers of 16 bits or more, as given by
            ``Converter.wide_unsigned``.
    """
    try:
        torch = _torch()
    except ImportError as error:
        raise ImportError(
            'output="torch" needs torch\n'
            "hint: pip install 'shardmill[torch]', or use output=\"numpy\""
        ) from error
    if wide_unsigned is None or hasattr(torch, "uint64"):
        return
    raise OptionError(
        f"Column `{wide_unsigned}` has an unsigned integer type "
        f"that torch {torch.__version__} does not support\n"
        'hint: upgrade to torch 2.3, exclude the column with `columns`, or use output="numpy"'
    )


def equal_lists(output: Output, files: OpenedFiles, columns: list[str]) -> dict[str, int]:
    """Return the list columns whose rows are all equally long, with that length.

    It may read two blocks of the data set.
    """
    is_asked = output.lists == "auto" and output.pad is None and output.kind in ("torch", "numpy")
    return files.native.list_lengths(files.numbers_of(columns)) if is_asked else {}


def output_form(
    output: Output,
    kind: str,
    list_lengths: Mapping[str, int],
    label_pads: Mapping[str, int] = _NONE,
) -> dict[str, Any]:
    """Return the settings that determine the form of columns, for native code.

    Args:
        output: the output options.
        kind: "torch", "numpy", "dict" or "arrow".
        list_lengths: list columns whose rows are all equally long, with that length.
        label_pads: columns of labels, with the label that a loss ignores.
    """
    pad: dict[str, Any] | None = None
    if output.pad is not None:
        value = output.pad_value
        by_column = value if isinstance(value, Mapping) else {}
        pad = {
            "length": None if output.pad == "longest" else output.pad,
            "value": 0 if isinstance(value, Mapping) else _plain(value),
            "values": plain_fill_values({**label_pads, **by_column}),
            "is_left": output.side == "left",
            "columns": None,
            "multiple_of": 1,
            "most": None,
            "has_lengths": True,
        }
    return {
        "kind": kind,
        "nulls": output.nulls,
        "fill_values": plain_fill_values(output.fill_values),
        "pad": pad,
        "list_lengths": dict(list_lengths),
    }


def check_fill(output: Output, bfloat16: Sequence[str]) -> None:
    """Refuse fill values of columns whose numbers are the bits of another type.

    Raises:
        ValueError: If there is one.
    """
    if name := next((name for name in bfloat16 if name in (output.fill_values or {})), None):
        raise OptionError(
            f"fill_values cannot fill column {name!r}, which has dtype='bfloat16'"
            "\nhint: sm.Images(…, on_error='null') fills images with the background"
        )


def plain_fill_values(values: Mapping[str, Any] | None) -> dict[str, Any]:
    """Convert fill values for native code.

    NumPy scalars become Python scalars, and dates and times become ISO 8601 strings.
    """
    return {name: _plain(value) for name, value in (values or {}).items()}


def _plain(value: Any) -> Any:
    value = value.item() if hasattr(value, "item") else value
    return value.isoformat() if hasattr(value, "isoformat") else value
