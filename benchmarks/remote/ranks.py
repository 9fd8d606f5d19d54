"""Ranks of one machine at the same time, with one cache: what they fetch together.

Enters: the options. Leaves: bytes of the data set and bytes that the proxy has sent. Called by the entry script. Invariant: the
rows of all ranks together are those of the set, each once; the cache is empty at the start.
"""

from __future__ import annotations

import shutil
from typing import Any

from benchmarks.remote.alone import run_alone
from benchmarks.remote.clock import check
from benchmarks.remote.options import Options
from benchmarks.remote.store import started

RANKS = 4


def measure(options: Options) -> dict[str, Any]:
    """In order and shuffled, each with an empty cache."""
    figures: dict[str, Any] = {}
    fetched: dict[str, float] = {}
    with started() as store:
        path = store.publish(options.data)
        size = sum(count for _, count in store.objects(options.data.name))
        for words, more in (("in order", {}), ("rows shuffled", {"shuffle": True, "seed": 7})):
            folder = options.scratch / "cache"
            shutil.rmtree(folder, ignore_errors=True)
            store.away(options.round_trip_s)
            shared = {
                "source": path,
                "storage_options": store.options(cache_dir=str(folder), cache_bytes=8 << 30),
                "warm_up": str(options.data / "part_0000.parquet"),
                "batches": None,
                "batch_size": options.batch_size,
                "output": "arrow",
                "world_size": RANKS,
                "tail": "uneven",
                **more,
            }
            found = run_alone([shared | {"rank": rank} for rank in range(RANKS)])
            check(options.rows, *found)
            asked = store.asked()
            slowest = max(one.seconds for one in found)
            figures[words] = {
                "records": options.rows.total_rows,
                "seconds": slowest,
                "rows_of_ranks": [one.rows for one in found],
            }
            figures[words] |= asked
            fetched[words] = asked["bytes_sent"] / size
    return {"figures": figures, "set_bytes": size, "fetched": fetched, "worst": max(fetched.values())}
