"""The user's Python on each batch, here or in other processes, always in order."""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any

from shardmill.batches import Delivery, close
from shardmill.stall import result_of


class Transform:
    """Calls ``function`` with each batch.

    Args:
        function: gets a batch, returns what is delivered in its place. With workers it must pickle, and so must batches and results.
        workers: processes; 0 calls it in the process of the loader.
        stall_seconds: a result that takes longer is warned of.
    """

    def __init__(self, function: Callable[[Any], Any], workers: int, stall_seconds: float = float("inf")) -> None:
        self._function, self._workers, self._stall_seconds = function, workers, stall_seconds

    def over(self, batches: Iterator[Delivery]) -> Iterator[Delivery]:
        """The batches, transformed, in their order. An exception comes at the place of its batch."""
        return self._here(batches) if self._workers == 0 else self._elsewhere(batches)

    def _here(self, batches: Iterator[Delivery]) -> Iterator[Delivery]:
        try:
            for batch, rows, consumed in batches:
                yield self._function(batch), rows, consumed
        finally:
            close(batches)

    def _elsewhere(self, batches: Iterator[Delivery]) -> Iterator[Delivery]:
        # Threads run in this process already: a forked child could inherit a lock that nobody will release.
        context = multiprocessing.get_context(
            "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        )
        pool = ProcessPoolExecutor(self._workers, mp_context=context)
        waiting: deque[tuple[Future[Any], int, int]] = deque()
        failure: Exception | None = None
        try:
            while True:
                try:
                    batch, rows, consumed = next(batches)
                except StopIteration:
                    break
                except Exception as error:
                    # Its place is behind the batches that are under way.
                    failure = error
                    break
                waiting.append((pool.submit(self._function, batch), rows, consumed))
                if len(waiting) > 2 * self._workers:
                    yield self._ready(waiting.popleft())
            while waiting:
                yield self._ready(waiting.popleft())
            if failure is not None:
                raise failure
        finally:
            close(batches)
            pool.shutdown(wait=True, cancel_futures=True)

    def _ready(self, waiting: tuple[Future[Any], int, int]) -> Delivery:
        future, rows, consumed = waiting
        return result_of(future, self._stall_seconds), rows, consumed
