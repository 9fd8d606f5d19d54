"""Parquet files of numbered rows, and what loaders make of them."""

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import shardmill as sm
from flat_options import flat_loader

_DIRECTORIES = itertools.count()


def numbered(start: int, rows: int) -> pa.Table:
    """``id`` counts through all files; the other columns follow from it."""
    ids = range(start, start + rows)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "half": pa.array([number / 2 for number in ids], pa.float32()),
            "text": pa.array([f"row {number}" for number in ids]),
        }
    )


def write_files(
    below: Path, sizes: Sequence[int], *, row_group: int = 1000, **options: Any
) -> Path:
    """A new directory with one file for each of ``sizes``."""
    directory = below / f"rows{next(_DIRECTORIES)}"
    directory.mkdir()
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


def new_directory(below: Path) -> Path:
    """An empty one."""
    directory = below / f"rows{next(_DIRECTORIES)}"
    directory.mkdir()
    return directory


def write_tables(below: Path, tables: Iterable[pa.Table], **options: Any) -> Path:
    """A new directory with one file for each table."""
    directory = new_directory(below)
    for number, table in enumerate(tables):
        pq.write_table(table, directory / f"{number:03}.parquet", **options)
    return directory


def ids_of(batch: Any) -> list[int]:
    """The rows of a batch, whatever its kind."""
    return (
        batch.column("id").to_pylist()
        if isinstance(batch, pa.RecordBatch)
        else [int(id) for id in batch["id"]]
    )


def ids(batches: Iterable[Any]) -> list[list[int]]:
    """The rows of each batch."""
    return [ids_of(batch) for batch in batches]


def flat(batches: Iterable[Any]) -> list[int]:
    """The rows of all batches."""
    return [id for batch in batches for id in ids_of(batch)]


def table_of(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Batches of ``output="arrow"``, one after the other."""
    return pa.Table.from_batches(list(batches))


def numpy_loader(path: Any, **options: Any) -> sm.Loader:
    """A loader of arrays."""
    return flat_loader(path, output="numpy", **options)


def damage(path: Path, groups: list[int], column: int = 2) -> None:
    """Turns bytes in the middle of a column of some row groups."""
    footer = pq.ParquetFile(path).metadata
    content = bytearray(path.read_bytes())
    for group in groups:
        chunk = footer.row_group(group).column(column)
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        middle = start + chunk.total_compressed_size // 2
        for place in range(middle, middle + 8):
            content[place] ^= 0xFF
    path.write_bytes(content)
