"""The data sets of the remote benchmark: the tables of the loader benchmark, in the sizes that a store needs.

Enters: a share of the full size. Leaves: ``DataSet``s. Called by ``data`` and the scenarios. Invariant: the standard library is
enough, because the peers' interpreters import this file too; the content of a row follows from its number alone.
"""

from __future__ import annotations

from benchmarks.loader.sets import DataSet

#: As the loader benchmark writes them: dictionaries and Snappy, a byte or less for a value.
TABLES = "tables"
#: The same rows without encoding and compression: what comes over the wire is what the batch holds.
PLAIN = "plain"
#: A thousand files of one row group.
MANY = "many"
#: The rows that MosaicML's format has too, as MDS and as Parquet.
MDS, ROWS = "mds", "rows"
#: Ten small files, for many epochs.
SMALL = "small"

#: Of the shards of MosaicML.
SHARD_BYTES = 8 << 20


def data_sets(share: float = 1.0) -> dict[str, DataSet]:
    """All of them by name; a share below one is for a try."""

    def part(count: int, least: int) -> int:
        return max(least, round(count * share))

    return {
        one.name: one
        for one in (
            DataSet(TABLES, (500_000,) * part(20, 2), 50_000),
            DataSet(PLAIN, (100_000,) * part(10, 2), 20_000),
            DataSet(MANY, (500,) * part(1_000, 20), 500),
            DataSet(SMALL, (50_000,) * 10, 5_000),
            DataSet(ROWS, (10_000,) * part(4, 2), 10_000),
        )
    }
