"""What pyarrow by hand does with the same rows as Parquet: the ceiling of what is written in Python.

Enters: the options. Leaves: figures. Called by ``measure``. Invariant: as for ``fair``.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from benchmarks.runner.caches import prepare_caches
from benchmarks.streaming.measure import Options, System, count_rows, timed
from benchmarks.streaming.sets import Source

_ROW_GROUP = 2_500
_BATCH = 1_024


def measure(options: Options, system: System) -> dict[str, Any]:
    """Rows as dicts and batches of columns, in file order and shuffled by row group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    source = Source.of(options.source)
    path = options.scratch / "rows.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    prepare_caches("warm", [options.source])
    rows = len(source)

    def write() -> None:
        pq.write_table(source.table, path, compression="none", row_group_size=_ROW_GROUP)

    def sequential() -> int:
        return sum(count_rows(batch.to_pylist()) for batch in pq.ParquetFile(path).iter_batches(_BATCH))

    def shuffled() -> int:
        return sum(count_rows(batch.to_pylist()) for batch in _shuffled(path))

    write()
    figures = {"write, column batches": timed(rows, write)}
    calls = {
        "read, sequential": sequential,
        "read, shuffled": shuffled,
        "batches of columns": lambda: sum(batch.num_rows for batch in pq.ParquetFile(path).iter_batches(_BATCH)),
        "batches of columns, shuffled": lambda: sum(batch.num_rows for batch in _shuffled(path)),
    }
    for name, call in calls.items():
        call()
        figures[name] = timed(rows, call)
    return {"figures": figures, "pyarrow": pa.__version__, "system": system.version}


def _shuffled(path: Path) -> Any:
    """Row groups in random order, and the rows of each."""
    import numpy as np
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    groups = list(range(file.num_row_groups))
    random.Random(7).shuffle(groups)
    numbers = np.random.default_rng(7)
    for group in groups:
        table = file.read_row_group(group)
        mixed = table.take(numbers.permutation(table.num_rows))
        yield from mixed.to_batches(max_chunksize=_BATCH)
