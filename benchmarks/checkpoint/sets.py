"""The data sets of the checkpoint benchmark: inputs, lists of finished ids, and rows with blobs.

Enters: nothing. Leaves: ``SETS`` and ``GROUPS``. Called by ``data``, which writes them, and by ``report``. Invariant: the
standard library is enough, because the peer's interpreter imports this file too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# Input and checkpoint of ray-project/ray #60294: files `i.parquet` of 10,000 ids, and one file of the first 80 %.
FILE_ROWS = 10_000
DONE_PERCENT = 80
# The series, in % of the input; at 0 there is no checkpoint.
SHARES = (0, 10, 50, 90, 100)
SIZES = {"full": 10_000, "tenth": 1_000, "hundredth": 100}
ID_COLUMN = "id"
BLOB_COLUMN = "blob"
BLOB_BYTES = 1_000_000
_FORMULA = 1


@dataclass(frozen=True)
class DataSet:
    """A folder of Parquet files that hold the decimal ids 0, 1, 2 … as strings, in order.

    Attributes:
        rows: Rows of all files; each but the last has the same number.
        row_group: Rows of a row group; None leaves it to the writer.
        blob_bytes: Length of the value beside each id; 0 for none.
    """

    name: str
    files: int
    rows: int
    row_group: int | None = None
    blob_bytes: int = 0

    def file_name(self, number: int) -> str:
        """Name of a file."""
        return f"{number}.parquet"

    def file_rows(self, number: int) -> range:
        """The rows of a file, which are its ids as well."""
        each = -(-self.rows // self.files)
        return range(number * each, min(self.rows, (number + 1) * each))

    def manifest(self) -> dict[str, Any]:
        """Returns everything that decides the content of the files."""
        return {
            "writer": "benchmarks.checkpoint.data",
            "name": self.name,
            "formula": _FORMULA,
            "files": self.files,
            "rows": self.rows,
            "row_group": self.row_group,
            "blob_bytes": self.blob_bytes,
        }


@dataclass(frozen=True)
class DoneSet(DataSet):
    """The same as a list of finished ids; its only file has the name that a checkpoint gives it."""

    def file_name(self, number: int) -> str:
        """Name of a file."""
        return "ids.parquet" if self.files == 1 else f"ids_{number:05d}.parquet"


def input_name(size: str) -> str:
    """Name of the input of a size."""
    return f"input_{_short(SIZES[size])}"


def done_name(size: str, percent: int) -> str:
    """Name of the list that holds the first ``percent`` of a size's ids."""
    return f"done_{_short(SIZES[size] * FILE_ROWS * percent // 100)}"


def _short(count: int) -> str:
    for unit, letter in ((1_000_000, "m"), (1_000, "k")):
        if count >= unit and count % unit == 0:
            return f"{count // unit}{letter}"
    return str(count)


def _sized(size: str) -> list[DataSet]:
    files = SIZES[size]
    shares = [DONE_PERCENT] if size == "full" else [*SHARES[1:], DONE_PERCENT]
    done = [DoneSet(done_name(size, share), 1, files * FILE_ROWS * share // 100) for share in sorted(shares)]
    return [DataSet(input_name(size), files, files * FILE_ROWS), *done]


# The checkpoint of the tenth size as the many files that a job leaves behind.
MANY_FILES = DoneSet(
    f"{done_name('tenth', DONE_PERCENT)}_files", 10_000, SIZES["tenth"] * FILE_ROWS * DONE_PERCENT // 100
)
# Files of several row groups, all of whose rows are done.
WIDE = DataSet("wide", 4, 1_000, row_group=50, blob_bytes=BLOB_BYTES)
WIDE_DONE = DoneSet("done_wide", 1, WIDE.rows)

GROUPS: dict[str, list[DataSet]] = {size: _sized(size) for size in SIZES}
GROUPS["tenth"].append(MANY_FILES)
GROUPS["wide"] = [WIDE, WIDE_DONE]

SETS = {one.name: one for group in GROUPS.values() for one in group}
