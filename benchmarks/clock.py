"""Times passes over batches, and runs processes whose clocks start together.

The rows of a pass are compared with the data set: a pass whose rows are not those of the set, each
once, is an error.
"""

from __future__ import annotations

import gc
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from benchmarks.measure import Metrics, WrongRowsError, figure, in_processes, io_counters

_READY_TIMEOUT_S = 120.0


@dataclass
class Pass:
    """One pass over a reader.

    Attributes:
        id_sum: Sum of the column ``row_id``, where it was added up.
        construct_s: Until the reader was made; ``seconds`` and ``first_batch_s`` run from the start
            of the clock.
        start: ``time.perf_counter()`` when the clock started, comparable between processes.
        asked_bytes: What read calls returned, from the page cache too.
        build_bytes: The part of them that making the reader took: footers, listings, modules that
            it imports.
        disk_bytes: What came from the disk.
    """

    rows: int = 0
    seconds: float = 0.0
    first_batch_s: float = 0.0
    id_sum: int | None = None
    construct_s: float = 0.0
    start: float = 0.0
    asked_bytes: int = 0
    build_bytes: int = 0
    disk_bytes: int = 0


def timed_pass(
    build: Callable[[], Iterable[Any]],
    *,
    sums: bool = False,
    most_batches: int | None = None,
    at_start: Callable[[], object] | None = None,
) -> Pass:
    """Makes a reader and goes over it: Arrow batches, dicts of columns, or lists of rows.

    Args:
        build: Makes the reader.
        sums: Add up the row numbers.
        most_batches: Stop after this number of batches.
        at_start: Called when the reader is made; then the clock starts. Without it, the clock
            starts before.
    """
    done, before, built_from = Pass(id_sum=0 if sums else None), io_counters(), time.perf_counter()
    reader = build()
    done.construct_s = time.perf_counter() - built_from
    done.build_bytes = io_counters()["rchar"] - before["rchar"]
    done.start = built_from
    if at_start is not None:
        at_start()
        done.start = time.perf_counter()
    batches = iter(reader)
    for number, batch in enumerate(batches, 1):
        done.first_batch_s = done.first_batch_s or time.perf_counter() - done.start
        done.rows += len(batch) if isinstance(batch, list) else len(_ids(batch))
        if done.id_sum is not None:
            done.id_sum += _sum_of_ids(batch)
        if number == most_batches:
            break
    done.seconds = time.perf_counter() - done.start
    # Ends threads and worker processes, which would take part in the next pass; only then the
    # kernel adds their reads to ours.
    del batches, reader
    gc.collect()
    after = io_counters()
    done.asked_bytes = after["rchar"] - before["rchar"]
    done.disk_bytes = after["read_bytes"] - before["read_bytes"]
    return done


def _ids(batch: Any) -> Any:
    return batch["row_id"] if isinstance(batch, dict) else batch.column("row_id")


def _sum_of_ids(batch: Any) -> int:
    if isinstance(batch, list):
        return sum(int(row["row_id"]) for row in batch)
    ids = _ids(batch)
    # Of 32 bits each; NumPy and torch add them up in 64.
    return int((ids.to_numpy() if hasattr(ids, "to_numpy") else ids).sum())


def check(expected: tuple[int, int], *passes: Pass) -> None:
    """Compares what passes delivered together with the number of rows and the sum of their numbers.

    Raises:
        WrongRowsError: If the number of rows differs, or the sum of their ids, where it was taken.
    """
    rows, sums = sum(done.rows for done in passes), [done.id_sum for done in passes]
    if rows != expected[0]:
        raise WrongRowsError(f"{rows:,} rows instead of {expected[0]:,}")
    total = sum(one or 0 for one in sums)
    if None not in sums and total != expected[1]:
        raise WrongRowsError(f"the ids sum up to {total:,} instead of {expected[1]:,}")


def figure_of(passes: Sequence[Pass], **more: Any) -> Metrics:
    """The median of several passes over the same rows."""
    first = statistics.median(done.first_batch_s for done in passes)
    seconds = statistics.median(done.seconds for done in passes)
    return figure(passes[0].rows, seconds, first_batch_s=first, **more)


def in_turn(
    expected: tuple[int, int],
    kinds: Mapping[str, Callable[[], Iterable[Any]]],
    runs: int,
    *,
    before: Callable[[str], object] = lambda name: None,
) -> dict[str, list[Pass]]:
    """Warms each reader up, and then times one after the other, round by round.

    The ids of a warm-up are added up. Rounds make a slow minute hit all readers.

    Args:
        expected: What each pass delivers.
        kinds: Makers of readers, by name.
        runs: Timed passes of each.
        before: Called with the name before the clock of each pass.
    """
    done: dict[str, list[Pass]] = {name: [] for name in kinds}
    for number in range(runs + 1):
        for name, build in kinds.items():
            before(name)
            found = timed_pass(build, sums=number == 0)
            check(expected, found)
            if number:
                done[name].append(found)
    return done


def at_once(
    method: Literal["fork", "spawn"], works: Sequence[Callable[[Callable[[], object]], Any]]
) -> list[Any]:
    """Runs each work in a fresh process.

    A work calls its argument when it is ready, and goes on when all the others are ready too.
    """
    barrier = multiprocessing.get_context(method).Barrier(len(works))
    return in_processes(method, [partial(_with_barrier, barrier, work) for work in works])


def _with_barrier(barrier: Any, work: Callable[[Callable[[], object]], Any]) -> Any:
    try:
        return work(partial(barrier.wait, _READY_TIMEOUT_S))
    except BaseException:
        # The others wait for this one.
        barrier.abort()
        raise


def run_alone(jobs: Sequence[Metrics]) -> list[Pass]:
    """Loaders in processes that have imported everything and sent no request yet, at the same time.

    A job is the options of a loader, ``source``, ``warm_up`` (a local file), and ``batches``, all
    when None.
    """
    return at_once("spawn", [partial(_alone, **job) for job in jobs])


def _alone(
    ready: Callable[[], object], *, source: str, warm_up: str, batches: int | None, **given: Any
) -> Pass:
    import shardmill as sm

    plain: dict[str, Any] = {
        "batch_size": given["batch_size"],
        "output": given["output"],
        "rank": 0,
        "world_size": 1,
    }
    timed_pass(lambda: sm.Loader(warm_up, **plain), most_batches=1)
    ready()
    return timed_pass(
        lambda: sm.Loader(source, **given), sums=batches is None, most_batches=batches
    )
