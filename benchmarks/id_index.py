"""Measures the id index alone: build time, memory, bytes an id, and probes.

    python -m benchmarks.id_index --out=DIR --ids=80000000 --kind=uuid

Each step runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.measure import Metrics, Options, WrongRowsError, in_processes, run_entry

_ROW_GROUP = 1 << 20
_UUID_SEED = 7


@dataclass(frozen=True, kw_only=True)
class IndexOptions(Options):
    """What is indexed.

    Attributes:
        kind: ``decimal``, ``uuid``, ``int`` or ``random-int``.
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

    def probed(self) -> pa.Array:
        """Ids of which half are in the index."""
        return ids_of(self.kind, max(0, self.ids - self.probes // 2), self.probes)


def ids_of(kind: str, first: int, count: int) -> pa.Array:
    """Ids number ``first`` to ``first + count``, the same ones whenever they are asked for."""
    numbers = np.arange(first, first + count, dtype=np.uint64)
    if kind == "int":
        return pa.array(numbers.astype(np.int64))
    if kind == "random-int":
        return pa.array(_mixed(numbers, 1).view(np.int64))
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
    index = sm.resume.IdIndex.build(source, "id", **given)
    return {
        "build_s": time.perf_counter() - start,
        "build_peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
        "bytes_per_id": index.nbytes / options.ids,
    }


def probe(options: IndexOptions, is_ordered: bool) -> float:
    """Seconds of the best of three probes."""
    import shardmill as sm

    index, rows = sm.resume.IdIndex.open(str(options.target)), options.probed()
    if not is_ordered:
        rows = rows.take(pa.array(np.random.default_rng(1).permutation(len(rows))))
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        found = index.contains(rows).true_count
        seconds.append(time.perf_counter() - start)
        if found != options.probes // 2:
            raise WrongRowsError(
                f"{found:,} of {options.probes:,} ids were found, not half of them"
            )
    return min(seconds)


def measure(options: IndexOptions) -> Metrics:
    """Builds the index, and probes it in order and not."""
    options.scratch.mkdir(parents=True, exist_ok=True)
    if not options.stream:
        in_processes("spawn", [partial(write_ids, options)])
    (built,) = in_processes("spawn", [partial(build, options)])
    slowest = max(
        in_processes("spawn", [partial(probe, options, is_ordered)])[0]
        for is_ordered in (True, False)
    )
    return {**built, "probe_s": slowest, "probes": options.probes}


if __name__ == "__main__":
    run_entry(IndexOptions, measure)
