"""Tables of 66 columns, for the loader and the remote benchmark.

    python -m benchmarks.tables --out=DIR --set=small

The content of a row follows from its number alone, so the same set has the same rows
on every machine.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measure import make_set, read_options

if TYPE_CHECKING:
    import pyarrow as pa

LABELS, FEATURE_PERIOD, NUM_FEATURES = 10, 100, 64
COLUMNS = ("row_id", *(f"feat_{number:02d}" for number in range(NUM_FEATURES)), "label")
# 130 MB; a multiple of every row group, so that blocks leave no short group between them.
_BLOCK_ROWS = 500_000
LONGEST_LIST, NUM_TOKENS = 256, 50_000
_SHARD_BYTES = 8 << 20


@dataclass(frozen=True)
class DataSet:
    """A directory of files with the same columns.

    Attributes:
        rows: Rows of each file, in the order of their names.
        is_sorted: Each file is sorted by ``label``, rows of one label in their old order.
        kind: ``parquet``, ``orc``, ``csv``, ``plain`` (Parquet without encoding and compression),
            ``tokens`` (Parquet with lists) or ``mds``.
    """

    rows: tuple[int, ...]
    row_group: int
    is_sorted: bool = False
    kind: str = "parquet"

    @property
    def total_rows(self) -> int:
        """Rows of all files."""
        return sum(self.rows)

    @property
    def expected(self) -> tuple[int, int]:
        """Rows of all files, and the sum of their ``row_id``."""
        return self.total_rows, self.total_rows * (self.total_rows - 1) // 2

    @property
    def suffix(self) -> str:
        """What the names of the files end in."""
        return "parquet" if self.kind in ("plain", "tokens") else self.kind

    def files(self) -> list[tuple[str, range]]:
        """Names of the files, and the numbers of their rows."""
        starts = [sum(self.rows[:number]) for number in range(len(self.rows))]
        suffix = self.suffix
        pairs = enumerate(zip(starts, self.rows, strict=True))
        return [
            (f"part_{number:04d}.{suffix}", range(start, start + rows))
            for number, (start, rows) in pairs
        ]


def data_sets(share: float = 1.0) -> dict[str, DataSet]:
    """All sets by name; a share below one makes them smaller."""

    def part(count: int, least: int) -> int:
        return max(least, round(count * share))

    unequal = [10_000 * 2 ** (number % 6) for number in range(20)]
    random.Random(42).shuffle(unequal)
    return {
        "tiny": DataSet((10_000,) * 4, 2_000),
        "small": DataSet((50_000,) * part(10, 2), 5_000),
        "small_orc": DataSet((50_000,) * part(10, 2), 5_000, kind="orc"),
        "small_csv": DataSet((50_000,) * part(10, 2), 5_000, kind="csv"),
        "large": DataSet((500_000,) * part(20, 1), 50_000),
        "large_sorted": DataSet((500_000,) * part(20, 1), 50_000, is_sorted=True),
        "unequal": DataSet(tuple(unequal), 5_000),
        "single_large": DataSet((part(10_000_000, 500_000),), 50_000),
        "tokens": DataSet((100_000,) * part(10, 1), 20_000, kind="tokens"),
        # Dictionaries and Snappy, a byte or less for a value; then what comes over the wire is what
        # the batch holds.
        "tables": DataSet((500_000,) * part(8, 2), 50_000),
        "plain": DataSet((100_000,) * part(10, 2), 20_000, kind="plain"),
        "many": DataSet((500,) * part(1_000, 20), 500),
        "short": DataSet((50_000,) * part(4, 1), 5_000),
        "mds": DataSet((10_000,) * part(2, 1), 10_000, kind="mds"),
    }


def write_set(one: DataSet, directory: Path) -> bool:
    """Writes a data set unless it is there; returns whether it was written."""

    def write(staging: Path) -> None:
        if one.kind == "mds":
            _write_mds(one, staging)
            return
        with ProcessPoolExecutor(min(len(one.rows), len(os.sched_getaffinity(0)))) as pool:
            list(pool.map(partial(_write_file, one, staging), *zip(*one.files(), strict=True)))

    return make_set(directory, asdict(one) | {"num_rows": one.total_rows}, write)


def rows_table(rows: range, *, is_sorted: bool = False) -> pa.Table:
    """The rows of consecutive numbers, sorted by label if asked."""
    import numpy as np
    import pyarrow as pa

    numbers = np.arange(rows.start, rows.stop, dtype=np.int32)
    if is_sorted:
        numbers = numbers[np.argsort(numbers % LABELS, kind="stable")]
    phases = numbers % FEATURE_PERIOD
    # Float64 first, as the formula says; the division in float32 would give other last bits.
    values = (np.arange(FEATURE_PERIOD, dtype=np.float64) / FEATURE_PERIOD).astype(np.float32)
    # One copy with the period appended, so that the shift by a feature's number needs
    # no second modulo.
    shifted = np.concatenate([values, values])
    features = [shifted[phases + number % FEATURE_PERIOD] for number in range(NUM_FEATURES)]
    arrays = [numbers, *features, (numbers % LABELS).astype(np.int32)]
    return pa.table([pa.array(array) for array in arrays], names=list(COLUMNS))


def tokens_table(rows: range) -> pa.Table:
    """The rows of consecutive numbers, each a list of 1 to 256 tokens."""
    import numpy as np
    import pyarrow as pa

    numbers = np.arange(rows.start, rows.stop, dtype=np.int64)
    # Multipliers without a factor in common with the modulus: lengths and tokens look random and
    # need no state.
    lengths = numbers * 7_919 % LONGEST_LIST + 1
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    places = np.arange(offsets[-1], dtype=np.int64) + np.repeat(
        numbers * LONGEST_LIST - offsets[:-1], lengths
    )
    tokens = (places * 2_654_435_761 % (1 << 32) % NUM_TOKENS).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(offsets), pa.array(tokens))
    return pa.table({"row_id": pa.array(numbers.astype(np.int32)), "tokens": lists})


def _write_file(one: DataSet, directory: Path, name: str, rows: range) -> None:
    import pyarrow as pa
    import pyarrow.csv as csv
    import pyarrow.orc as orc
    import pyarrow.parquet as pq

    path = directory / name
    if one.kind == "tokens":
        pq.write_table(tokens_table(rows), path, row_group_size=one.row_group)
        return
    if one.kind in ("parquet", "plain"):
        given: dict[str, Any] = (
            {"compression": "none", "use_dictionary": False} if one.kind == "plain" else {}
        )
        with pq.ParquetWriter(path, rows_table(range(0)).schema, **given) as writer:
            for block in _blocks(one, rows):
                writer.write_table(block, row_group_size=one.row_group)
        return
    table = pa.concat_tables(_blocks(one, rows))
    if one.kind == "orc":
        orc.write_table(table, path)
    else:
        csv.write_csv(table, path)


def _write_mds(one: DataSet, directory: Path) -> None:
    """The rows as MosaicML keeps them, by its own writer, in the interpreter that has it."""
    from streaming import MDSWriter  # pyright: ignore - of the peer

    kinds = {name: "int32" if name in ("row_id", "label") else "float32" for name in COLUMNS}
    with MDSWriter(out=str(directory), columns=kinds, size_limit=_SHARD_BYTES) as writer:
        for _, rows in one.files():
            columns = [column.to_numpy() for column in rows_table(rows).columns]
            for values in zip(*columns, strict=True):
                writer.write(dict(zip(COLUMNS, values, strict=True)))


def _blocks(one: DataSet, rows: range) -> Iterator[pa.Table]:
    # Sorted rows have the order of the whole file.
    size = len(rows) if one.is_sorted else _BLOCK_ROWS
    for first in range(rows.start, rows.stop, size):
        yield rows_table(range(first, min(first + size, rows.stop)), is_sorted=one.is_sorted)


@dataclass(frozen=True)
class _Options:
    out: Path
    set: str
    share: float = 1.0


if __name__ == "__main__":
    given = read_options(_Options)
    write_set(data_sets(given.share)[given.set], given.out)
