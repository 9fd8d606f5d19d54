"""Measures the id index alone: build time, memory, bytes an id, probes, and the memory that several processes share.

    python -m benchmarks.checkpoint.index --ids 80000000 --kind uuid --json index.json

Each step runs in a process of its own, so that its peak memory is its own. Ids are written to Parquet first, with pyarrow's defaults.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

KINDS = ("decimal", "uuid", "int", "random-int")
_ROW_GROUP = 1 << 20
_UUID_SEED = 7


def ids_of(kind: str, first: int, count: int) -> pa.Array:
    """Ids number ``first`` to ``first + count``, the same ones whenever they are asked for."""
    numbers = np.arange(first, first + count, dtype=np.uint64)
    if kind == "int":
        return pa.array(numbers.astype(np.int64))
    if kind == "random-int":
        return pa.array(_mixed(numbers, 1).view(np.int64))
    if kind == "decimal":
        return pc.cast(pa.array(numbers), pa.string())
    return _uuids(numbers)


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
    source = 0
    for start, end in ((0, 8), (9, 13), (14, 18), (19, 23), (24, 36)):
        text[:, start:end] = letters[:, source : source + end - start]
        source += end - start
    offsets = pa.array(np.arange(0, 36 * len(numbers) + 1, 36, dtype=np.int32))
    return pa.StringArray.from_buffers(len(numbers), offsets.buffers()[1], pa.py_buffer(text.tobytes()))


def write_ids(path: Path, kind: str, count: int) -> None:
    """One Parquet file of all ids, unless it is there."""
    if path.exists():
        return
    part = path.with_suffix(".part")
    with pq.ParquetWriter(part, pa.schema([("id", ids_of(kind, 0, 1).type)])) as writer:
        for first in range(0, count, _ROW_GROUP):
            writer.write_table(pa.table({"id": ids_of(kind, first, min(_ROW_GROUP, count - first))}))
    part.rename(path)


def build(source: str, target: str, memory_bytes: int, threads: int) -> dict[str, Any]:
    """Builds the index and tells what it took."""
    import shardmill as sm

    start = time.perf_counter()
    index = sm.resume.IdIndex.build(
        source, "id", path=target, memory_bytes=memory_bytes, threads=threads, progress=False
    )
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    return {
        "seconds": seconds,
        "peak_rss_bytes": peak,
        "index_bytes": index.nbytes,
        "bytes_per_id": index.nbytes / len(index),
        **index.info(),
    }


def stream(kind: str, count: int, target: str, memory_bytes: int) -> dict[str, Any]:
    """As :func:`build`, of batches that are made on the way and stand in no file."""
    import shardmill as sm

    start = time.perf_counter()
    batches = (
        pa.record_batch({"id": ids_of(kind, first, min(_ROW_GROUP, count - first))})
        for first in range(0, count, _ROW_GROUP)
    )
    index = sm.resume.IdIndex.build(batches, "id", path=target, memory_bytes=memory_bytes)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    return {"seconds": seconds, "peak_rss_bytes": peak, "index_bytes": index.nbytes, **index.info()}


def probe(target: str, kind: str, ids: int, probes: int, order: str) -> dict[str, Any]:
    """Half of the probed ids are in the index."""
    import shardmill as sm

    index = sm.resume.IdIndex.open(target)
    rows = ids_of(kind, max(0, ids - probes // 2), probes)
    if order == "random":
        rows = rows.take(pa.array(np.random.default_rng(1).permutation(len(rows))))
    found = 0
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        found = index.contains(rows).true_count
        seconds.append(time.perf_counter() - start)
    return {
        "probes": probes,
        "found": found,
        "order": order,
        "first_seconds": seconds[0],
        "seconds": min(seconds),
        "nanoseconds": min(seconds) / probes * 1e9,
    }


def _share(target: str, kind: str, ids: int, probes: int, barrier: Any, pipe: Connection) -> None:
    import shardmill as sm

    index = sm.resume.IdIndex.open(target)
    rows = ids_of(kind, max(0, ids - probes // 2), probes)
    index.contains(rows)
    barrier.wait()
    pipe.send(_memory_of(Path(target).name))
    barrier.wait()


def _memory_of(name: str) -> dict[str, int]:
    """Proportional and private bytes of the index in this process, and of the process as a whole."""
    totals = {"index_pss_bytes": 0, "index_private_bytes": 0}
    is_index = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        field, *rest = line.split()
        if not field.endswith(":"):
            is_index = line.endswith(name)
        elif is_index and field == "Pss:":
            totals["index_pss_bytes"] += int(rest[0]) << 10
        elif is_index and field in ("Private_Clean:", "Private_Dirty:"):
            totals["index_private_bytes"] += int(rest[0]) << 10
    rollup = Path("/proc/self/smaps_rollup").read_text().splitlines()
    sizes = {line.split()[0]: int(line.split()[1]) << 10 for line in rollup[1:]}
    return totals | {"pss_bytes": sizes["Pss:"], "private_dirty_bytes": sizes["Private_Dirty:"]}


def share(target: str, kind: str, ids: int, probes: int, processes: int) -> list[dict[str, int]]:
    """What each of several processes that probe one index holds of it."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(processes)
    pipes = [context.Pipe(duplex=False) for _ in range(processes)]
    workers = [context.Process(target=_share, args=(target, kind, ids, probes, barrier, sender)) for _, sender in pipes]
    for worker in workers:
        worker.start()
    results = [receiver.recv() for receiver, _ in pipes]
    for worker in workers:
        worker.join()
    return results


def _call(pipe: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    pipe.send(function(*arguments))


def alone(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls ``function`` in a process of its own."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    worker = context.Process(target=_call, args=(sender, function, arguments))
    worker.start()
    sender.close()
    try:
        return receiver.recv()
    finally:
        worker.join()


def main() -> None:
    """Measures one kind of ids and writes what was found as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ids", type=int, default=80_000_000)
    parser.add_argument("--kind", choices=KINDS, default="decimal")
    parser.add_argument("--probes", type=int, default=20_000_000)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--memory-bytes", type=int, default=1 << 30)
    parser.add_argument("--stream", action="store_true", help="make the ids on the way instead of reading them")
    parser.add_argument("--source", type=Path, help="files of these ids that exist already")
    parser.add_argument("--folder", type=Path, help="for ids and index; a temporary one when left out")
    parser.add_argument("--json", type=Path, help="where the JSON goes; stdout when left out")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shardmill-ids-", dir=options.json and options.json.parent) as temporary:
        options.folder = options.folder or Path(temporary)
        options.folder.mkdir(parents=True, exist_ok=True)
        result = measure(options)
    text = json.dumps(result, indent=1)
    if options.json is None:
        sys.stdout.write(text + "\n")
    else:
        options.json.write_text(text)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Builds, probes, and lets several processes share the index."""
    target = str(options.folder / f"{options.kind}-{options.ids}.ids")
    source = options.source or options.folder / f"{options.kind}-{options.ids}.parquet"
    result: dict[str, Any] = {"ids": options.ids, "kind": options.kind, "memory_bytes": options.memory_bytes}
    if options.stream:
        result["build"] = alone(stream, options.kind, options.ids, target, options.memory_bytes)
    else:
        if options.source is None:
            alone(write_ids, source, options.kind, options.ids)
        result["build"] = alone(build, str(source), target, options.memory_bytes, options.threads)
    result["probe"] = [
        alone(probe, target, options.kind, options.ids, options.probes, order) for order in ("ordered", "random")
    ]
    result["processes"] = share(target, options.kind, options.ids, options.probes // 4, options.processes)
    slowest = max(result["probe"], key=lambda probed: probed["seconds"])
    return result | {
        "is_success": all(probed["found"] == options.probes // 2 for probed in result["probe"]),
        "build_s": result["build"]["seconds"],
        "build_peak_rss_bytes": result["build"]["peak_rss_bytes"],
        "bytes_per_id": result["build"]["index_bytes"] / options.ids,
        "probe_s": slowest["seconds"],
        "probes": options.probes,
    }


if __name__ == "__main__":
    main()
