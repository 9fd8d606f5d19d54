"""The rows of the streaming report by shardmill, and what has no peer.

``ceiling`` is pyarrow by hand, and ``plan`` what shardmill alone states beforehand.
"""

from __future__ import annotations

import gc
import os
import random
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks.measure import Metrics, prepare_caches, status_bytes, timed_rows
from benchmarks.streaming import BATCH_SIZE, Rows, StreamingOptions, System, timed_write
from benchmarks.streaming_data import SHARD_BYTES

_BATCH_ROWS, _ROW_GROUP = 1_024, 2_500
_PLAN_RANKS, _PLAN_TRIES, _PLAN_FILES, _IMAGE_BYTES, _IMAGE_GROUPS = 64, 5, 100, 100_000, 100


def shardmill(format: Literal["parquet", "mds"] = "parquet") -> System:
    """The public API; values are not compressed, as those of the others are not."""
    import shardmill as sm

    columns = {"text": "str", "label": "int32" if format == "parquet" else "int"}

    def writer(out: Path, size_limit: int | None) -> Any:
        return sm.Writer(
            str(out), columns=columns, format=format, compression="none", shard_bytes=size_limit
        )

    def write(rows: Rows, out: Path, size_limit: int | None) -> None:
        with writer(out, size_limit) as target:
            for row in rows:
                target.write(row)

    def write_columns(rows: list[dict[str, Any]], out: Path) -> None:
        with writer(out, SHARD_BYTES) as target:
            for batch in column_batches(rows):
                target.write_batch(batch)

    def write_rows(rows: list[dict[str, Any]], out: Path, workers: int) -> None:
        with writer(out, SHARD_BYTES) as target:
            target.write_rows(rows, workers=workers, transform=capitalized)

    def batches(directory: Path, output: Any, *, shuffle: bool = False) -> Any:
        return sm.Loader(
            str(directory),
            batch_size=_BATCH_ROWS,
            output=output,
            shuffle=shuffle,
            rank=0,
            world_size=1,
        )

    def loader(directory: Path, workers: int, is_persistent: bool) -> Iterable[Any]:
        from shardmill.integrations.torch import BatchDataset, unchanged
        from torch.utils.data import DataLoader

        made = sm.Loader(
            str(directory), batch_size=BATCH_SIZE, output="torch", rank=0, world_size=1
        )
        persistent = is_persistent and workers > 0
        return DataLoader(
            BatchDataset(made),
            batch_size=None,
            collate_fn=unchanged,
            num_workers=workers,
            persistent_workers=persistent,
        )

    return System(
        write=write,
        merge=lambda out, parts: sm.merge(out, parts),
        rows=lambda directory, is_shuffled: _Rows(sm.Dataset(str(directory)), is_shuffled),
        loader=loader,
        more_writes={
            "write, column batches": write_columns,
            "write_rows, transform, 1 worker": lambda rows, out: write_rows(rows, out, 1),
            "write_rows, transform, 2 workers": lambda rows, out: write_rows(rows, out, 2),
        },
        more_reads={
            "batches of rows": lambda directory: sum(
                len(batch) for batch in batches(directory, "rows")
            ),
            "batches of columns": lambda directory: sum(
                batch.num_rows for batch in batches(directory, "arrow")
            ),
            "batches of columns, shuffled": lambda directory: sum(
                batch.num_rows for batch in batches(directory, "arrow", shuffle=True)
            ),
            "batches of lists": lambda directory: sum(
                len(batch["label"]) for batch in batches(directory, "dict")
            ),
        },
    )


def column_batches(rows: list[dict[str, Any]]) -> Iterator[Any]:
    """The rows as Arrow record batches."""
    import pyarrow as pa

    schema = pa.schema([("text", pa.string()), ("label", pa.int32())])
    for first in range(0, len(rows), _BATCH_ROWS):
        part = rows[first : first + _BATCH_ROWS]
        yield pa.record_batch(
            {name: [row[name] for row in part] for name in schema.names}, schema=schema
        )


def capitalized(row: dict[str, Any]) -> dict[str, Any]:
    """The words of a text, each with a capital: work of the kind that a preparation does."""
    return {
        "text": " ".join(word.capitalize() for word in row["text"].split()),
        "label": row["label"],
    }


@dataclass(frozen=True)
class _Rows:
    dataset: Any
    is_shuffled: bool

    def __iter__(self) -> Iterator[Any]:
        return (
            self.dataset.iterate(shuffle=True, seed=7) if self.is_shuffled else iter(self.dataset)
        )


def ceiling(options: StreamingOptions, _: System) -> Metrics:
    """What pyarrow by hand does with the same rows as Parquet.

    It writes shards that are synced, then reads rows as dicts and batches of columns.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    source, path = options.source, options.scratch / "rows.parquet"
    rows = list(source)
    prepare_caches("warm", [options.data])

    def write_columns(out: Path) -> None:
        out.mkdir()
        number, size, shard = 0, 0, []
        for batch in column_batches(rows):
            if size >= SHARD_BYTES:
                write_shard(out / f"{number:05}.parquet", shard)
                number, size, shard = number + 1, 0, []
            shard.append(batch)
            size += batch.nbytes
        write_shard(out / f"{number:05}.parquet", shard)

    def write_shard(path: Path, batches: list[Any]) -> None:
        with path.open("wb") as file:
            pq.write_table(
                pa.Table.from_batches(batches), file, compression="none", row_group_size=_ROW_GROUP
            )
            file.flush()
            os.fsync(file.fileno())

    def batches() -> Iterator[Any]:
        yield from pq.ParquetFile(path).iter_batches(_BATCH_ROWS)

    def shuffled() -> Iterator[Any]:
        # Row groups in random order, and the rows of each.
        file, numbers = pq.ParquetFile(path), np.random.default_rng(7)
        for group in random.Random(7).sample(range(file.num_row_groups), file.num_row_groups):
            table = file.read_row_group(group)
            yield from table.take(numbers.permutation(table.num_rows)).to_batches(
                max_chunksize=_BATCH_ROWS
            )

    pq.write_table(source.table, path, compression="none", row_group_size=_ROW_GROUP)
    figures = {
        "write, column batches": timed_write(
            len(source), options.scratch / "columns", write_columns
        )
    }
    calls: dict[str, Callable[[], int]] = {
        "read, sequential": lambda: sum(len(batch.to_pylist()) for batch in batches()),
        "read, shuffled": lambda: sum(len(batch.to_pylist()) for batch in shuffled()),
        "batches of columns": lambda: sum(batch.num_rows for batch in batches()),
        "batches of columns, shuffled": lambda: sum(batch.num_rows for batch in shuffled()),
    }
    for name, call in calls.items():
        call()
        figures[name] = timed_rows(len(source), call)
    return {"figures": figures}


def plan(options: StreamingOptions, _: System) -> Metrics:
    """Plans many rows for one of many ranks, and explains a shuffle of large values.

    The memory is that of a fresh process: what it holds more after the plan was made than before,
    allocator and all.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    import shardmill as sm
    from shardmill.load._loader import iteration_of

    rows, images = options.scratch / "rows", options.scratch / "images"
    for directory in (rows, images):
        directory.mkdir(parents=True)
    for number, numbers in enumerate(np.array_split(np.arange(options.plan_rows), _PLAN_FILES)):
        pq.write_table(
            pa.table({"row": numbers}), rows / f"{number:05}.parquet", row_group_size=10_000
        )
    # Values that no codec makes shorter.
    noise, each = (
        np.random.default_rng(3),
        max(1, options.image_bytes // _IMAGE_BYTES // _IMAGE_GROUPS),
    )
    schema = pa.schema([("jpg", pa.binary()), ("cls", pa.int64())])
    with pq.ParquetWriter(
        images / "images.parquet", schema, compression="none", use_dictionary=False
    ) as writer:
        for group in range(_IMAGE_GROUPS):
            columns = {
                "jpg": [noise.bytes(_IMAGE_BYTES) for _ in range(each)],
                "cls": [group] * each,
            }
            writer.write_table(pa.table(columns, schema=schema), row_group_size=each)

    def planned(dataset: Any, ranks: int) -> Any:
        """A loader that knows the length and the order of its epoch, and has read no row."""
        loader = sm.Loader(
            dataset, batch_size=256, shuffle=True, rank=ranks // 2, world_size=ranks, output="arrow"
        )
        assert len(loader) > 0
        # Without threads a pass works when it is asked for a batch.
        given: dict[str, Any] = {"epoch": 0, "consumed": 0, "threads": 0, "prefetch_bytes": 1}
        iteration = iteration_of(loader)
        plan, converter = iteration.cursor.plan, iteration.conversion.converter
        return loader, plan.of_epoch(0).start(converter, plan.share(), **given)

    # The footers, of which every use of the files has need, are not the plan. Nothing is known of
    # one try in the next.
    datasets = [sm.Dataset(rows) for _ in range(_PLAN_TRIES)]
    planned(sm.Dataset(images), 1)
    gc.collect()
    before = status_bytes()
    seconds, kept = [], []
    for dataset in datasets:
        start = time.perf_counter()
        kept.append(planned(dataset, _PLAN_RANKS))
        seconds.append(time.perf_counter() - start)
    grown = status_bytes() - before
    loader = sm.Loader(images, batch_size=64, shuffle=True, rank=0, world_size=1, output="arrow")
    explained = loader.explain()
    for _batch in loader:
        pass
    return {
        "plan_rows": len(datasets[0]),
        "plan_ranks": _PLAN_RANKS,
        "plan_s": statistics.median(seconds),
        # As many plans are held at once.
        "plan_bytes": max(grown, 0) / len(kept),
        "amplification": explained["decode_amplification"],
        "blocks": explained["blocks"],
        "blocks_decoded": loader.metrics().blocks_decoded,
        "image_bytes": sum(path.stat().st_size for path in images.iterdir()),
    }


SYSTEMS = {"shardmill": shardmill, "shardmill_mds": lambda: shardmill("mds"), "pyarrow": shardmill}
SCENARIOS = {"ceiling": ceiling, "plan": plan}
