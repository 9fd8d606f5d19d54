"""Writes the data sets of the checkpoint benchmark: ``python -m benchmarks.checkpoint.data OUT --sets full tenth``.

Enters: names of ``sets``, of one folder or of a group. Leaves: one folder a set; its record, hidden because readers take
whole folders, is written last. Invariant: a row follows from its number alone, a folder appears under its name when it is
complete, and one that is there already is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from benchmarks.checkpoint.sets import BLOB_COLUMN, GROUPS, ID_COLUMN, SETS, DataSet
from benchmarks.runner.session import DATASET_RECORD

# The row group that the writer makes by itself; a block of rows is one or several.
_ROW_GROUP = 1 << 20
# Files that a process writes before it asks for more.
_FILES_AT_ONCE = 50
_SEED = 42


def main(arguments: Sequence[str] | None = None) -> None:
    """Reads the command line and writes the folders."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checkpoint.data", description=__doc__)
    parser.add_argument("out", type=Path, help="folder of the data sets")
    parser.add_argument("--sets", nargs="+", choices=[*GROUPS, *SETS], default=list(GROUPS), help="which; default: all")
    parser.add_argument("--processes", type=int, default=min(2, len(os.sched_getaffinity(0))))
    options = parser.parse_args(arguments)
    chosen = [one for name in options.sets for one in GROUPS.get(name) or [SETS[name]]]
    start = time.perf_counter()
    for one, is_new in zip(chosen, write_sets(chosen, options.out, processes=options.processes), strict=True):
        print(f"{options.out / one.name}: {'written' if is_new else 'kept'}", flush=True)
    print(f"{time.perf_counter() - start:.1f} s", flush=True)


def write_sets(chosen: Sequence[DataSet], out: Path, *, processes: int = 1) -> list[bool]:
    """Writes data sets side by side, except those that are there already; returns which were written.

    Args:
        chosen: What to write; a set that is named twice is written once.
        out: Gets a folder a set; one whose record tells of other content is replaced.
        processes: Files that are written at a time.
    """
    missing = {one.name: one for one in chosen if not _has(one, out / one.name)}
    staging = {name: out / f".{name}.partial-{os.getpid()}" for name in missing}
    for folder in staging.values():
        folder.mkdir(parents=True)
    # Large files first, so that none is left to a single process at the end.
    parts = [
        (one, staging[name], range(first, min(first + _FILES_AT_ONCE, one.files)))
        for name, one in sorted(missing.items(), key=lambda item: item[1].rows // item[1].files, reverse=True)
        for first in range(0, one.files, _FILES_AT_ONCE)
    ]
    if processes > 1 and len(parts) > 1:
        with ProcessPoolExecutor(processes) as pool:
            list(pool.map(_write_files, *zip(*parts, strict=True)))
    else:
        for part in parts:
            _write_files(*part)
    for name, one in missing.items():
        _publish(one, staging[name], out / name)
    return [one.name in missing for one in chosen]


def write_file(one: DataSet, path: Path, rows: range) -> None:
    """Writes one file as ``pyarrow.parquet.write_table`` does by default: snappy, dictionaries, statistics."""
    row_group = one.row_group or _ROW_GROUP
    blocks = _blocks(one, rows, row_group)
    first = next(blocks)
    with pyarrow.parquet.ParquetWriter(path, first.schema) as writer:
        writer.write_table(first, row_group_size=row_group)
        for block in blocks:
            writer.write_table(block, row_group_size=row_group)


def decimal_ids(rows: range) -> pa.Array:
    """The decimal strings of consecutive numbers."""
    return pa.array(np.arange(rows.start, rows.stop, dtype=np.int64)).cast(pa.string())


def blobs(rows: range, length: int) -> pa.Array:
    """One value a row that no codec makes shorter."""
    values = [np.random.default_rng([_SEED, row]).bytes(length) for row in rows]
    return pa.array(values, pa.binary())


def _blocks(one: DataSet, rows: range, row_group: int) -> Iterator[pa.Table]:
    for first in range(rows.start, rows.stop, row_group):
        block = range(first, min(first + row_group, rows.stop))
        columns = {ID_COLUMN: decimal_ids(block)}
        if one.blob_bytes:
            columns[BLOB_COLUMN] = blobs(block, one.blob_bytes)
        yield pa.table(columns)


def _write_files(one: DataSet, folder: Path, numbers: range) -> None:
    for number in numbers:
        write_file(one, folder / one.file_name(number), one.file_rows(number))


def _has(one: DataSet, folder: Path) -> bool:
    record = folder / DATASET_RECORD
    return record.exists() and one.manifest().items() <= json.loads(record.read_text()).items()


def _publish(one: DataSet, staging: Path, folder: Path) -> None:
    size = sum(path.stat().st_size for path in staging.iterdir())
    (staging / DATASET_RECORD).write_text(json.dumps(one.manifest() | {"bytes": size}, indent=2) + "\n")
    if folder.exists():
        shutil.rmtree(folder)
    staging.rename(folder)


if __name__ == "__main__":
    main()
