"""One iteration over a loader."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from weakref import WeakSet

from shardmill.load._batches import close
from shardmill.load._metrics import Counters
from shardmill.load._position import Position

#: Name of each ``next()`` in a trace of the torch profiler.
MARK = "shardmill.Loader.next"


def _profiler() -> Callable[[], bool] | None:
    """Return a function that tells whether a torch profiler is running, if torch is imported."""
    autograd = getattr(sys.modules.get("torch"), "autograd", None)
    return getattr(autograd, "_profiler_enabled", None)


class Pass(Iterator[Any]):
    """The batches of one ``iter(loader)``.

    The position of a loader counts the batches of one pass. Invariant: a superseded pass delivers
    nothing.
    """

    def __init__(self, position: Position, batches: Iterator[Any], counters: Counters) -> None:
        self._position, self._batches, self._counters = position, batches, counters
        self._is_profiled = _profiler()
        counters.time.owner = position
        _unfinished.add(self)

    def __next__(self) -> Any:
        time = self._counters.time
        time.ask()
        try:
            batch = (
                next(self._batches)
                if self._is_profiled is None or not self._is_profiled()
                else self._marked()
            )
        except BaseException as error:
            time.leave()
            # A generator that has raised ends silently when it is continued.
            if isinstance(error, StopIteration) and self._position.is_superseded:
                raise self._position.superseded() from None
            raise
        time.got()
        return batch

    def _marked(self) -> Any:
        with sys.modules["torch"].profiler.record_function(MARK):
            return next(self._batches)

    def close(self) -> None:
        """End the pass."""
        close(self._batches)


class Steps(Pass):
    """The batches of one ``loader.steps(n)``. The length is the number of batches that are left."""

    def __init__(
        self, position: Position, batches: Iterator[Any], counters: Counters, steps: int
    ) -> None:
        super().__init__(position, batches, counters)
        self._left = steps

    def __next__(self) -> Any:
        batch = super().__next__()
        self._left -= 1
        return batch

    def __len__(self) -> int:
        return self._left


_unfinished: WeakSet[Pass] = WeakSet()


@atexit.register
def _close_unfinished() -> None:
    # Later in the exit of the interpreter the names that closing needs are gone.
    for batches in list(_unfinished):
        # A daemon thread may be waiting for its next batch.
        with suppress(ValueError):
            batches.close()
