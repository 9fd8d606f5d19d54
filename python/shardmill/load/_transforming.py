"""The user's function on each batch, in this process or in workers, always in order."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shardmill._stall import result_of, warn_of_slow_call
from shardmill._workers import WorkerPool, packed_failure, unpacked_failure, worker_died
from shardmill.errors import EngineError
from shardmill.load._batches import Delivery, close
from shardmill.load._metrics import Counters
from shardmill.load._nested import Batch
from shardmill.load._options import Transform

if TYPE_CHECKING:
    from concurrent.futures import Future

#: Describes a batch by the number of rows of the epoch that are consumed with it.
Place = Callable[[int], str]

#: The result of a function in a worker, its nanoseconds, and its exception, packed.
_Timed = tuple[Any, int, bytes | None]


@dataclass(frozen=True)
class Transforming:
    """Call the function with each batch.

    Attributes:
        transform: the function and its workers.
        stall_seconds: warn if a result takes longer than this.
        counters: those of the loader.
    """

    transform: Transform
    stall_seconds: float
    counters: Counters

    def over(self, batches: Iterator[Delivery], place: Place) -> Iterator[Delivery]:
        """Yield the transformed batches in order.

        An exception is raised at the position of its batch, with a note that names the batch.
        """
        has_workers = self.transform.workers > 0 and _may_have_workers()
        return self._elsewhere(batches, place) if has_workers else self._here(batches, place)

    def _here(self, batches: Iterator[Delivery], place: Place) -> Iterator[Delivery]:
        try:
            for batch, rows, consumed in batches:
                begun = self.counters.clock()
                try:
                    result = self.transform.function(batch)
                except Exception as error:
                    _note_form(error, batch)
                    error.add_note(f"in the transform of {place(consumed)}")
                    raise
                spent = self.counters.clock() - begun
                self.counters.transform += spent
                self.counters.transform_wait += spent
                warn_of_slow_call(spent / 1e9, self.stall_seconds)
                yield result, rows, consumed
        finally:
            close(batches)

    def _elsewhere(self, batches: Iterator[Delivery], place: Place) -> Iterator[Delivery]:
        # A loader without workers does not need this import.
        from concurrent.futures.process import BrokenProcessPool

        pool = WorkerPool(self.transform.function, self.transform.workers)
        waiting: deque[tuple[Future[_Timed], int, int]] = deque()
        failure: Exception | None = None
        is_done = False
        try:
            while True:
                try:
                    batch, rows, consumed = next(batches)
                except StopIteration:
                    break
                except Exception as error:
                    # It is raised after the batches that are in flight.
                    failure = error
                    break
                try:
                    future = pool.submit(_timed, batch)
                except BrokenProcessPool:
                    # The results that arrived before, or the first batch that was lost, come first.
                    failure = _died(place(consumed))
                    break
                waiting.append((future, rows, consumed))
                if len(waiting) > 2 * self.transform.workers:
                    yield self._ready(pool, waiting.popleft(), place)
            while waiting:
                yield self._ready(pool, waiting.popleft(), place)
            if failure is not None:
                raise failure
            is_done = True
        finally:
            close(batches)
            pool.close(is_done=is_done)

    def _ready(
        self, pool: WorkerPool, waiting: tuple[Future[_Timed], int, int], place: Place
    ) -> Delivery:
        from concurrent.futures.process import BrokenProcessPool

        pool.check_process()
        future, rows, consumed = waiting
        begun = self.counters.clock()
        try:
            result, spent, failure = result_of(future, self.stall_seconds)
            if failure is not None:
                raise unpacked_failure(failure)
            self.counters.transform += spent
            self.counters.transform_wait += self.counters.clock() - begun
            return result, rows, consumed
        except BrokenProcessPool as error:
            raise _died(place(consumed)) from error
        except Exception as error:
            error.add_note(f"in the transform of {place(consumed)}")
            raise


def _may_have_workers() -> bool:
    """Tell whether this process may start others.

    Workers of a DataLoader are daemons, which may not.
    """
    from multiprocessing import current_process

    return not current_process().daemon


def _died(place: str) -> EngineError:
    error = worker_died("the transform")
    error.add_note(f"in the transform of {place}")
    return error


def _note_form(error: Exception, batch: Any) -> None:
    """Say what to do if the function may have been written for samples, not for columns."""
    kinds = TypeError | KeyError | IndexError | AttributeError
    if isinstance(batch, Batch) and isinstance(error, kinds):
        error.add_note(
            "hint: the function gets a dict of columns; "
            "if it takes a list of samples, set output='rows' on the Loader"
        )


def _timed(function: Callable[[Any], Any], batch: Any) -> _Timed:
    begun = time.perf_counter_ns()
    try:
        result, failure = function(batch), None
    except Exception as error:
        _note_form(error, batch)
        result, failure = None, packed_failure(error)
    return result, time.perf_counter_ns() - begun, failure
