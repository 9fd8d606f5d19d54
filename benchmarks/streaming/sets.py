"""The rows of the streaming benchmark: as many, as long and as labelled as the test split of IMDB.

Enters: a number of rows. Leaves: columns of texts and labels, and the folders where they are. Called by ``data`` and the
entry scripts. Invariant: a table follows from the number of its rows alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROWS = 25_000
#: Of the labels of the table.
CLASSES = 2
SOURCE_SET, MDS_SET = "source", "mds"
SOURCE_FILE = "rows.arrow"
#: Of the shards of the fair protocol, so that there are at least ten.
SHARD_BYTES = 3_000_000

_SEED = 42
_WORDS = 40_000
_MEAN, _SIGMA, _SHORTEST, _LONGEST = 1_285, 0.65, 30, 13_000
# One word in a thousand letters' worth is written with a letter that ASCII has not.
_FOREIGN = "é"


def texts(rows: int) -> list[str]:
    """Words whose frequencies follow Zipf's law, in lengths that are log-normal."""
    random = np.random.default_rng(_SEED)
    letters = np.array(list("etaoinshrdlucmfwypvbgk"))
    lengths = random.integers(2, 11, _WORDS)
    vocabulary = ["".join(random.choice(letters, length)) for length in lengths]
    vocabulary[100::200] = [word[:-1] + _FOREIGN for word in vocabulary[100::200]]
    weights = 1 / np.arange(1, _WORDS + 1)
    sizes = np.clip(random.lognormal(np.log(_MEAN) - _SIGMA**2 / 2, _SIGMA, rows), _SHORTEST, _LONGEST).astype(int)
    # A word and its blank have seven letters on the average.
    drawn = iter(random.choice(_WORDS, int(sizes.sum()) // 5 + 13_000, p=weights / weights.sum()).tolist())
    return [_text(vocabulary, drawn, size) for size in sizes.tolist()]


def _text(vocabulary: list[str], drawn: Iterator[int], size: int) -> str:
    words: list[str] = []
    length = 0
    while length < size:
        word = vocabulary[next(drawn)]
        words.append(word)
        length += len(word) + 1
    return " ".join(words)[:size]


def labels(rows: int) -> list[int]:
    """Zeros, then as many ones."""
    return [row * CLASSES // rows for row in range(rows)]


@dataclass(frozen=True)
class Source:
    """Rows of an Arrow table, which become Python objects when they are asked for, some at once.

    Attributes:
        table: With the columns ``text`` and ``label``.
    """

    table: Any

    @classmethod
    def of(cls, folder: Path) -> Source:
        """The table that ``data`` wrote."""
        import pyarrow as pa

        with pa.memory_map(str(folder / SOURCE_FILE)) as file:
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
