"""Packs or batches that a loader delivers in place of rows, by the kind of its packing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardmill.data._dataset import Dataset
from shardmill.errors import OptionError
from shardmill.load._batched_rows import BatchedRows
from shardmill.load._checks import at_least
from shardmill.load._mixture import Mixture
from shardmill.load._options import Output
from shardmill.load._packed_rows import PackedRows
from shardmill.load._packing import Packing, packed_columns
from shardmill.load._token_batches import TokenBatches, batched_columns

_BATCH_SIZE = 1024


def packed_rows(
    packing: Packing | TokenBatches | None,
    dataset: Dataset | Mixture,
    columns: Sequence[str] | None,
    output: Output,
    *,
    bad_rows: str,
    threads: int,
) -> tuple[Sequence[str] | None, PackedRows | BatchedRows | None]:
    """Return the columns that a loader delivers, and its packs or batches.

    Args:
        packing: the options.
        dataset: the data set.
        columns: the requested columns.
        output: the output options.
        bad_rows: what happens to rows that cannot be read.
        threads: number of threads that plan a shuffled epoch.

    Raises:
        ValueError: If an option cannot be combined with the packing.
    """
    if packing is None:
        return columns, None
    if isinstance(packing, TokenBatches):
        names = batched_columns(packing, columns, dataset.columns, output, bad_rows)
        nulls_are_empty = output.nulls != "raise"
        return names, BatchedRows(
            packing, dataset, nulls_are_empty=nulls_are_empty, threads=threads
        )
    names = packed_columns(packing, columns, output, bad_rows)
    nulls_are_empty = output.nulls == "fill"
    return names, PackedRows(packing, dataset, nulls_are_empty=nulls_are_empty, threads=threads)


def batch_size_of(batch_size: Any, packing: Packing | TokenBatches | None) -> int:
    """Return the number of rows or packs of a batch.

    Raises:
        ValueError: If it is not a number, or not 1 if batches are planned by length.
    """
    size = None if batch_size is None else at_least("batch_size", batch_size, 1)
    if not isinstance(packing, TokenBatches):
        return size or _BATCH_SIZE
    if size not in (None, 1):
        raise OptionError(
            f"batch_size={size} has no meaning with TokenBatches, whose tokens and max_rows decide "
            "about the rows of a batch\nhint: omit batch_size"
        )
    return 1
