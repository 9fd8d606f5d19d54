"""Writes the data sets of the loader benchmark: ``python -m benchmarks.loader.data OUT --sets small large``.

Enters: names of ``sets``. Leaves: one folder a set with its files and, written last, ``manifest.json``. Invariant: the
content of a row follows from its number alone, so the same set has the same rows on every machine; a folder whose
manifest is there already is kept.
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
import pyarrow.csv
import pyarrow.orc
import pyarrow.parquet

from benchmarks.loader.sets import COLUMNS, FEATURE_PERIOD, LABELS, MANIFEST, NUM_FEATURES, SETS, DataSet
from benchmarks.runner.session import DATASET_RECORD

# Rows that are made at a time: 130 MB. A multiple of every row group, so blocks leave no short group behind.
_BLOCK_ROWS = 500_000
# Float64 first, as the formula says; the division in float32 would give other last bits.
_FEATURE_VALUES = (np.arange(FEATURE_PERIOD, dtype=np.float64) / FEATURE_PERIOD).astype(np.float32)


def main(arguments: Sequence[str] | None = None) -> None:
    """Reads the command line and writes the folders."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loader.data", description=__doc__)
    parser.add_argument("out", type=Path, help="folder of the data sets")
    parser.add_argument("--sets", nargs="+", choices=sorted(SETS), default=list(SETS), help="which; default: all")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args(arguments)
    for name in options.sets:
        start = time.perf_counter()
        is_new = write_set(SETS[name], options.out / name, processes=options.processes)
        print(
            f"{options.out / name}: {'written' if is_new else 'kept'}, {time.perf_counter() - start:.1f} s", flush=True
        )


def write_set(one: DataSet, folder: Path, *, processes: int = 1) -> bool:
    """Writes one data set, unless it is there already; returns whether it was written.

    Args:
        one: What to write.
        folder: Replaced if its manifest tells of other content.
        processes: Files that are written at a time.
    """
    manifest = folder / MANIFEST
    if manifest.exists() and json.loads(manifest.read_text()) == one.manifest():
        _write_record(one, folder)
        return False
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    files = one.manifest()["files"]
    paths = [folder / file["name"] for file in files]
    starts, rows = [file["first_row"] for file in files], [file["rows"] for file in files]
    if processes > 1 and len(files) > 1:
        with ProcessPoolExecutor(processes) as pool:
            list(pool.map(write_file, [one] * len(files), paths, starts, rows))
    else:
        for path, start, count in zip(paths, starts, rows, strict=True):
            write_file(one, path, start, count)
    _write_record(one, folder)
    staging = folder / f".{MANIFEST}.partial"
    staging.write_text(json.dumps(one.manifest(), indent=2) + "\n")
    staging.replace(manifest)
    return True


def write_file(one: DataSet, path: Path, first_row: int, rows: int) -> None:
    """Writes one file in the format of its data set, with the writer's defaults."""
    if one.kind == "parquet":
        with pyarrow.parquet.ParquetWriter(path, rows_table(0, 0).schema) as writer:
            for block in _blocks(one, first_row, rows):
                writer.write_table(block, row_group_size=one.row_group)
        return
    table = pa.concat_tables(_blocks(one, first_row, rows))
    if one.kind == "orc":
        pyarrow.orc.write_table(table, path)
    else:
        pyarrow.csv.write_csv(table, path)


def rows_table(first_row: int, rows: int, *, is_sorted: bool = False) -> pa.Table:
    """Returns the rows of consecutive numbers, sorted by label if asked."""
    numbers = np.arange(first_row, first_row + rows, dtype=np.int32)
    if is_sorted:
        numbers = numbers[np.argsort(numbers % LABELS, kind="stable")]
    phases = numbers % FEATURE_PERIOD
    # One copy with the period appended, so that the shift by a feature's number needs no second modulo.
    shifted = np.concatenate([_FEATURE_VALUES, _FEATURE_VALUES])
    features = [shifted[phases + number % FEATURE_PERIOD] for number in range(NUM_FEATURES)]
    arrays = [numbers, *features, (numbers % LABELS).astype(np.int32)]
    return pa.table([pa.array(array) for array in arrays], names=list(COLUMNS))


def _write_record(one: DataSet, folder: Path) -> None:
    """Writes what a session copies into its results."""
    made = one.manifest()
    size = sum((folder / file["name"]).stat().st_size for file in made["files"])
    record = {"writer": "benchmarks.loader.data", "rows": one.total_rows, "files": len(one.rows), "bytes": size}
    kept = {name: made[name] for name in ("format", "formula", "row_group", "is_sorted")}
    (folder / DATASET_RECORD).write_text(json.dumps(record | kept, indent=2) + "\n")


def _blocks(one: DataSet, first_row: int, rows: int) -> Iterator[pa.Table]:
    if one.is_sorted:
        # The order is that of the whole file.
        yield rows_table(first_row, rows, is_sorted=True)
        return
    for offset in range(0, rows, _BLOCK_ROWS):
        yield rows_table(first_row + offset, min(_BLOCK_ROWS, rows - offset))


if __name__ == "__main__":
    main()
