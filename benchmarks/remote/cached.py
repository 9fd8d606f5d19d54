"""The second epoch of what the cache holds, against local files.

Enters: the options. Leaves: figures. Called by the entry script. Invariant: the store is far away all the time; the cache is empty
before the first epoch, and what the second one asks of the store is counted.
"""

from __future__ import annotations

import shutil
from typing import Any

from benchmarks.remote.clock import figure, in_turn
from benchmarks.remote.options import Options
from benchmarks.remote.store import started

_CACHE_BYTES = 8 << 30


def measure(options: Options) -> dict[str, Any]:
    """The warm-up of ``in_turn`` is the first epoch, which fills the cache."""
    import shardmill as sm

    folder = options.scratch / "cache"
    with started() as store:
        path = store.publish(options.data)
        store.away(options.round_trip_s)
        given: dict[str, Any] = {"storage_options": store.options(cache_dir=str(folder), cache_bytes=_CACHE_BYTES)}
        figures: dict[str, Any] = {}
        requests = {}
        for output in ("arrow", "torch"):
            shared: dict[str, Any] = {"batch_size": options.batch_size, "output": output, "rank": 0, "world_size": 1}
            # One loader for all epochs, as in training; the footers are known after the first.
            readers = {
                "local files": sm.Loader(str(options.data), **shared),
                "cache": sm.Loader(path, **shared, **given),
            }
            kinds = {name: lambda loader=loader: loader for name, loader in readers.items()}
            first = in_turn(options.rows, {"cache": kinds["cache"]}, 0)
            assert not first["cache"]
            filled = store.asked()
            store.away(options.round_trip_s)
            for name, passes in in_turn(options.rows, kinds, options.runs).items():
                figures[f"{output}, {name}"] = figure(passes)
            requests[output] = {"first": filled["requests"], "later": store.asked()["requests"]}
            store.away(options.round_trip_s)
            del readers, kinds
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    shutil.rmtree(folder, ignore_errors=True)
    return {"figures": figures, "requests": requests, "cache_bytes": size}
