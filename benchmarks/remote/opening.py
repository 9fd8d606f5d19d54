"""The first batch of a thousand files that are far away.

Enters: the options. Leaves: the seconds of it. Called by the entry script. Invariant: each run is a process of its own that has
imported everything and has not yet spoken to the store.
"""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.remote.alone import run_alone
from benchmarks.remote.ceiling import seconds_of_tails
from benchmarks.remote.clock import check
from benchmarks.remote.options import Options
from benchmarks.remote.store import started

# Of a file whose end alone is asked for.
_TAIL_BYTES = 16 << 10


def measure(options: Options) -> dict[str, Any]:
    """Each run begins with nothing; the last one's requests are counted."""
    with started() as store:
        path = store.publish(options.data)
        job = {"source": path, "storage_options": store.options(), "batch_size": options.batch_size}
        job |= {"warm_up": str(options.data / "part_0000.parquet"), "output": "arrow", "rank": 0, "world_size": 1}
        seconds: list[float] = []
        asked: dict[str, int] = {}
        for number in range(options.runs + 1):
            store.away(options.round_trip_s)
            (found,) = run_alone([job | {"batches": 1}])
            # The first has the server open its files.
            if number:
                seconds.append(found.first_batch_s)
                asked = store.asked()
        store.away(options.round_trip_s)
        (found,) = run_alone([job | {"batches": None}])
        check(options.rows, found)
        store.away(options.round_trip_s)
        plain = min(
            seconds_of_tails(store, options.data.name, tail_bytes=_TAIL_BYTES, connections=connections)
            for connections in (16, 32, 64)
        )
    return {
        "figures": {"first batch": {"records": 1, "seconds": statistics.median(seconds), "all_seconds": seconds}},
        "files": len(options.rows.rows),
        "first_batch_s": statistics.median(seconds),
        "whole_s": found.seconds,
        "plain_s": plain,
        "requests": asked["requests"],
    }
