"""The data sets of the loader benchmark: how many files, how many rows, how they are sorted.

Enters: nothing. Leaves: ``SETS``. Called by ``data``, which writes them, and by the scenarios, which assert counts.
Invariant: the standard library is enough, because the peers' interpreters import this file too.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

NUM_FEATURES = 64
LABELS = 10
# Feature values repeat after this many rows.
FEATURE_PERIOD = 100
COLUMNS = ("row_id", *(f"feat_{number:02d}" for number in range(NUM_FEATURES)), "label")
BYTES_PER_ROW = 4 * len(COLUMNS)
MANIFEST = "manifest.json"
_FORMULA = 1


@dataclass(frozen=True)
class DataSet:
    """A folder of files with the same columns.

    Attributes:
        rows: Rows of each file, in the order of their names.
        row_group: Rows of a row group; Parquet only.
        is_sorted: Each file is sorted by ``label``, rows of one label in their old order.
        kind: ``parquet``, ``orc`` or ``csv``.
    """

    name: str
    rows: tuple[int, ...]
    row_group: int
    is_sorted: bool = False
    kind: str = "parquet"

    @property
    def total_rows(self) -> int:
        """Rows of all files."""
        return sum(self.rows)

    def file_name(self, number: int) -> str:
        """Name of a file."""
        return f"part_{number:04d}.{self.kind}"

    def manifest(self) -> dict[str, Any]:
        """Returns what ``manifest.json`` holds: everything that decides the content of the files."""
        starts = [sum(self.rows[:number]) for number in range(len(self.rows))]
        return {
            "name": self.name,
            "format": self.kind,
            "formula": _FORMULA,
            "columns": list(COLUMNS),
            "row_group": self.row_group,
            "is_sorted": self.is_sorted,
            "total_rows": self.total_rows,
            "files": [
                {"name": self.file_name(number), "first_row": start, "rows": rows}
                for number, (start, rows) in enumerate(zip(starts, self.rows, strict=True))
            ],
        }


def _unequal_rows() -> tuple[int, ...]:
    rows = [10_000 * 2 ** (number % 6) for number in range(20)]
    random.Random(42).shuffle(rows)
    return tuple(rows)


def _variants(one: DataSet) -> list[DataSet]:
    return [replace(one, name=f"{one.name}_{kind}", kind=kind) for kind in ("orc", "csv")]


_SMALL = DataSet("small", (50_000,) * 10, 5_000)

SETS = {
    one.name: one
    for one in (
        DataSet("tiny", (10_000,) * 4, 2_000),
        _SMALL,
        *_variants(_SMALL),
        DataSet("large", (500_000,) * 50, 50_000),
        DataSet("large_sorted", (500_000,) * 50, 50_000, is_sorted=True),
        DataSet("unequal", _unequal_rows(), 5_000),
        DataSet("single_large", (10_000_000,), 50_000),
    )
}
