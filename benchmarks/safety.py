"""What checks cost: page checksums of written Parquet, and ids of many small files beside those of one.

Usage: python -m benchmarks.safety REPORT.md
"""

import resource
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shardmill as sm

ROUNDS = 7
HOW = "Medians of seven interleaved repeats, in seconds of CPU of all threads, by `make bench-safety`."
WORDS = ["the", "of", "and", "to", "in", "is", "it", "that", "was", "for", "on", "are", "as", "with", "his", "they"]


def cpu_seconds(call: Callable[[], object]) -> float:
    """The CPU time that a call takes in this process."""

    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime

    before = used()
    call()
    return used() - before


def interleaved(one: Callable[[], object], other: Callable[[], object]) -> tuple[float, float]:
    """The medians of two calls that take turns."""
    pairs = [(cpu_seconds(one), cpu_seconds(other)) for _ in range(ROUNDS)]
    return statistics.median(first for first, _ in pairs), statistics.median(second for _, second in pairs)


def tables(rows: int = 200_000) -> dict[str, tuple[pa.Table, str]]:
    """Text as it is and compressed, and bytes as images have them, with the compression to write them by."""
    random = np.random.default_rng(1)
    texts = [" ".join(words) for words in random.choice(WORDS, size=(rows, 24))]
    images = [random.bytes(100_000) for _ in range(1000)]
    text, image = pa.table({"text": texts}), pa.table({"image": images})
    return {"text, zstd": (text, "zstd"), "text, uncompressed": (text, "none"), "images, uncompressed": (image, "none")}


def checksum_lines(folder: Path) -> list[str]:
    """Writing with and without page checksums."""

    def write(table: pa.Table, compression: str, *, page_checksums: bool) -> None:
        path = folder / "out.parquet"
        with sm.Writer(path, compression=compression, page_checksums=page_checksums, mode="overwrite") as writer:
            for batch in table.to_batches(max_chunksize=10_000):
                writer.write(batch)

    lines = []
    for name, (table, compression) in tables().items():
        without, with_ = interleaved(
            lambda table=table, compression=compression: write(table, compression, page_checksums=False),
            lambda table=table, compression=compression: write(table, compression, page_checksums=True),
        )
        lines.append(f"| page checksums: {name} | {without:.3f} | {with_:.3f} | {with_ / without:.3f} | 1.03 |")
    return lines


def index_lines(folder: Path, files: int = 10_000) -> list[str]:
    """`IdIndex.build` over one file and over many with the same ids."""
    lines = []
    for ids in (1000, 100):
        many, one = folder / f"many-{ids}", folder / f"one-{ids}"
        many.mkdir()
        one.mkdir()
        values = np.random.default_rng(2).permutation(files * ids)
        for number in range(files):
            pq.write_table(pa.table({"id": values[number * ids : (number + 1) * ids]}), many / f"{number:05}.parquet")
        pq.write_table(pa.table({"id": values}), one / "0.parquet", row_group_size=1_000_000)

        def build(source: Path) -> None:
            sm.resume.IdIndex.build(source, "id", path=folder / "built.ids", progress=False)
            (folder / "built.ids").unlink()

        single, several = interleaved(lambda one=one: build(one), lambda many=many: build(many))
        lines.append(
            f"| ids of {files:,} files, {ids:,} each | {single:.3f} | {several:.3f} | {several / single:.2f} | 2 |"
        )
    return lines


def main(report: Path) -> None:
    """Measures and writes the report."""
    with tempfile.TemporaryDirectory() as folder:
        lines = checksum_lines(Path(folder)) + index_lines(Path(folder))
    table = [
        "| what | without, or one file (s) | with, or many files (s) | ratio | goal |",
        "|---|--:|--:|--:|--:|",
        *lines,
    ]
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text("\n".join(["# What checks cost", "", HOW, "", *table, ""]))
    print(report.read_text())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
