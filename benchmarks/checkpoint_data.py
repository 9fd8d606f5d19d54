"""Data of the checkpoint benchmark.

    python -m benchmarks.checkpoint_data --out=DIR --rows=1000000 --files=100

Files hold the decimal ids 0, 1, 2 … as strings, in order; a list of ids that are done is named as a
checkpoint names it. The check holds the ids that an entry wrote against those that it had to write.
"""

from __future__ import annotations

import os
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import Metrics, Options, make_set, read_options, write_json

#: Rows of the inputs, by the first part of an entry's name. Full is ray-project/ray #60294:
#: 10,000 files of 10,000 ids.
ROWS = {"full": 100_000_000, "tenth": 10_000_000, "hundredth": 1_000_000, "wide": 1_000}
_SEED = 42


@dataclass(frozen=True, kw_only=True)
class SetOptions:
    """A data set.

    Attributes:
        row_group: Rows of a row group.
        blob_bytes: Length of the value beside each id; 0 for none.
        is_done: The files are a list of ids that are done.
    """

    out: Path
    rows: int
    files: int = 1
    row_group: int = 1 << 20
    blob_bytes: int = 0
    is_done: bool = False

    def name(self, number: int) -> str:
        """Name of a file."""
        if not self.is_done:
            return f"{number}.parquet"
        return "ids.parquet" if self.files == 1 else f"ids_{number:05d}.parquet"


def write_file(options: SetOptions, directory: Path, number: int) -> None:
    """Writes one file as ``pyarrow.parquet.write_table`` does by default.

    It has snappy, dictionaries and statistics.
    """
    each = -(-options.rows // options.files)
    stop = min(options.rows, (number + 1) * each)
    types = [("id", pa.string())] + ([("blob", pa.binary())] if options.blob_bytes else [])
    with pq.ParquetWriter(directory / options.name(number), pa.schema(types)) as writer:
        for first in range(number * each, stop, options.row_group):
            rows = range(first, min(first + options.row_group, stop))
            columns = {"id": pa.array(np.arange(rows.start, rows.stop)).cast(pa.string())}
            if options.blob_bytes:
                # Values that no codec makes shorter.
                blobs = [
                    np.random.default_rng([_SEED, row]).bytes(options.blob_bytes) for row in rows
                ]
                columns["blob"] = pa.array(blobs, pa.binary())
            writer.write_table(pa.table(columns), row_group_size=options.row_group)


def write_set(options: SetOptions) -> bool:
    """Writes a data set unless it is there; returns whether it was written."""

    def write(directory: Path) -> None:
        with ProcessPoolExecutor(min(2, len(os.sched_getaffinity(0)))) as pool:
            list(
                pool.map(
                    partial(write_file, options, directory), range(options.files), chunksize=50
                )
            )

    wanted = {name: value for name, value in asdict(options).items() if name != "out"}
    return make_set(options.out, wanted, write)


def expected_ids(entry: str) -> range:
    """The ids that are not done yet, by the name of an entry: ``<size>__done_<percent>…``."""
    size, setting = entry.split("__")[:2]
    percent = re.match(r"done_(\d+)", setting)
    assert percent is not None, f"{entry} does not say how much is done"
    return range(ROWS[size] * int(percent[1]) // 100, ROWS[size])


def check_ids(directory: Path, expected: range) -> Metrics:
    """Counts the ids of Parquet files, with a sentence for each thing that is wrong with them.

    Each id must be there once.
    """
    files = sorted(directory.rglob("*.parquet"))
    columns = [pq.read_table(path, columns=["id"]).column("id").cast(pa.int64()) for path in files]
    found = (
        np.sort(np.concatenate([np.asarray(column) for column in columns]))
        if columns
        else np.array([], np.int64)
    )
    # Not `unique`, which hashes: twenty times as slow, and these are sorted already.
    distinct = found[np.diff(found, prepend=-1) != 0]
    outside = int(np.count_nonzero((distinct < expected.start) | (distinct >= expected.stop)))
    counts = {
        "missing": len(expected) - (len(distinct) - outside),
        "twice": len(found) - len(distinct),
        "too much": outside,
    }
    failures = [f"{count:,} ids are {what}" for what, count in counts.items() if count]
    return {"checked_rows": len(found), "checked_files": len(files), "failures": failures}


def main() -> int:
    """Writes a set, or checks the entry whose directory is all that is given."""
    if len(sys.argv) > 2:
        write_set(read_options(SetOptions))
        return 0
    out = read_options(Options).out
    checked = check_ids(out / "scratch" / "data", expected_ids(out.name))
    write_json(out / "check.json", checked)
    return 1 if checked["failures"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
