"""Parquet files for the loader's fault tests."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shardmill as sm
from flat_options import flat_loader


def numbered(start: int, rows: int) -> pa.Table:
    """``id`` counts through all files; the other columns follow from it."""
    ids = np.arange(start, start + rows)
    return pa.table(
        {
            "id": ids,
            "half": (ids / 2).astype(np.float32),
            "text": [f"row {number}" for number in ids],
        }
    )


def write_files(
    directory: Path, sizes: Sequence[int], *, row_group: int = 1000, **options: Any
) -> Path:
    """One file for each of ``sizes``."""
    directory.mkdir(parents=True)
    start = 0
    for number, rows in enumerate(sizes):
        pq.write_table(
            numbered(start, rows),
            directory / f"{number:03}.parquet",
            row_group_size=row_group,
            **options,
        )
        start += rows
    return directory


def flat(batches: Iterable[Any]) -> list[int]:
    """The rows of all batches."""
    return [int(id) for batch in batches for id in batch["id"]]


def numpy_loader(path: Any, **options: Any) -> sm.Loader:
    """A loader of arrays."""
    return flat_loader(path, output="numpy", **options)
