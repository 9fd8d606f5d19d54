"""Times passes over batches, and holds their rows against the data set.

Enters: something to iterate. Leaves: ``Pass``es, and figures of their medians. Called by the scenarios of all systems, so that one
clock measures them. Invariant: the clock starts before the reader is made; a pass whose rows are not those of the set, each once,
is an error. The standard library is enough.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.loader.sets import DataSet


class WrongRowsError(AssertionError):
    """A pass did not deliver the rows of the data set."""


@dataclass(frozen=True)
class Pass:
    """One pass.

    Attributes:
        id_sum: Of the column ``row_id``, where it was added up.
    """

    rows: int
    seconds: float
    first_batch_s: float
    id_sum: int | None = None


def timed_pass(build: Callable[[], Iterable[Any]], *, sums: bool = False, most_batches: int | None = None) -> Pass:
    """Makes a reader and goes over it; ``sums`` adds up the ids too, which takes time."""
    rows, total, first = 0, 0, 0.0
    start = time.perf_counter()
    batches = iter(build())
    for number, batch in enumerate(batches):
        if number == 0:
            first = time.perf_counter() - start
        rows += len(batch) if isinstance(batch, list) else len(_ids(batch))
        if sums:
            total += _sum_of_ids(batch)
        if number + 1 == most_batches:
            break
    seconds = time.perf_counter() - start
    del batches
    # Ends what runs ahead, or it would take part in the next pass.
    gc.collect()
    return Pass(rows, seconds, first, total if sums else None)


def check(one: DataSet, *passes: Pass) -> None:
    """Compares what passes delivered together with the whole set.

    Raises:
        WrongRowsError: If the rows are not as many, or their ids, where they were added up, not those of the set.
    """
    rows = sum(done.rows for done in passes)
    if rows != one.total_rows:
        msg = f"{one.name}: {rows:,} rows instead of {one.total_rows:,}"
        raise WrongRowsError(msg)
    sums = [done.id_sum for done in passes]
    expected = one.total_rows * (one.total_rows - 1) // 2
    if None not in sums and sum(total or 0 for total in sums) != expected:
        msg = f"{one.name}: the ids sum up to {sum(total or 0 for total in sums):,} instead of {expected:,}"
        raise WrongRowsError(msg)


def figure(passes: Sequence[Pass], **more: Any) -> dict[str, Any]:
    """Of several passes over the same rows: the median, and all of them."""
    seconds = [done.seconds for done in passes]
    return {
        "records": passes[0].rows,
        "seconds": statistics.median(seconds),
        "all_seconds": seconds,
        "first_batch_s": statistics.median(done.first_batch_s for done in passes),
        **more,
    }


def in_turn(
    one: DataSet,
    kinds: Mapping[str, Callable[[], Iterable[Any]]],
    runs: int,
    *,
    before: Callable[[str], object] = lambda name: None,
) -> dict[str, list[Pass]]:
    """Warms each up, with its ids added up; then one after the other, round by round, so that a slow minute hits all.

    Args:
        one: What each pass delivers.
        kinds: Makers of readers, by name.
        runs: Timed passes of each.
        before: Called with the name before the clock of each pass.
    """
    done: dict[str, list[Pass]] = {name: [] for name in kinds}
    for number in range(runs + 1):
        for name, build in kinds.items():
            before(name)
            found = timed_pass(build, sums=number == 0)
            check(one, found)
            if number:
                done[name].append(found)
    return done


def _ids(batch: Any) -> Any:
    return batch["row_id"] if isinstance(batch, dict) else batch.column("row_id")


def _sum_of_ids(batch: Any) -> int:
    if isinstance(batch, list):
        return sum(int(row["row_id"]) for row in batch)
    ids = _ids(batch)
    # Of 32 bits each; NumPy and torch add them up in 64.
    return int((ids.to_numpy() if hasattr(ids, "to_numpy") else ids).sum())
