"""Streaming loaders that can resume, used as documented.

They are LitData, LanceDB, Grain, Hugging Face datasets and MosaicML Streaming.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.elastic import GLOBAL_BATCH, Reader, System
from benchmarks.streaming_data import SHARD_BYTES, Source

_SEED, _LANCE_SPLITS, _WINDOW = 7, 4, 1_000


def litdata() -> System:
    """LitData: its optimized chunks, its loader, and the state of each rank's loader."""
    from litdata import StreamingDataLoader, StreamingDataset, optimize

    def write(source: Source, out: Path) -> None:
        optimize(_same, list(source), str(out), chunk_bytes=SHARD_BYTES, num_workers=1)

    def read(directory: Path, rank: int, ranks: int, states: list[Any] | None) -> Reader:
        loader = StreamingDataLoader(
            StreamingDataset(str(directory), shuffle=True, seed=_SEED, drop_last=False),
            batch_size=GLOBAL_BATCH // ranks,
        )
        if states:
            loader.load_state_dict(states[min(rank, len(states) - 1)])
        return Reader(_texts(loader), loader.state_dict)

    return System(write, read)


def _same(row: Any) -> Any:
    return row


def _texts(batches: Iterable[Any]) -> Iterator[Any]:
    return (batch["text"] for batch in batches)


def lancedb() -> System:
    """LanceDB: a table, its streaming data set and loader; the states of all ranks are merged."""
    import lancedb
    from lancedb.streaming import StreamingDataLoader, StreamingDataset

    def write(source: Source, out: Path) -> None:
        lancedb.connect(str(out)).create_table("rows", source.table)

    def read(directory: Path, rank: int, ranks: int, states: list[Any] | None) -> Reader:
        table = lancedb.connect(str(directory)).open_table("rows")
        rows = StreamingDataset(
            table, num_splits=_LANCE_SPLITS, shuffle_seed=_SEED, rank=rank, world_size=ranks
        )
        if states:
            rows.load_state_dict(StreamingDataset.merge_state_dicts(states))
        return Reader(
            _texts(StreamingDataLoader(rows, batch_size=GLOBAL_BATCH // ranks)), rows.state_dict
        )

    return System(write, read)


def grain_arrayrecord() -> System:
    """Grain over ArrayRecord: a shuffled map data set below its elastic iterator.

    The states of the iterator are equal on all ranks.
    """
    import grain
    from array_record.python.array_record_module import ArrayRecordWriter
    from grain.experimental import ElasticIterator
    from grain.sharding import ShardOptions

    def write(source: Source, out: Path) -> None:
        out.mkdir()
        writer = ArrayRecordWriter(str(out / "rows.array_record"), "group_size:1")
        for row in source:
            writer.write(json.dumps(row).encode())
        writer.close()

    def read(directory: Path, rank: int, ranks: int, states: list[Any] | None) -> Reader:
        records = grain.sources.ArrayRecordDataSource([str(directory / "rows.array_record")])
        rows = grain.MapDataset.source(records).shuffle(_SEED).map(json.loads)
        batches = ElasticIterator(rows, GLOBAL_BATCH, ShardOptions(rank, ranks))
        if states:
            batches.set_state(states[0])
        return Reader(_texts(iter(batches)), batches.get_state)

    return System(write, read)


def grain_parquet() -> System:
    """Grain over Parquet: each rank reads its part of the files, shuffled in a window.

    The state of a rank is that of its files.
    """
    from grain.experimental import ParquetIterDataset, WindowShuffleIterDataset

    def read(directory: Path, rank: int, ranks: int, states: list[Any] | None) -> Reader:
        paths = sorted(map(str, directory.iterdir()))[rank::ranks]
        rows = WindowShuffleIterDataset(ParquetIterDataset(paths), window_size=_WINDOW, seed=_SEED)
        batches = iter(rows.batch(GLOBAL_BATCH // ranks))
        if states:
            batches.set_state(states[min(rank, len(states) - 1)])
        return Reader(_texts(batches), batches.get_state)

    return System(_write_parquet, read)


def _write_parquet(source: Source, out: Path) -> None:
    import pyarrow.parquet as pq

    out.mkdir()
    parts = 2 * max(1, source.table.nbytes // SHARD_BYTES // 2)
    for number in range(parts):
        part = source.part(number, parts)
        pq.write_table(
            part.table, out / f"{number:05}.parquet", compression="none", row_group_size=2_500
        )


def hf_datasets() -> System:
    """Hugging Face datasets: a stream of Parquet files, shuffled in a buffer, split by rank."""
    # Without it, the library asks its hub for the name "parquet".
    os.environ["HF_HUB_OFFLINE"] = "1"
    import datasets
    from datasets.distributed import split_dataset_by_node

    # It waits 5 s after a shuffled stream.
    datasets.config.SLEEP_TIME_ON_THREADS_SHUTDOWN = 0

    def read(directory: Path, rank: int, ranks: int, states: list[Any] | None) -> Reader:
        files = sorted(map(str, directory.iterdir()))
        stream = datasets.load_dataset("parquet", data_files=files, split="train", streaming=True)
        rows = split_dataset_by_node(stream.shuffle(seed=_SEED, buffer_size=_WINDOW), rank, ranks)
        if states:
            rows.load_state_dict(states[min(rank, len(states) - 1)])
        return Reader(_texts(rows.iter(batch_size=GLOBAL_BATCH // ranks)), rows.state_dict)

    return System(_write_parquet, read)


def mosaicml() -> System:
    """MosaicML Streaming: MDS shards, its loader, and the state of rank 0."""
    import streaming
    from streaming.base.util import clean_stale_shared_memory

    def write(source: Source, out: Path) -> None:
        with streaming.MDSWriter(
            out=str(out), columns={"text": "str", "label": "int"}, size_limit=SHARD_BYTES
        ) as writer:
            for row in source:
                writer.write(row)

    def read(directory: Path, rank: int, ranks: int, states: list[Any] | None) -> Reader:
        clean_stale_shared_memory()
        size = GLOBAL_BATCH // ranks
        given = {"num_canonical_nodes": 1, "shuffle_seed": _SEED}
        rows = streaming.StreamingDataset(
            local=str(directory), shuffle=True, batch_size=size, **given
        )
        loader = streaming.StreamingDataLoader(rows, batch_size=size)
        if states:
            loader.load_state_dict(states[0])
        return Reader(_texts(loader), loader.state_dict)

    return System(write, read)


SYSTEMS: dict[str, Callable[[], System]] = {
    "litdata": litdata,
    "lancedb": lancedb,
    "grain_arrayrecord": grain_arrayrecord,
    "grain_parquet": grain_parquet,
    "hf_datasets": hf_datasets,
    "mosaicml": mosaicml,
}
