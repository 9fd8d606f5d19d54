"""Tables from a store into batches.

The scenarios are: against local files and the server, many files, the cache, ranks, peers, and
faults. Every pass is by a fresh reader; requests are those that the proxy has
seen, opening included.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.clock import check, figure_of, in_turn, run_alone, timed_pass
from benchmarks.measure import Metrics, Options, figure, prepare_caches, run_entry
from benchmarks.remote.ceiling import seconds_of_tails, server_rate
from benchmarks.remote.store import BUCKET, Store, started
from benchmarks.tables import DataSet, data_sets
from tests.remote.fault_proxy import mix

_LOCAL, _NEAR, _FAR = "local files", "S3", "S3, far away"
_OUTPUTS = ("arrow", "torch")
_CACHE_BYTES, _RANKS = 8 << 30, 4
# A tool that takes minutes is slow enough to be seen in one pass.
_ENOUGH_S = 20.0
# A longer wait for a batch is taken to be a hang.
_HANG_S, _PROBABILITY, _MOST_EPOCHS, _FILES_OF_SPLIT = 60.0, 0.3, 500, 2

#: Makes a reader of what lies at a path of a store.
Way = Callable[[Store, str], Iterable[Any]]


@dataclass(frozen=True, kw_only=True)
class RemoteOptions(Options):
    """What is read.

    Attributes:
        share: Of the full size of the sets.
        form: What a batch is, or the format that is read: ``arrow``, ``torch`` or ``mds``.
        round_trip_s: Time before each answer where the store is far away.
        runs: Timed passes, after one that warms up.
        faults: That one job lives through.
        kind: Of the faults: ``loader`` or ``job``.
    """

    data: Path
    share: float = 1.0
    form: str = "arrow"
    round_trip_s: float = 0.010
    batch_size: int = 1024
    runs: int = 5
    faults: int = 1_000
    kind: str = "loader"

    @property
    def set(self) -> DataSet:
        """The rows that are read."""
        return data_sets(self.share)[self.data.name]

    def loader(self, output: str, **more: Any) -> dict[str, Any]:
        """Options of a ``Loader``."""
        return {"batch_size": self.batch_size, "output": output, "rank": 0, "world_size": 1, **more}

    def job(self, source: str, output: str, **more: Any) -> dict[str, Any]:
        """A loader of a fresh process."""
        warm_up = str(next(self.data.glob("*.parquet")))
        return {
            **self.loader(output),
            "source": source,
            "warm_up": warm_up,
            "batches": None,
            **more,
        }


def reading(options: RemoteOptions) -> Metrics:
    """A table from the store against the same files on the disk and what the server gives."""
    import shardmill as sm

    prepare_caches("warm", [options.data])
    figures: Metrics = {}
    requests = []
    with started() as store:
        path = store.publish(options.data)
        size = sum(count for _, count in store.objects(options.data.name))
        least = 256 << 20 if options.share == 1 else 1
        rates = [server_rate(store, options.data.name, least_bytes=least)]
        for output in _OUTPUTS:
            local = options.loader(output)
            remote = {**local, "storage_options": store.options()}
            kinds: dict[str, Callable[[], Any]] = {
                _LOCAL: lambda local=local: sm.Loader(str(options.data), **local),
                _NEAR: lambda remote=remote: sm.Loader(path, **remote),
                # The last one, so what is counted is its last pass.
                _FAR: lambda remote=remote: sm.Loader(path, **remote),
            }
            found = in_turn(
                options.set.expected,
                kinds,
                options.runs,
                before=lambda place: store.away(options.round_trip_s if place == _FAR else 0.0),
            )
            figures |= {f"{output}, {place}": figure_of(passes) for place, passes in found.items()}
            requests.append(store.asked()["requests"])
        store.away(0.0)
        rates.append(server_rate(store, options.data.name, least_bytes=least))
    for name, one in figures.items():
        one["bytes_per_s"] = size / one["seconds"]
        one["server_share"] = one["bytes_per_s"] / max(rates)
        one["local_share"] = (
            figures[f"{name.partition(',')[0]}, {_LOCAL}"]["seconds"] / one["seconds"]
        )
    row_groups = sum(-(-rows // options.set.row_group) for rows in options.set.rows)
    return {
        "figures": figures,
        "set_bytes": size,
        "row_groups": row_groups,
        "requests_per_row_group": max(requests) / row_groups,
        "server_bytes_per_s": max(rates),
    }


def opening(options: RemoteOptions) -> Metrics:
    """The first batch of many files.

    Each run is a process of its own, and the requests of the last one are counted.
    """
    with started() as store:
        path = store.publish(options.data)
        job = options.job(path, "arrow", storage_options=store.options())
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
        (found,) = run_alone([job])
        check(options.set.expected, found)
        store.away(options.round_trip_s)
        plain = seconds_of_tails(store, options.data.name)
    return {
        "files": len(options.set.rows),
        "first_batch_s": statistics.median(seconds),
        "whole_s": found.seconds,
        "plain_s": plain,
        "requests": asked["requests"],
    }


def cached(options: RemoteOptions) -> Metrics:
    """The second epoch of what the cache holds, against local files.

    The store is far away all the time.
    """
    import shardmill as sm

    directory, figures, later = options.scratch / "cache", {}, 0
    with started() as store:
        path = store.publish(options.data)
        given = store.options(cache_dir=str(directory), cache_bytes=_CACHE_BYTES)
        for output in _OUTPUTS:
            store.away(options.round_trip_s)
            # One loader for all epochs, as in training; the footers are known after the first.
            local = sm.Loader(str(options.data), **options.loader(output))
            remote = sm.Loader(path, **options.loader(output, storage_options=given))
            in_turn(options.set.expected, {"cache": lambda remote=remote: remote}, 0)
            store.away(options.round_trip_s)
            kinds = {
                "local files": lambda local=local: local,
                "cache": lambda remote=remote: remote,
            }
            for name, passes in in_turn(options.set.expected, kinds, options.runs).items():
                figures[f"{output}, {name}"] = figure_of(passes)
            later += store.asked()["requests"]
            del local, remote, kinds
        size = sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
    return {"figures": figures, "later_requests": later, "cache_bytes": size}


def ranks(options: RemoteOptions) -> Metrics:
    """What ranks of one machine fetch together.

    They run at the same time, with one cache that is empty at the start.
    """
    figures: Metrics = {}
    with started() as store:
        path = store.publish(options.data)
        size = sum(count for _, count in store.objects(options.data.name))
        for words, more in (("in order", {}), ("rows shuffled", {"shuffle": True, "seed": 7})):
            directory = options.scratch / "cache"
            shutil.rmtree(directory, ignore_errors=True)
            store.away(options.round_trip_s)
            given = store.options(cache_dir=str(directory), cache_bytes=_CACHE_BYTES)
            shared = options.job(
                path, "arrow", storage_options=given, world_size=_RANKS, tail="uneven", **more
            )
            found = run_alone([shared | {"rank": rank} for rank in range(_RANKS)])
            check(options.set.expected, *found)
            asked = store.asked()
            figures[words] = figure(
                options.set.total_rows, max(one.seconds for one in found), **asked
            )
            figures[words]["fetched"] = asked["bytes_sent"] / size
    return {"figures": figures, "worst": max(one["fetched"] for one in figures.values())}


def beside(options: RemoteOptions) -> Metrics:
    """Each way of a system: a warm-up, then passes.

    What the last pass asked of the store is counted.
    """
    is_ours = options.system == "shardmill"
    peers = None if is_ours else import_module("benchmarks.peers.remote")
    ways: Mapping[str, Way] = (
        our_ways(options) if peers is None else peers.SYSTEMS[options.system](options)
    )
    figures: Metrics = {}
    with started() as store:
        path = store.publish(options.data)
        for name, way in ways.items():
            store.away(options.round_trip_s)
            start = time.perf_counter()
            check(options.set.expected, timed_pass(lambda way=way: way(store, path), sums=True))
            is_slow = time.perf_counter() - start > _ENOUGH_S
            passes = []
            for _ in range(1 if is_slow else options.runs):
                store.away(options.round_trip_s)
                passes.append(timed_pass(lambda way=way: way(store, path)))
                check(options.set.expected, passes[-1])
            figures[name] = figure_of(passes, **store.asked())
    return {"figures": figures}


def our_ways(options: RemoteOptions) -> dict[str, Way]:
    """A ``Loader``; of MDS files also rows, which are what their own reader gives."""
    import shardmill as sm

    def loader(store: Store, path: str, output: str) -> Any:
        return sm.Loader(path, **options.loader(output, storage_options=store.options()))

    def rows(store: Store, path: str) -> Any:
        return in_lists(sm.Dataset(path, storage_options=store.options()), options.batch_size)

    if options.form != "mds":
        return {"Loader": lambda store, path: loader(store, path, options.form)}
    return {"rows": rows, "Loader, arrow": lambda store, path: loader(store, path, "arrow")}


def in_lists(rows: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Some rows at a time, so that the clock's own work does not count."""
    iterator = iter(rows)
    while batch := list(islice(iterator, size)):
        yield batch


def faults(options: RemoteOptions) -> Metrics:
    """A store that fails in all the ways that it can, until the proxy has given all faults.

    Rows that are lost or doubled are counted, and hangs.
    """
    run = {"loader": _epochs, "job": _job}[options.kind]
    with started() as store:
        path = store.publish(options.data)
        seed = {"loader": 7, "job": 11}[options.kind]
        store.away(
            options.round_trip_s, mix(probability=_PROBABILITY, count=options.faults, seed=seed)
        )
        found = run(options, store, path)
        counters = store.proxy.counters()["faults"]
        return {**found, "faults": store.proxy.given()[-1], "kinds": counters, **store.asked()}


def _epochs(options: RemoteOptions, store: Store, path: str) -> Metrics:
    """One loader, epoch after epoch, its rows shuffled."""
    import numpy as np
    import shardmill as sm

    rows, longest, epochs = options.set.total_rows, 0.0, 0
    lost = doubled = 0
    start = time.perf_counter()
    loader = sm.Loader(
        path, **options.loader("arrow", shuffle=True, seed=7, storage_options=store.options())
    )
    while epochs < _MOST_EPOCHS and store.proxy.given()[-1] < options.faults:
        counts, last = np.zeros(rows, np.int64), time.perf_counter()
        for batch in loader:
            now = time.perf_counter()
            longest, last = max(longest, now - last), now
            np.add.at(counts, batch.column("row_id").to_numpy(), 1)
        epochs += 1
        lost += int((counts == 0).sum())
        doubled += int((counts > 1).sum())
    done = figure(rows * epochs, time.perf_counter() - start)
    hangs = int(longest > _HANG_S)
    return {
        "figures": {"rows": done},
        "lost": lost,
        "doubled": doubled,
        "hangs": hangs,
        "longest_wait_s": longest,
    }


def _job(options: RemoteOptions, store: Store, path: str) -> Metrics:
    """Copies the rows of all files with a checkpoint.

    The output is read from the server's own directory.
    """
    import numpy as np
    import pyarrow.dataset as ds
    from shardmill.curate import ParquetSink, Pipeline, TableSource

    given: dict[str, Any] = {"storage_options": store.options()}
    start = time.perf_counter()
    Pipeline(
        source=TableSource(path, files_per_partition=_FILES_OF_SPLIT, **given),
        sink=ParquetSink(f"s3://{BUCKET}/out/", mode="error", **given),
        checkpoint={"path": f"s3://{BUCKET}/state/", "id_column": "row_id"},
    ).run(progress=False)
    seconds, rows = time.perf_counter() - start, options.set.total_rows
    files = sorted((store.server.directory / BUCKET / "out").rglob("*.parquet"))
    ids = (
        ds.dataset([str(file) for file in files]).to_table(columns=["row_id"]).column(0).to_numpy()
    )
    counts = np.bincount(ids, minlength=rows)
    return {
        "figures": {"rows": figure(rows, seconds)},
        "lost": int((counts == 0).sum()),
        "doubled": int((counts > 1).sum()) + max(0, len(counts) - rows),
        # A job does not tell how long it waits for one answer.
        "hangs": int(seconds > max(_HANG_S, options.faults * 1.0)),
    }


SCENARIOS = {
    "reading": reading,
    "opening": opening,
    "cached": cached,
    "ranks": ranks,
    "beside": beside,
    "faults": faults,
}


if __name__ == "__main__":
    run_entry(RemoteOptions, lambda options: SCENARIOS[options.scenario](options))
