"""Holds the ids that an entry wrote against those that it had to write, after the timed process.

Enters: the folder of an entry, named ``<size>__done_<percent>…``, with its rows in ``scratch/data``. Leaves:
``check.json`` beside them, and a non-zero exit code if an id is missing, twice or too much. Invariant: the same check for
every system.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from benchmarks.checkpoint.sets import FILE_ROWS, ID_COLUMN, SIZES, WIDE
from benchmarks.loader.options import write_json


def main() -> int:
    """Checks the entry named on the command line."""
    folder = Path(sys.argv[1])
    checked = check_ids(folder / "scratch" / "data", expected_ids(folder.name))
    write_json(folder / "check.json", checked)
    for failure in checked["check_failures"]:
        print(failure, file=sys.stderr)
    return 1 if checked["check_failures"] else 0


def expected_ids(entry: str) -> range:
    """The ids that are not done yet, by the name of an entry."""
    size, setting = entry.split("__")[:2]
    found = re.match(r"done_(\d+)", setting)
    if found is None:
        msg = f"{entry}: {setting} does not begin with done_ and a percentage"
        raise ValueError(msg)
    rows = WIDE.rows if size == WIDE.name else SIZES[size] * FILE_ROWS
    return range(rows * int(found[1]) // 100, rows)


def check_ids(folder: Path, expected: range) -> dict[str, Any]:
    """Returns counts, and a sentence for each thing that is wrong.

    Args:
        folder: With Parquet files; one that does not exist holds no rows.
        expected: The ids, each once.
    """
    files = sorted(folder.rglob("*.parquet"))
    parts = [_ids(path) for path in files]
    found = np.sort(np.concatenate(parts)) if parts else np.array([], dtype=np.int64)
    # Not `unique`, which hashes: twenty times as slow, and these are sorted already.
    distinct = found[np.diff(found, prepend=-1) != 0]
    outside = int(np.count_nonzero((distinct < expected.start) | (distinct >= expected.stop)))
    missing, twice = len(expected) - (len(distinct) - outside), len(found) - len(distinct)
    failures = [
        f"{count:,} ids are {what}" for count, what in ((missing, "missing"), (twice, "twice"), (outside, "too much")) if count
    ]  # fmt: skip
    return {
        "checked_rows": len(found),
        "checked_files": len(files),
        "output_bytes": sum(path.stat().st_size for path in files),
        "check_failures": failures,
    }


def _ids(path: Path) -> np.ndarray[Any, np.dtype[np.int64]]:
    column = pyarrow.parquet.read_table(path, columns=[ID_COLUMN]).column(ID_COLUMN)
    return np.asarray(column.cast(pa.int64()))


if __name__ == "__main__":
    raise SystemExit(main())
