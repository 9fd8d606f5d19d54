r"""Measures the id index alone: build time, memory, bytes an id, and probes.

    python -m benchmarks.id_index --out=DIR --ids=80000000 --kind=uuid
    python -m benchmarks.id_index --out=DIR --ids=1000000000 --kind=random-uint --stream=true \
        --probes=100000000 --memory-bytes=1500000000

Each step runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import resource
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.measure import (
    Metrics,
    Options,
    WrongRowsError,
    in_processes,
    run_entry,
    status_bytes,
    timed,
)

_ROW_GROUP = 1 << 20
_UUID_SEED = 7
_POLL_S = 0.05


@dataclass(frozen=True, kw_only=True)
class IndexOptions(Options):
    """What is indexed.

    Attributes:
        kind: ``decimal``, ``uuid``, ``int``, ``random-int`` or ``random-uint``. Random numbers are
            probed in pieces, which have no order, so that the probe takes little memory.
        stream: Make the ids on the way instead of reading them from a file.
    """

    ids: int = 80_000_000
    kind: str = "decimal"
    probes: int = 20_000_000
    threads: int = 2
    memory_bytes: int = 1 << 30
    stream: bool = False

    @property
    def target(self) -> Path:
        """The index."""
        return self.scratch / f"{self.kind}.ids"

    def probed(self) -> Iterator[pa.Array]:
        """Ids of which half are in the index."""
        first = max(0, self.ids - self.probes // 2)
        piece = _ROW_GROUP if self.kind.startswith("random") else self.probes
        for start in range(first, first + self.probes, piece):
            yield ids_of(self.kind, start, min(piece, first + self.probes - start))


def ids_of(kind: str, first: int, count: int) -> pa.Array:
    """Ids number ``first`` to ``first + count``, the same ones whenever they are asked for."""
    numbers = np.arange(first, first + count, dtype=np.uint64)
    if kind == "int":
        return pa.array(numbers.astype(np.int64))
    if kind in ("random-int", "random-uint"):
        mixed = _mixed(numbers, 1)
        return pa.array(mixed if kind == "random-uint" else mixed.view(np.int64))
    return pc.cast(pa.array(numbers), pa.string()) if kind == "decimal" else _uuids(numbers)


def _mixed(numbers: np.ndarray, seed: int) -> np.ndarray:
    """splitmix64."""
    with np.errstate(over="ignore"):
        value = (numbers + np.uint64(seed)) * np.uint64(0x9E3779B97F4A7C15)
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return value ^ (value >> np.uint64(31))


def _uuids(numbers: np.ndarray) -> pa.Array:
    halves = np.stack([_mixed(numbers, _UUID_SEED), _mixed(numbers, _UUID_SEED << 40)], axis=1)
    nibbles = halves.astype(">u8").view(np.uint8).reshape(-1, 16)
    digits = np.stack([nibbles >> 4, nibbles & 15], axis=2).reshape(-1, 32)
    letters = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)[digits]
    text = np.full((len(numbers), 36), ord("-"), dtype=np.uint8)
    text[:, [place for place in range(36) if place not in (8, 13, 18, 23)]] = letters
    offsets = pa.array(np.arange(0, 36 * len(numbers) + 1, 36, dtype=np.int32))
    return pa.StringArray.from_buffers(
        len(numbers), offsets.buffers()[1], pa.py_buffer(text.tobytes())
    )


def write_ids(options: IndexOptions) -> None:
    """One Parquet file of all ids, with the defaults of pyarrow."""
    with pq.ParquetWriter(
        options.scratch / "ids.parquet", pa.schema([("id", ids_of(options.kind, 0, 1).type)])
    ) as writer:
        for first in range(0, options.ids, _ROW_GROUP):
            ids = ids_of(options.kind, first, min(_ROW_GROUP, options.ids - first))
            writer.write_table(pa.table({"id": ids}))


def build(options: IndexOptions) -> Metrics:
    """Builds the index and tells what it took."""
    import shardmill as sm

    given: dict[str, Any] = {
        "path": str(options.target),
        "memory_bytes": options.memory_bytes,
        "progress": False,
    }
    source: Any = str(options.scratch / "ids.parquet")
    if options.stream:
        firsts = range(0, options.ids, _ROW_GROUP)
        counts = (min(_ROW_GROUP, options.ids - first) for first in firsts)
        pairs = zip(firsts, counts, strict=True)
        source = (
            pa.record_batch({"id": ids_of(options.kind, first, count)}) for first, count in pairs
        )
    else:
        given["threads"] = options.threads
    start = time.perf_counter()
    with peaks_of(options.scratch) as peaks:
        index = sm.resume.IdIndex.build(source, "id", **given)
    return {
        "build_s": time.perf_counter() - start,
        "build_peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
        **{f"build_peak_{name}": value for name, value in peaks.items()},
        "bytes_per_id": index.nbytes / options.ids,
    }


def probe(options: IndexOptions, is_ordered: bool) -> Metrics:
    """Seconds of the best of three probes, and the memory of the process."""
    import shardmill as sm

    index = sm.resume.IdIndex.open(str(options.target))
    seconds, found = 0.0, 0
    with peaks_of(options.scratch) as peaks:
        for rows in options.probed():
            if not is_ordered:
                rows = rows.take(pa.array(np.random.default_rng(1).permutation(len(rows))))
            timings = [timed(partial(index.contains, rows)) for _ in range(3)]
            seconds += min(took for took, _ in timings)
            found += timings[0][1].true_count
    if found != options.probes // 2:
        raise WrongRowsError(f"{found:,} of {options.probes:,} ids were found, not half of them")
    return {"probe_s": seconds, **{f"probe_peak_{name}": value for name, value in peaks.items()}}


def _size(directory: Path) -> int:
    """Bytes of the files of a directory, and of open files without a name, such as spilled ids."""
    total = 0
    for path in (*directory.rglob("*"), *Path("/proc/self/fd").iterdir()):
        # Files are closed and removed meanwhile.
        with suppress(OSError):
            status = path.stat()
            is_unnamed = stat.S_ISREG(status.st_mode) and status.st_nlink == 0
            if is_unnamed or path.is_relative_to(directory):
                total += status.st_size
    return total


@contextmanager
def peaks_of(directory: Path) -> Iterator[dict[str, int]]:
    """The most that this process and a directory take while a with-block runs, about.

    ``anonymous_bytes`` is memory that must stay; ``file_bytes`` are pages of mapped files, which
    the kernel may drop; ``disk_bytes`` is the size of files.
    """
    peaks: dict[str, int] = {"anonymous_bytes": 0, "file_bytes": 0, "disk_bytes": 0}
    is_done = threading.Event()

    def watch() -> None:
        is_last = False
        while not is_last:
            is_last = is_done.wait(_POLL_S)
            now = (status_bytes("RssAnon"), status_bytes("RssFile"), _size(directory))
            peaks.update(
                {name: max(peaks[name], one) for name, one in zip(peaks, now, strict=True)}
            )

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peaks
    finally:
        is_done.set()
        watcher.join()


def measure(options: IndexOptions) -> Metrics:
    """Builds the index, and probes it in order and not."""
    options.scratch.mkdir(parents=True, exist_ok=True)
    if not options.stream:
        in_processes("spawn", [partial(write_ids, options)])
    (built,) = in_processes("spawn", [partial(build, options)])
    orders = (True,) if options.kind.startswith("random") else (True, False)
    probes = [in_processes("spawn", [partial(probe, options, one)])[0] for one in orders]
    slowest = max(probes, key=lambda one: one["probe_s"])
    return {**built, **slowest, "probes": options.probes}


if __name__ == "__main__":
    run_entry(IndexOptions, measure)
