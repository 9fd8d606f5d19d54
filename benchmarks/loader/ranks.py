"""Several ranks over one data set: as real processes at the same time, one after another, or rank 0 alone.

Enters: ``Options`` with ``ranks`` and the ``Build`` of a tool. Leaves: metrics, rows and bytes of every rank among them.
Called by ``measure``. Invariant: all ranks together deliver every row once, which is asserted on each run; ranks are
forked before this process has started a loader, so that none inherits threads or a cache of footers.
"""

from __future__ import annotations

import multiprocessing
import statistics
from contextlib import closing
from dataclasses import asdict
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.loader.measure import Build, Pass, WrongRowsError, check_sum, run_pass, summary
from benchmarks.loader.options import Options
from benchmarks.loader.proc import drop_from_cache

_BARRIER_TIMEOUT_S = 120.0


def measure_ranks(options: Options, build: Build) -> dict[str, Any]:
    """Runs one entry of several ranks.

    The seconds of ``ranks`` run from the first rank's start to the last one's end; those of ``ranks_in_turn`` are
    the longest rank's, as the peer's own benchmark simulates it; those of ``rank_0`` are its own.
    """
    for _ in range(options.warm_ups):
        _assert_ranks(options, _one_round(options, build, sums=True))
    rounds = []
    for _ in range(options.runs):
        if options.cold:
            drop_from_cache(options.paths())
        rounds.append(_one_round(options, build, sums=False))
        _assert_ranks(options, rounds[-1])
    passes = [_together(options, ranks) for ranks in rounds]
    rows = [one.rows for one in rounds[0]]
    mean = sum(rows) / len(rows)
    more = {
        "rows_of_ranks": rows,
        "imbalance": (max(rows) - min(rows)) / mean if mean else 0.0,
        "asked_bytes_of_ranks": [
            int(statistics.median(ranks[number].asked_bytes for ranks in rounds)) for number in range(len(rows))
        ],
        "build_bytes_of_ranks": [
            int(statistics.median(ranks[number].build_bytes for ranks in rounds)) for number in range(len(rows))
        ],
    }
    return summary(options, passes, more)


def _one_round(options: Options, build: Build, *, sums: bool) -> list[Pass]:
    if options.mode == "ranks":
        return _in_processes(options, build, list(range(options.ranks)), sums)
    numbers = [0] if options.mode == "rank_0" else range(options.ranks)
    # One process at a time, and each a fresh one.
    return [one for rank in numbers for one in _in_processes(options, build, [rank], sums)]


def _in_processes(options: Options, build: Build, ranks: list[int], sums: bool) -> list[Pass]:
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(len(ranks))
    started = []
    for rank in ranks:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_rank_process, args=(options, build, rank, sums, barrier, sender))
        process.start()
        sender.close()
        started.append((rank, process, receiver))
    passes, failures = [], []
    for rank, process, receiver in started:
        with closing(receiver):
            try:
                passes.append(Pass(**receiver.recv()))
            except EOFError:
                failures.append(rank)
        process.join()
    if failures:
        msg = f"{options.tool}: rank {', '.join(map(str, failures))} of {options.ranks} failed\nhint: see the log"
        raise WrongRowsError(msg)
    return passes


def _rank_process(options: Options, build: Build, rank: int, sums: bool, barrier: Any, sender: Connection) -> None:
    def wait() -> None:
        barrier.wait(_BARRIER_TIMEOUT_S)

    try:
        done = run_pass(options, build, rank=rank, sums=sums, at_start=wait)
    except BaseException:
        # The others wait for this rank.
        barrier.abort()
        raise
    sender.send(asdict(done))
    sender.close()


def _assert_ranks(options: Options, ranks: list[Pass]) -> None:
    if options.mode == "rank_0":
        return
    sums = [one.row_id_sum for one in ranks if one.row_id_sum is not None]
    check_sum(options, sum(one.rows for one in ranks), sum(sums) if sums else None)


def _together(options: Options, ranks: list[Pass]) -> Pass:
    """One pass that stands for all ranks of a round."""
    start = min(one.start for one in ranks)
    at_once = max(one.start + one.seconds for one in ranks) - start
    seconds = at_once if options.mode == "ranks" else max(one.seconds for one in ranks)
    return Pass(
        construct_s=max(one.construct_s for one in ranks),
        seconds=seconds,
        first_batch_s=max(one.first_batch_s for one in ranks),
        start=start,
        rows=sum(one.rows for one in ranks),
        batches=sum(one.batches for one in ranks),
        asked_bytes=sum(one.asked_bytes for one in ranks),
        build_bytes=sum(one.build_bytes for one in ranks),
        disk_bytes=sum(one.disk_bytes for one in ranks),
    )
