"""What the order of rows costs a rank, and how much of the data a shuffle decodes more than once.

Enters: the options. Leaves: seconds, bytes and a factor. Called by ``measure``; only shardmill states these. Invariant: the
memory is that of a fresh process: what it holds more after the plan was made than before, allocator and all.
"""

from __future__ import annotations

import gc
import statistics
import time
from pathlib import Path
from typing import Any

from benchmarks.streaming.measure import Options, System

_RANKS = 64
_BATCH = 256
_FILES = 100
_ROW_GROUP = 10_000
_ROW_GROUPS_OF_JPEGS = 100
_JPEG_BYTES = 100_000
_TRIES = 5


def measure(options: Options, system: System) -> dict[str, Any]:
    """Plans many rows for one of many ranks; explains a shuffle of large values."""
    import shardmill as sm

    options.scratch.mkdir(parents=True, exist_ok=True)
    rows = _many_rows(options.scratch / "rows", options.plan_rows)
    images = _images(options.scratch / "images", options.jpeg_bytes)
    # The footers, of which every use of the files has need, are not the plan. Nothing is known of one try in the next.
    datasets = [sm.Dataset(rows) for _ in range(_TRIES)]
    _plan(sm.Dataset(images), 1)
    gc.collect()
    before = _resident_bytes()
    seconds, kept = [], []
    for dataset in datasets:
        start = time.perf_counter()
        kept.append(_plan(dataset, _RANKS))
        seconds.append(time.perf_counter() - start)
    grown = _resident_bytes() - before
    loader = sm.Loader(images, batch_size=64, shuffle=True, rank=0, world_size=1, output="arrow")
    explained = loader.explain()
    decoded = 0
    for _batch in loader:
        decoded = loader.metrics()["blocks_decoded"]
    return {
        "plan_rows": len(datasets[0]),
        "plan_ranks": _RANKS,
        "plan_s": statistics.median(seconds),
        "plan_first_s": seconds[0],
        # As many plans are held at once.
        "plan_bytes": max(grown, 0) / len(kept),
        "amplification": explained["decode_amplification"],
        "blocks": explained["blocks"],
        "blocks_decoded": decoded,
        "image_bytes": sum(path.stat().st_size for path in images.iterdir()),
        "figures": {},
    }


def _plan(dataset: Any, ranks: int) -> Any:
    """A loader that knows the length of its epoch and the order of its rows, and has read none of them."""
    import shardmill as sm

    loader = sm.Loader(dataset, batch_size=_BATCH, shuffle=True, rank=ranks // 2, world_size=ranks, output="arrow")
    assert len(loader) > 0
    # Without threads a pass works when it is asked for a batch.
    options: dict[str, Any] = {"epoch": 0, "consumed": 0, "threads": 0, "prefetch_bytes": 1}
    return loader, loader._plan(0).start(loader._converter, loader._share(), **options)


def _many_rows(folder: Path, rows: int) -> Path:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    for number in range(_FILES):
        numbers = np.arange(number * rows // _FILES, (number + 1) * rows // _FILES)
        pq.write_table(pa.table({"row": numbers}), folder / f"{number:05}.parquet", row_group_size=_ROW_GROUP)
    return folder


def _images(folder: Path, total: int) -> Path:
    """Values that no codec makes shorter, in so many row groups."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    random = np.random.default_rng(3)
    each = max(1, total // _JPEG_BYTES // _ROW_GROUPS_OF_JPEGS)
    schema = pa.schema([("jpg", pa.binary()), ("cls", pa.int64())])
    with pq.ParquetWriter(folder / "images.parquet", schema, compression="none", use_dictionary=False) as writer:
        for group in range(_ROW_GROUPS_OF_JPEGS):
            images = [random.bytes(_JPEG_BYTES) for _ in range(each)]
            writer.write_table(pa.table({"jpg": images, "cls": [group] * each}, schema=schema), row_group_size=each)
    return folder


def _resident_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))) << 10
