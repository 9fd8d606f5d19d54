"""A job with a checkpoint from bucket to bucket while the store fails in all the ways that it can.

Enters: the options. Leaves: counts. Called by the entry script. Invariant: as for ``faults_loader``; the output is read from the
server's own folder, so what is held against the source are the objects as they are.
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks.remote.faults_loader import HANG_S, PROBABILITY
from benchmarks.remote.options import Options
from benchmarks.remote.store import BUCKET, started
from tests.remote.fault_proxy import mix

_SEED = 11
_FILES_OF_SPLIT = 2


def measure(options: Options) -> dict[str, Any]:
    """Copies the rows of all files; a split is two of them."""
    import numpy as np
    import pyarrow.dataset as ds
    from shardmill.curate import ParquetSink, Pipeline, TableSource

    one = options.rows
    with started() as store:
        path = store.publish(options.data)
        fault = mix(probability=PROBABILITY, count=options.faults, seed=_SEED)
        store.away(options.round_trip_s, fault)
        given: dict[str, Any] = {"storage_options": store.options()}
        start = time.perf_counter()
        Pipeline(
            source=TableSource(path, files_per_partition=_FILES_OF_SPLIT, **given),
            sink=ParquetSink(f"s3://{BUCKET}/out/", mode="error", **given),
            checkpoint={"path": f"s3://{BUCKET}/state/", "id_column": "row_id"},
        ).run(progress=False)
        seconds = time.perf_counter() - start
        spoiled = store.proxy.given()[-1]
        kinds = store.proxy.counters()["faults"]
        asked = store.asked()
        store.away(0.0)
        files = sorted((store.server.folder / BUCKET / "out").rglob("*.parquet"))
        ids = ds.dataset([str(file) for file in files]).to_table(columns=["row_id"]).column(0).to_numpy()
    counts = np.bincount(ids, minlength=one.total_rows)
    return {
        "figures": {"job": {"records": one.total_rows, "seconds": seconds}},
        "files": len(files),
        "faults": spoiled,
        "kinds": kinds,
        "lost": int((counts == 0).sum()),
        "doubled": int((counts > 1).sum()) + max(0, len(counts) - one.total_rows),
        # A job tells nobody how long it waits for one answer.
        "hangs": int(seconds > max(HANG_S, options.faults * 1.0)),
        **asked,
    }
