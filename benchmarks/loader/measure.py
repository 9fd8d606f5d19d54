"""Times a loader: warm-up, runs with a fresh loader each, counts asserted.

Enters: ``Options`` and a ``Tool`` that builds loaders. Leaves: the metrics of one entry. Called by the entry scripts of
all systems, so that one clock measures them. Invariant: the clock starts when the loader is built and stops when it
is exhausted; a pass that delivers another number of rows than the data set holds is an error, and an untimed warm-up
also compares the sum of ``row_id``, so that a row lost and another one doubled is an error too.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.loader.options import Options
from benchmarks.loader.proc import ResidentSampler, drop_from_cache, io_counters

# Builds the loader of one rank.
Build = Callable[[Options, int], Iterable[Any]]


class WrongRowsError(AssertionError):
    """A pass did not deliver the rows of the data set."""


@dataclass
class Pass:
    """One pass over a loader.

    Attributes:
        construct_s: Until the loader was built.
        seconds: From there, or from before it if the options say so, to the end of the pass.
        start: ``time.perf_counter()`` when the clock started, comparable between processes.
        asked_bytes: ``rchar``: what read calls returned, from whatever cache.
        build_bytes: The part of them that building the loader took: footers, listings, modules that it imports.
        disk_bytes: What came from the disk.
        rows_of_workers: Rows by worker number, if batches tell.
    """

    construct_s: float = 0.0
    seconds: float = 0.0
    first_batch_s: float = 0.0
    start: float = 0.0
    rows: int = 0
    batches: int = 0
    row_id_sum: int | None = None
    asked_bytes: int = 0
    build_bytes: int = 0
    disk_bytes: int = 0
    rows_of_workers: dict[int, int] = field(default_factory=dict)


def measure(options: Options, build: Build) -> dict[str, Any]:
    """Runs one entry and returns its metrics.

    Raises:
        WrongRowsError: If a pass delivered other rows than the data set holds.
    """
    if options.mode in ("ranks", "ranks_in_turn", "rank_0"):
        from benchmarks.loader.ranks import measure_ranks

        return measure_ranks(options, build)
    if options.mode == "memory":
        return _measure_memory(options, build)
    is_whole = options.mode == "stream"
    for number in range(options.warm_ups):
        done = run_pass(options, build, sums=is_whole and number == 0, is_whole=is_whole)
        _assert_rows(options, done, is_whole)
    runs = []
    for _ in range(options.runs):
        if options.cold:
            drop_from_cache(options.paths())
        done = run_pass(options, build, is_whole=is_whole)
        _assert_rows(options, done, is_whole)
        runs.append(done)
    return summary(options, runs)


def run_pass(
    options: Options,
    build: Build,
    *,
    rank: int = 0,
    sums: bool = False,
    is_whole: bool = True,
    at_start: Callable[[], object] = lambda: None,
) -> Pass:
    """Builds a loader and goes over it once.

    Args:
        options: What to read.
        build: Makes the loader.
        rank: Which rank's loader.
        sums: Also add up ``row_id``, which takes time.
        is_whole: To the end; else the first batch is enough.
        at_start: Called between construction and the clock: a barrier, for example.
    """
    done = Pass()
    before = io_counters()
    built_from = time.perf_counter()
    loader = build(options, rank)
    done.construct_s = time.perf_counter() - built_from
    done.build_bytes = io_counters()["rchar"] - before["rchar"]
    at_start()
    done.start = built_from if options.timed_from_construction else time.perf_counter()
    batches = iter(loader)
    _consume(options, done, batches, sums, is_whole)
    done.seconds = time.perf_counter() - done.start
    # Ends worker processes; only then the kernel adds their reads to ours.
    del batches, loader
    gc.collect()
    after = io_counters()
    done.asked_bytes = after["rchar"] - before["rchar"]
    done.disk_bytes = after["read_bytes"] - before["read_bytes"]
    return done


def _consume(options: Options, done: Pass, batches: Iterable[Any], sums: bool, is_whole: bool) -> None:
    rows_of = _rows_of_arrow if options.output == "arrow" else _rows_of_columns
    rows, count, total = 0, 0, 0
    for batch in batches:
        if count == 0:
            done.first_batch_s = time.perf_counter() - done.start
        worker = 0
        if options.by_worker:
            worker, batch = batch
        size = rows_of(batch)
        rows += size
        count += 1
        if options.by_worker:
            done.rows_of_workers[worker] = done.rows_of_workers.get(worker, 0) + size
        if sums:
            total += _sum_of_ids(options, batch)
        if not is_whole:
            break
    done.rows, done.batches = rows, count
    done.row_id_sum = total if sums else None


def summary(options: Options, runs: Sequence[Pass], more: dict[str, Any] | None = None) -> dict[str, Any]:
    """Returns the metrics of several passes; the rate is that of the median."""
    seconds = [one.seconds for one in runs]
    rows = options.expected()[0] if options.mode not in ("rank_0", "first_batch") else runs[0].rows
    median = statistics.median(seconds)
    return {
        "is_success": True,
        "rows": rows,
        "batches": runs[0].batches,
        "median_s": median,
        "p25_s": _quantile(seconds, 0.25),
        "p75_s": _quantile(seconds, 0.75),
        "min_s": min(seconds),
        "rows_per_s": rows / median,
        "construct_s": statistics.median(one.construct_s for one in runs),
        "first_batch_s": statistics.median(one.first_batch_s for one in runs),
        "asked_bytes": int(statistics.median(one.asked_bytes for one in runs)),
        "build_bytes": int(statistics.median(one.build_bytes for one in runs)),
        "disk_bytes": int(statistics.median(one.disk_bytes for one in runs)),
        "data_bytes": sum(path.stat().st_size for path in options.paths()),
        "all_seconds": seconds,
        "rows_of_workers": [runs[0].rows_of_workers[worker] for worker in sorted(runs[0].rows_of_workers)],
    } | (more or {})


def check_sum(options: Options, rows: int, total: int | None) -> None:
    """Compares what all ranks delivered together with what the data set holds.

    Raises:
        WrongRowsError: If the count differs, or the sum of ``row_id`` where it was taken.
    """
    expected_rows, expected_sum = options.expected()
    if rows != expected_rows:
        msg = f"{options.tool} delivered {rows:,} rows of {options.pattern}, not {expected_rows:,}"
        raise WrongRowsError(msg)
    if total is not None and total != expected_sum:
        msg = f"{options.tool}: the row_id of {options.pattern} sum up to {total:,}, not {expected_sum:,}"
        raise WrongRowsError(msg)


def _assert_rows(options: Options, done: Pass, is_whole: bool) -> None:
    if is_whole:
        check_sum(options, done.rows, done.row_id_sum)
    elif not done.rows:
        msg = f"{options.tool} delivered no first batch of {options.pattern}"
        raise WrongRowsError(msg)


def _measure_memory(options: Options, build: Build) -> dict[str, Any]:
    """Several epochs; the first one is the warm-up that the later ones are held against."""
    runs, peaks = [], []
    with ResidentSampler() as sampler:
        for _ in range(options.epochs):
            start = time.perf_counter()
            done = run_pass(options, build)
            check_sum(options, done.rows, None)
            runs.append(done)
            peaks.append(sampler.peak_between(start, time.perf_counter()))
    return summary(options, runs, {"epoch_peak_rss_bytes": peaks, "decoded_bytes": _decoded_bytes(options)})


def _decoded_bytes(options: Options) -> int:
    columns = options.columns or options.manifest["columns"]
    return 4 * len(columns) * options.expected()[0]


def _rows_of_arrow(batch: Any) -> int:
    return batch.num_rows


def _rows_of_columns(batch: Any) -> int:
    return len(batch["row_id"])


def _sum_of_ids(options: Options, batch: Any) -> int:
    ids = batch["row_id"] if options.output != "arrow" else batch.column("row_id").to_numpy()
    # NumPy adds int32 up in int64, and so does torch.
    return int(ids.sum())


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
