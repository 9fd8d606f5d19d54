"""Data of the streaming benchmark: ``python -m benchmarks.streaming_data --out=DIR --rows=25000``.

A table follows from the number of its rows alone. With ``--source`` the rows are written as MDS, by
MosaicML's own writer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.measure import make_set, read_options

if TYPE_CHECKING:
    import pyarrow as pa

#: Of the shards of the fair protocol, so that there are at least ten.
SHARD_BYTES = 3_000_000
_FILE, _SEED, _WORDS = "rows.arrow", 42, 40_000
_MEAN, _SIGMA, _SHORTEST, _LONGEST = 1_285, 0.65, 30, 13_000


@dataclass(frozen=True)
class Source:
    """Rows of an Arrow table, which become Python objects when they are asked for, some at once."""

    table: pa.Table

    @classmethod
    def of(cls, directory: Path) -> Source:
        """The table that was written."""
        import pyarrow as pa

        with pa.memory_map(str(directory / _FILE)) as file:
            return cls(pa.ipc.open_file(file).read_all())

    def __len__(self) -> int:
        return self.table.num_rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self.table.to_batches(max_chunksize=1_000):
            yield from batch.to_pylist()

    def part(self, number: int, parts: int) -> Source:
        """One of equal runs of rows."""
        size = -(-len(self) // parts)
        return Source(self.table.slice(number * size, size))


def texts(rows: int) -> list[str]:
    """Words whose frequencies follow Zipf's law, in lengths that are log-normal."""
    random = np.random.default_rng(_SEED)
    letters = np.array(list("etaoinshrdlucmfwypvbgk"))
    vocabulary = [
        "".join(random.choice(letters, length)) for length in random.integers(2, 11, _WORDS)
    ]
    # One word in a thousand letters' worth is written with a letter that ASCII has not.
    vocabulary[100::200] = [word[:-1] + "é" for word in vocabulary[100::200]]
    weights = 1 / np.arange(1, _WORDS + 1)
    sizes = np.clip(
        random.lognormal(np.log(_MEAN) - _SIGMA**2 / 2, _SIGMA, rows), _SHORTEST, _LONGEST
    ).astype(int)
    # A word and its blank have seven letters on the average.
    sampled = iter(
        random.choice(_WORDS, int(sizes.sum()) // 5 + 13_000, p=weights / weights.sum()).tolist()
    )
    found = []
    for size in sizes.tolist():
        words: list[str] = []
        length = 0
        while length < size:
            words.append(vocabulary[next(sampled)])
            length += len(words[-1]) + 1
        found.append(" ".join(words)[:size])
    return found


def dicts(rows: int) -> list[dict[str, Any]]:
    """The rows as Python objects; labels are zeros, then as many ones."""
    return [{"text": text, "label": row * 2 // rows} for row, text in enumerate(texts(rows))]


def _write_source(directory: Path, rows: int) -> None:
    """An Arrow file, which readers map."""
    import pyarrow as pa

    table = pa.Table.from_pylist(dicts(rows), pa.schema({"text": pa.string(), "label": pa.int32()}))
    with (
        pa.OSFile(str(directory / _FILE), "wb") as file,
        pa.ipc.new_file(file, table.schema) as writer,
    ):
        writer.write_table(table, max_chunksize=10_000)


def _write_mds(directory: Path, source: Path) -> None:
    """Shards as the fair protocol has them."""
    from streaming import MDSWriter  # pyright: ignore - of the peer

    with MDSWriter(
        out=str(directory), columns={"text": "str", "label": "int"}, size_limit=SHARD_BYTES
    ) as writer:
        for row in Source.of(source):
            writer.write(row)


@dataclass(frozen=True)
class _Options:
    out: Path
    rows: int = 25_000
    source: Path | None = None


def main() -> None:
    """Writes the set of the command line."""
    options = read_options(_Options)
    write = (
        partial(_write_mds, source=options.source)
        if options.source
        else partial(_write_source, rows=options.rows)
    )
    make_set(options.out, {"num_rows": options.rows}, write)


if __name__ == "__main__":
    main()
