"""Three cheap ratios that a change must not lose: ``python -m benchmarks.gate``.

It exits with 1 if one is below its bound. Both systems of a ratio run in turn in this process, and
the fastest of five runs counts. The bounds are about half of what the pages in ``docs/benchmarks``
show, because other work on the machine disturbs such short runs.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_RUNS = 5
_BATCH = 1024
_RECORDS, _RECORD_BYTES = 20_000, 1_000
_DOCUMENTS, _WORDS = 500, 600


@dataclass(frozen=True)
class Ratio:
    """What two systems do, and how many times as fast shardmill must be."""

    name: str
    peer: str
    at_least: float
    ours: Callable[[], Any]
    theirs: Callable[[], Any]


def tables(directory: Path) -> Ratio:
    """Parquet to NumPy batches."""
    import pyarrow.parquet as pq
    import shardmill as sm

    from benchmarks.tables import COLUMNS, rows_table

    path = directory / "rows.parquet"
    pq.write_table(rows_table(range(400_000)), path, row_group_size=50_000)

    def ours() -> int:
        return sum(
            len(batch["row_id"]) for batch in sm.Loader(path, batch_size=_BATCH, output="numpy")
        )

    def theirs() -> int:
        batches = pq.ParquetFile(path).iter_batches(_BATCH)
        return sum(
            len({name: batch[name].to_numpy() for name in COLUMNS}["row_id"]) for batch in batches
        )

    return Ratio("Parquet to NumPy, 66 columns", "pyarrow", 1.2, ours, theirs)


def records(directory: Path) -> Ratio:
    """ArrayRecord records by index."""
    from array_record.python.array_record_module import ArrayRecordWriter
    from shardmill.arrayrecord import ArrayRecordDataSource

    from array_record.python.array_record_data_source import (  # isort: skip
        ArrayRecordDataSource as Original,
    )

    path = str(directory / "records.array_record")
    draw = random.Random(0)
    writer = ArrayRecordWriter(path, "group_size:1,zstd")
    for _ in range(_RECORDS):
        writer.write(draw.randbytes(_RECORD_BYTES))
    writer.close()
    ours, theirs = ArrayRecordDataSource(path), Original(path)
    indices = [draw.randrange(_RECORDS) for _ in range(2_000)]

    def bytes_of(source: Any) -> int:
        return sum(len(source[index]) for index in indices)

    return Ratio(
        "ArrayRecord, source[i]",
        "array_record",
        8,
        lambda: bytes_of(ours),
        lambda: bytes_of(theirs),
    )


def texts(directory: Path) -> Ratio:
    """Texts to token ids."""
    import shardmill as sm
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    draw = random.Random(0)
    words = ["".join(draw.choices("etaoinshrdlu", k=draw.randint(2, 9))) for _ in range(5_000)]
    documents = [" ".join(draw.choices(words, k=_WORDS)) for _ in range(_DOCUMENTS)]
    theirs = Tokenizer(models.BPE())
    theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    theirs.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=2_000, initial_alphabet=alphabet, show_progress=False)
    theirs.train_from_iterator(documents, trainer)
    theirs.save(str(directory / "tokenizer.json"))
    ours = sm.Tokenizer(directory / "tokenizer.json")

    def of_peer() -> int:
        return sum(
            len(one.ids) for one in theirs.encode_batch_fast(documents, add_special_tokens=False)
        )

    return Ratio(
        "texts to ids",
        "tokenizers",
        6,
        lambda: sum(len(ids) for ids in ours.encode_batch(documents)),
        of_peer,
    )


RATIOS = (tables, records, texts)


def measured(ratio: Ratio) -> float:
    """How many times as fast as the peer shardmill is.

    Raises:
        AssertionError: If the results differ.
    """
    best: dict[str, float] = {}
    for _ in range(_RUNS):
        results = set()
        for name, run in (("ours", ratio.ours), ("theirs", ratio.theirs)):
            start = time.perf_counter()
            results.add(run())
            best[name] = min(best.get(name, float("inf")), time.perf_counter() - start)
        assert len(results) == 1, (
            f"{ratio.name}: the results of shardmill and {ratio.peer} differ: {results}"
        )
    return best["theirs"] / best["ours"]


def main() -> int:
    """Print the ratios, and return the exit status."""
    failed = 0
    for make in RATIOS:
        with tempfile.TemporaryDirectory() as directory:
            ratio = make(Path(directory))
            found = measured(ratio)
        is_met = found >= ratio.at_least
        failed += not is_met
        print(
            f"{ratio.name:30} {found:6.2f}× {ratio.peer}, "
            f"at least {ratio.at_least:g}×{'' if is_met else ': too slow'}"
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
