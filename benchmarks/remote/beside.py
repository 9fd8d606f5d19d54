"""One system reads a data set from a store that is far away: the same lines for ours and the peers'.

Enters: the options and the ways in which a system reads. Leaves: a figure a way. Called by the entry scripts. Invariant: every
pass is by a fresh reader, which opens the data set anew; the rows of each warm-up are held against the set. A batch is an Arrow
batch, a dict of tensors, or a list of rows that are dicts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from benchmarks.remote.clock import check, figure, timed_pass
from benchmarks.remote.options import Options
from benchmarks.remote.store import Store, started

#: Makes a reader of what lies at a path of a store.
Way = Callable[[Store, str], Iterable[Any]]

# A tool that takes minutes is slow enough to be seen in one pass.
_ENOUGH_S = 20.0


def measure(options: Options, ways: Mapping[str, Way] | None = None) -> dict[str, Any]:
    """Each way: a warm-up, then passes; what a pass asked of the store is counted."""
    if ways is None:
        ways = our_ways(options)
    figures: dict[str, Any] = {}
    with started() as store:
        path = store.publish(options.data)
        for name, way in ways.items():
            store.away(options.round_trip_s)
            start = time.perf_counter()
            first = timed_pass(lambda way=way: way(store, path), sums=True)
            check(options.rows, first)
            slow = time.perf_counter() - start > _ENOUGH_S
            passes = []
            for _ in range(1 if slow else options.runs):
                store.away(options.round_trip_s)
                passes.append(timed_pass(lambda way=way: way(store, path)))
                check(options.rows, passes[-1])
            figures[name] = figure(passes, **store.asked())
    return {"figures": figures}


def our_ways(options: Options) -> dict[str, Way]:
    """A ``Loader``; of MDS files also rows, which are what their own reader gives."""
    import shardmill as sm

    def loader(store: Store, path: str, output: str) -> Any:
        return sm.Loader(
            path,
            batch_size=options.batch_size,
            output=output,
            rank=0,
            world_size=1,
            storage_options=store.options(),
        )

    if options.form != "mds":
        return {"Loader": lambda store, path: loader(store, path, options.form)}
    return {
        "rows": lambda store, path: in_lists(sm.Dataset(path, storage_options=store.options()), options.batch_size),
        "Loader, arrow": lambda store, path: loader(store, path, "arrow"),
    }


def in_lists(rows: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Some rows at a time, so that the clock's own work does not count."""
    iterator = iter(rows)
    while batch := list(islice(iterator, size)):
        yield batch
