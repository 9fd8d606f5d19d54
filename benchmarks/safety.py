"""What checks cost: page checksums of written Parquet, and ids of many small files.

The ids of small files are compared with those of one file. Seconds are those of the processor, of
all threads of this process; the two sides take turns.
"""

from __future__ import annotations

import resource
import statistics
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shardmill as sm

from benchmarks.measure import Metrics, Options, run_entry

_WORDS = [
    "the",
    "of",
    "and",
    "to",
    "in",
    "is",
    "it",
    "that",
    "was",
    "for",
    "on",
    "are",
    "as",
    "with",
    "his",
    "they",
]


@dataclass(frozen=True, kw_only=True)
class SafetyOptions(Options):
    """What is written: ``values`` are texts or images; or how many ids each of ``files`` has."""

    values: str = "texts"
    compression: str = "none"
    rows: int = 200_000
    files: int = 10_000
    ids: int = 1_000
    repeats: int = 7


def interleaved(
    options: SafetyOptions, without: Callable[[], object], with_: Callable[[], object]
) -> Metrics:
    """The medians of two calls that take turns."""

    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime

    seconds: list[list[float]] = [[], []]
    for _ in range(options.repeats):
        for place, call in enumerate((without, with_)):
            before = used()
            call()
            seconds[place].append(used() - before)
    return {"without_s": statistics.median(seconds[0]), "with_s": statistics.median(seconds[1])}


def checksums(options: SafetyOptions) -> Metrics:
    """Writing with and without page checksums."""
    random = np.random.default_rng(1)
    if options.values == "texts":
        values: list[str] | list[bytes] = [
            " ".join(words) for words in random.choice(_WORDS, size=(options.rows, 24))
        ]
    else:
        values = [random.bytes(100_000) for _ in range(options.rows // 200)]
    batches = pa.table({"value": values}).to_batches(max_chunksize=10_000)
    path = options.scratch / "out.parquet"

    def write(page_checksums: bool) -> None:
        given = {"compression": options.compression, "page_checksums": page_checksums}
        with sm.Writer(path, mode="overwrite", **given) as writer:
            for batch in batches:
                writer.write_batch(batch)

    return interleaved(options, lambda: write(False), lambda: write(True))


def index(options: SafetyOptions) -> Metrics:
    """``IdIndex.build`` over one file and over many with the same ids."""
    many, one = options.scratch / "many", options.scratch / "one"
    many.mkdir(parents=True)
    one.mkdir()
    values = np.random.default_rng(2).permutation(options.files * options.ids)
    for number, part in enumerate(np.split(values, options.files)):
        pq.write_table(pa.table({"id": part}), many / f"{number:05}.parquet")
    pq.write_table(pa.table({"id": values}), one / "0.parquet", row_group_size=1_000_000)
    target = options.scratch / "built.ids"

    def build(source: object) -> None:
        built = sm.resume.IdIndex.build(str(source), "id", path=target, progress=False)
        assert len(built) == len(values)
        target.unlink()

    return interleaved(options, lambda: build(one), lambda: build(many))


SCENARIOS = {"checksums": checksums, "index": index}


if __name__ == "__main__":
    run_entry(SafetyOptions, lambda options: SCENARIOS[options.scenario](options))
