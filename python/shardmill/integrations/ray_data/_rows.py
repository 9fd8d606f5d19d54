"""Reads the rows of one task: opens its files, and no others."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from shardmill._native import plan as native_plan
from shardmill._native.load import OutputConverter, RowPlan
from shardmill._stall import STALL_SECONDS, warn_of_stall
from shardmill.data._dataset import Dataset, opened_files
from shardmill.errors import FormatError, MissingColumnError, StorageError
from shardmill.expressions import Expression
from shardmill.integrations._landmark import located
from shardmill.integrations.ray_data._journal import DoneIds
from shardmill.integrations.ray_data._parts import Part

#: An id is the number of the file, shifted by this, plus the number of the row in the file.
FILE_SHIFT = 40
#: Rows of a range are decoded in pieces of about this size, and those of whole files ahead of Ray.
_PIECE_BYTES = 64 << 20
#: More steps than any data set has: only the first one is taken.
_ONE_STEP = 1 << 40
_BATCH_ROWS = 256
_CHECKED_ROWS = 1 << 20


@dataclass(frozen=True)
class RowReader:
    """How tasks read rows.

    Attributes:
        reopen: opens a data set from its class and arguments, as when one is unpickled.
        kind: class of the data set.
        arguments: arguments of the data set, without its paths and its filter.
        delivered: schema of the delivered rows.
        condition: the filter.
        with_condition: schema of the delivered columns and those of the filter.
        ids: name of the column of ids, if it is delivered.
        done: rows that are left out.
    """

    reopen: Callable[[type[Dataset], dict[str, Any]], Dataset]
    kind: type[Dataset]
    arguments: dict[str, Any]
    delivered: pa.Schema
    condition: Expression | None = None
    with_condition: pa.Schema = field(default_factory=lambda: pa.schema([]))
    ids: str | None = None
    done: DoneIds | None = None

    def tables(self, parts: Sequence[Part]) -> Iterator[pa.Table]:
        """Yield the rows of the parts in order, at least one table.

        Raises:
            shardmill.StorageError: If a file cannot be read on this node.
            shardmill.FormatError: If a file has other rows than when it was listed.
        """
        has_rows = False
        for part in parts:
            if self.done is not None and _is_done(self.done, part):
                continue
            try:
                for table in self._tables(part):
                    has_rows = True
                    yield table
            except StorageError as error:
                raise located(error) from error.__cause__
        if not has_rows:
            yield self.delivered.empty_table()

    def _tables(self, part: Part) -> Iterator[pa.Table]:
        try:
            opened = self._opened(part, self.condition)
        except MissingColumnError:
            if self.condition is None:
                raise
            # These files lack a column of the filter, which is null there.
            every = replace(self, condition=None, delivered=self.with_condition)
            for table in every._tables(part):
                for batch in table.combine_chunks().to_batches():
                    kept = pa.array(native_plan.evaluate(self.condition.tree, batch))
                    rows = pa.Table.from_batches([batch]).filter(kept)
                    yield rows.select(self.delivered.names)
            return
        schema = pa.schema([field for field in self.delivered if field.name != self.ids])
        names = _present(opened, schema.names)
        plan = opened_files(opened).row_plan()
        read = 0
        for batch in _batches(plan, opened, names, part):
            table = _conformed(pa.Table.from_batches([batch]), schema)
            first, read = part.start + read, read + len(table)
            if self.ids is not None or self.done is not None:
                ids = _ids(part, first, len(table))
                if self.ids is not None:
                    table = table.append_column(self.ids, ids).select(self.delivered.names)
                if self.done is not None:
                    table = self.done.left(table, ids)
            yield table
        if self.condition is None and read != part.rows:
            raise FormatError(
                f"{part.files[0].path!r} was listed with other rows than it has now\n"
                "hint: call read again after files were rewritten"
            )

    def _opened(self, part: Part, condition: Expression | None) -> Dataset:
        given = {"path": [file.path for file in part.files], "columns": None, "filter": condition}
        with warnings.catch_warnings():
            # The driver has warned of them.
            warnings.simplefilter("ignore")
            return self.reopen(self.kind, self.arguments | given)


def _present(opened: Dataset, names: Sequence[str]) -> list[str]:
    """Return the columns that the files of a task have: others are null there."""
    files = opened_files(opened)

    def has(name: str) -> bool:
        try:
            return bool(files.numbers_of([name]))
        except MissingColumnError:
            return False

    return [name for name in names if has(name)]


def _batches(
    plan: RowPlan, opened: Dataset, names: Sequence[str], part: Part
) -> Iterator[pa.RecordBatch]:
    files = opened_files(opened)
    converter = files.converter(files.numbers_of(names), "stream")
    order = plan.ordered(window_bytes=None, seed=0, lanes=1)
    if part.stop is None:
        yield from _pass(order, converter, 0, _BATCH_ROWS, stride=1)
        return
    # A pass reads ahead, so each piece is one step of its own, after which nothing is read.
    row_bytes = max(order.decoded_bytes // max(order.num_rows, 1), 1)
    rows = max(_PIECE_BYTES // row_bytes, 1)
    for start in range(part.start, part.stop, rows):
        size = min(rows, part.stop - start)
        yield from _pass(order, converter, start, size, stride=_ONE_STEP)


def _pass(
    order: RowPlan, converter: OutputConverter, start: int, batch_rows: int, *, stride: int
) -> Iterator[pa.RecordBatch]:
    if start >= order.num_places:
        return
    native = order.start(
        converter,
        {"batch_size": batch_rows, "world_size": 1, "rank": 0, "tail": "uneven"},
        epoch=0,
        consumed=start,
        threads=1,
        prefetch_bytes=_PIECE_BYTES,
        stride=stride,
    )
    try:
        while (superbatch := native.next_superbatch(STALL_SECONDS, warn_of_stall)) is not None:
            content, *_ = superbatch
            for piece in content:
                yield pa.record_batch(piece)
    finally:
        native.stop()


def _conformed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows with the columns and types of all files."""
    if table.schema.equals(schema):
        return table
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in schema
    ]
    if not columns:
        return table
    return pa.Table.from_arrays(columns, schema=schema)


def _is_done(done: DoneIds, part: Part) -> bool:
    """Return whether all rows of a part are done."""
    last = part.start + part.rows
    for first in range(part.start, last, _CHECKED_ROWS):
        ids = _ids(part, first, min(_CHECKED_ROWS, last - first))
        if done.contain(ids).true_count < len(ids):
            return False
    return True


def _ids(part: Part, first: int, count: int) -> pa.Array:
    """Return the ids of consecutive rows of a part, of which ``first`` is the first."""
    ends = np.cumsum([file.rows for file in part.files])
    rows = np.arange(first, first + count, dtype=np.int64)
    files = np.searchsorted(ends, rows, side="right")
    starts = ends - [file.rows for file in part.files]
    return pa.array(((part.first + files) << FILE_SHIFT) + rows - starts[files])
