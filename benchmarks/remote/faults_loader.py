"""Epochs of a loader while the store fails in all the ways that it can: rows lost, doubled, and waits that do not end.

Enters: the options. Leaves: counts. Called by the entry script. Invariant: faults are counted by the proxy that gave them; every
epoch's row numbers are held against those of the set; epochs go on until all faults were given.
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks.remote.options import Options
from benchmarks.remote.store import started
from tests.remote.fault_proxy import mix

#: Whoever waits longer for a batch is taken to hang.
HANG_S = 60.0
PROBABILITY = 0.3
_SEED = 7
_MOST_EPOCHS = 500


def measure(options: Options) -> dict[str, Any]:
    """One loader, epoch after epoch, its rows shuffled."""
    import numpy as np
    import shardmill as sm

    rows = options.rows.total_rows
    lost = doubled = epochs = 0
    longest = 0.0
    with started() as store:
        path = store.publish(options.data)
        fault = mix(probability=PROBABILITY, count=options.faults, seed=_SEED)
        store.away(options.round_trip_s, fault)
        start = time.perf_counter()
        loader = sm.Loader(
            path,
            batch_size=options.batch_size,
            shuffle=True,
            seed=_SEED,
            output="arrow",
            rank=0,
            world_size=1,
            storage_options=store.options(),
        )
        while epochs < _MOST_EPOCHS and store.proxy.given()[-1] < options.faults:
            counts = np.zeros(rows, np.int64)
            last = time.perf_counter()
            for batch in loader:
                now = time.perf_counter()
                longest, last = max(longest, now - last), now
                np.add.at(counts, batch.column("row_id").to_numpy(), 1)
            epochs += 1
            lost += int((counts == 0).sum())
            doubled += int((counts > 1).sum())
        seconds = time.perf_counter() - start
        given = store.proxy.given()[-1]
        kinds = store.proxy.counters()["faults"]
        asked = store.asked()
    return {
        "figures": {"epochs": {"records": rows * epochs, "seconds": seconds}},
        "epochs": epochs,
        "faults": given,
        "kinds": kinds,
        "lost": lost,
        "doubled": doubled,
        "hangs": int(longest > HANG_S),
        "longest_wait_s": longest,
        **asked,
    }
