"""Grain over ArrayRecord files: what it reads, and states from which another process goes on.

A script, as Grain's users have one.

Its first argument says what reads: ``original`` and ``installed`` are Grain's own class, over
array_record and over ours under that name; ``direct`` is our class; ``installed+direct`` is the one
and then the other. Grain's workers import this file anew, so ours is installed there as well.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

KINDS = sys.argv[1].split("+")
if "installed" in KINDS:
    from shardmill.arrayrecord import install_as_array_record

    install_as_array_record()

import grain


def decode(record: bytes) -> int:
    return int(record.split()[0])


class Decode(grain.transforms.Map):
    def map(self, element: bytes) -> int:
        return decode(element)


def source_of(kind: str, paths: list[str]) -> Any:
    from shardmill.arrayrecord import ArrayRecordDataSource

    if kind == "direct":
        return ArrayRecordDataSource(paths)
    source = grain.sources.ArrayRecordDataSource(paths)
    assert isinstance(source, ArrayRecordDataSource) == (kind == "installed")
    assert source.paths == paths
    return source


def iterator_of(pipeline: str, source: Any) -> Iterator[Any]:
    name, workers = pipeline.split("-")
    if name == "loader":
        shards = grain.sharding.NoSharding()
        sampler = grain.samplers.IndexSampler(
            len(source), shuffle=True, seed=5, num_epochs=1, shard_options=shards
        )
        operations = [Decode(), grain.transforms.Batch(4)]
        loader = grain.DataLoader(
            data_source=source, sampler=sampler, operations=operations, worker_count=int(workers)
        )
        return iter(loader)
    dataset = grain.MapDataset.source(source).shuffle(seed=3).map(decode).batch(4)
    if name == "map":
        return iter(dataset)
    threads = int(workers) if name == "threads" else 2
    read = dataset.to_iter_dataset(grain.ReadOptions(num_threads=threads, prefetch_buffer_size=20))
    if name == "processes":
        read = read.mp_prefetch(
            grain.multiprocessing.MultiprocessingOptions(num_workers=int(workers))
        )
    return iter(read)


def batches_of(iterator: Iterator[Any]) -> list[list[int]]:
    return [[int(each) for each in batch] for batch in iterator]


def results_of(
    kind: str, paths: list[str], pipelines: list[str], states: Path, restored: list[str]
) -> dict[str, Any]:
    """The batches of each pipeline.

    Leaves its state after five of them, and goes on from those of ``restored``.
    """
    source = source_of(kind, paths)
    found: dict[str, Any] = {"repr": repr(source)}
    for pipeline in pipelines:
        batches = found[pipeline] = batches_of(iterator_of(pipeline, source))
        if not restored or pipeline.startswith("map"):
            continue
        iterator = iterator_of(pipeline, source)
        for _ in range(5):
            next(iterator)
        state = iterator.get_state()
        binary = isinstance(state, bytes)
        (states / f"{kind}.{pipeline}").write_bytes(state if binary else json.dumps(state).encode())
        del iterator
        for other in restored:
            kept = (states / f"{kind if other == 'itself' else other}.{pipeline}").read_bytes()
            resumed = iterator_of(pipeline, source)
            resumed.set_state(kept if binary else json.loads(kept))
            assert batches_of(resumed) == batches[5:], f"{pipeline} from the state of {other}"
    return found


if __name__ == "__main__":
    paths, pipelines, states, restored = sys.argv[2:]
    arguments = json.loads(paths), json.loads(pipelines), Path(states), json.loads(restored)
    print(json.dumps([results_of(kind, *arguments) for kind in KINDS]))
