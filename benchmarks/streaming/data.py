"""Writes the data of the streaming benchmark: ``python -m benchmarks.streaming.data OUT --sets source mds``.

Enters: names of sets. Leaves: one folder a set; its record, hidden because readers take whole folders, is written last.
Invariant: ``mds`` is written by MosaicML's own writer, in the interpreter that has it, from the rows of ``source``; a
folder that is there already is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from benchmarks.runner.session import DATASET_RECORD
from benchmarks.streaming.sets import MDS_SET, ROWS, SHARD_BYTES, SOURCE_FILE, SOURCE_SET, Source, labels, texts


def main(arguments: Sequence[str] | None = None) -> None:
    """Reads the command line and writes the folders."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.streaming.data", description=__doc__)
    parser.add_argument("out", type=Path, help="folder of the data sets")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--sets", nargs="+", choices=[SOURCE_SET, MDS_SET], default=[SOURCE_SET])
    options = parser.parse_args(arguments)
    for name in options.sets:
        write = write_source if name == SOURCE_SET else write_mds
        is_new = write_set(options.out, name, options.rows, write)
        print(f"{options.out / name}: {'written' if is_new else 'kept'}", flush=True)


def write_set(out: Path, name: str, rows: int, write: Callable[[Path, Path, int], None]) -> bool:
    """Writes a folder unless it is there with as many rows; returns whether it did."""
    folder = out / name
    record = folder / DATASET_RECORD
    if record.exists() and json.loads(record.read_text())["rows"] == rows:
        return False
    staging = out / f".{name}.partial-{os.getpid()}"
    staging.mkdir(parents=True)
    write(out, staging, rows)
    size = sum(path.stat().st_size for path in staging.iterdir())
    files = len(list(staging.iterdir()))
    (staging / DATASET_RECORD).write_text(
        json.dumps({"name": name, "rows": rows, "files": files, "bytes": size}, indent=2) + "\n"
    )
    if folder.exists():
        shutil.rmtree(folder)
    staging.rename(folder)
    return True


def write_source(_: Path, staging: Path, rows: int) -> None:
    """An Arrow file, which readers map."""
    table = pa.table({"text": pa.array(texts(rows)), "label": pa.array(labels(rows), pa.int32())})
    with pa.OSFile(str(staging / SOURCE_FILE), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=10_000)


def write_mds(out: Path, staging: Path, _: int) -> None:
    """Shards as the fair protocol has them."""
    from streaming import MDSWriter  # pyright: ignore - of the peers' interpreter

    with MDSWriter(out=str(staging), columns={"text": "str", "label": "int"}, size_limit=SHARD_BYTES) as writer:
        for row in Source.of(out / SOURCE_SET):
            writer.write(row)


if __name__ == "__main__":
    main()
