"""Writes the data sets of the remote benchmark: ``python -m benchmarks.remote.data OUT --sets tables plain``.

Enters: names of ``sets``. Leaves: one folder a set with a manifest and the record of a session. Invariant: ``mds`` is written by
MosaicML's own writer, in the interpreter that has it, from the rows of ``rows``; a folder that is there already is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.loader.data import rows_table, write_set
from benchmarks.loader.sets import COLUMNS, MANIFEST, DataSet
from benchmarks.remote.sets import MDS, PLAIN, ROWS, SHARD_BYTES, data_sets
from benchmarks.runner.session import DATASET_RECORD


def main(arguments: Sequence[str] | None = None) -> None:
    """Reads the command line and writes the folders."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.remote.data", description=__doc__)
    parser.add_argument("out", type=Path, help="folder of the data sets")
    parser.add_argument("--sets", nargs="+", choices=[*data_sets(), MDS], default=list(data_sets()))
    parser.add_argument("--share", type=float, default=1.0, help="of the full size; below one it is a try")
    options = parser.parse_args(arguments)
    known = data_sets(options.share)
    for name in options.sets:
        folder = options.out / name
        if name == MDS:
            is_new = write_mds(known[ROWS], folder)
        elif name == PLAIN:
            is_new = write_plain(known[PLAIN], folder)
        else:
            is_new = write_set(known[name], folder, processes=len(os.sched_getaffinity(0)))
        print(f"{folder}: {'written' if is_new else 'kept'}", flush=True)


def write_plain(one: DataSet, folder: Path) -> bool:
    """Values one after another, as they are in memory."""
    if not _begin(one, folder):
        return False
    for file in one.manifest()["files"]:
        pq.write_table(
            rows_table(file["first_row"], file["rows"]),
            folder / file["name"],
            row_group_size=one.row_group,
            compression="none",
            use_dictionary=False,
        )
    _finish(one, folder, "parquet, plain")
    return True


def write_mds(one: DataSet, folder: Path) -> bool:
    """The rows of a set as MosaicML keeps them, uncompressed."""
    if not _begin(one, folder):
        return False
    from streaming import MDSWriter  # pyright: ignore - of the peers' interpreter

    kinds = {name: "int32" if name in ("row_id", "label") else "float32" for name in COLUMNS}
    with MDSWriter(out=str(folder), columns=kinds, size_limit=SHARD_BYTES) as writer:
        for file in one.manifest()["files"]:
            table = rows_table(file["first_row"], file["rows"])
            columns = [column.to_numpy() for column in table.columns]
            for values in zip(*columns, strict=True):
                writer.write(dict(zip(COLUMNS, values, strict=True)))
    _finish(one, folder, "mds")
    return True


def _begin(one: DataSet, folder: Path) -> bool:
    manifest = folder / f".{MANIFEST}"
    if manifest.exists() and json.loads(manifest.read_text()) == one.manifest():
        return False
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    return True


def _finish(one: DataSet, folder: Path, kind: str) -> None:
    """The manifest last; hidden, because MosaicML's folders hold nothing of others."""
    files = [path for path in folder.iterdir() if not path.name.startswith(".")]
    record = {
        "writer": "benchmarks.remote.data",
        "rows": one.total_rows,
        "files": len(files),
        "bytes": sum(path.stat().st_size for path in files),
        "format": kind,
    }
    (folder / DATASET_RECORD).write_text(json.dumps(record, indent=2) + "\n")
    (folder / f".{MANIFEST}").write_text(json.dumps(one.manifest(), indent=2) + "\n")


if __name__ == "__main__":
    main()
