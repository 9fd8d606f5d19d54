"""One iteration over a loader, and the position that it advances."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Self
from weakref import WeakSet

from shardmill.errors import SupersededError
from shardmill.load._audit import Audit
from shardmill.load._bad_rows import Ledger
from shardmill.load._batches import close
from shardmill.load._metrics import Counters

#: Name of each ``next()`` in a trace of the torch profiler.
MARK = "shardmill.Loader.next"


@dataclass(frozen=True)
class Peek:
    """What the first batch of a pass changes. If the pass is left after it, the next pass delivers this batch again."""

    epoch: int
    consumed: int
    is_loaded: bool
    bad_rows: tuple[int, int]
    audit: Audit | None

    @classmethod
    def at(cls, position: Position, ledger: Ledger, audits: Mapping[int, Audit]) -> Self:
        """Note the position before the batch, and what was recorded until then."""
        audit = audits.get(position.epoch)
        return cls(position.epoch, position.consumed, position.is_loaded, ledger.mark(), audit)

    def forget(self, ledger: Ledger, audits: dict[int, Audit]) -> None:
        """Remove what was recorded of the batch."""
        ledger.rewind(self.bad_rows)
        audits.pop(self.epoch, None)
        if self.audit is not None:
            audits[self.epoch] = self.audit


@dataclass
class Position:
    """The position of a loader."""

    epoch: int = 0
    consumed: int = 0
    #: For an epoch into which a state was loaded, or of which ``steps`` took batches: each pass continues at ``consumed``. In other epochs a
    #: pass starts at the first batch.
    is_loaded: bool = False
    #: Whether a newer pass has begun before this one was finished.
    is_superseded: bool = False
    #: Where the pass began, while it has delivered a single batch.
    peeked: Peek | None = None

    def following(self, *, is_counted: bool = False) -> Position:
        """Return the position of a pass that begins now. With ``is_counted``, the pass never starts the epoch again."""
        if self.peeked is not None:
            return Position(self.peeked.epoch, self.peeked.consumed, self.peeked.is_loaded)
        return Position(self.epoch, self.consumed if self.is_loaded or is_counted else 0, self.is_loaded)

    def of_epoch(self, epoch: int) -> Position:
        """Return the position in an epoch: this one if it is already there, otherwise the start."""
        peeked = self.peeked
        if peeked is not None and peeked.epoch != self.epoch:
            # The last batch of an epoch was peeked at.
            here = replace(self, epoch=epoch, consumed=peeked.consumed, is_loaded=peeked.is_loaded)
            return here if epoch == peeked.epoch else Position(epoch)
        return self if epoch == self.epoch else Position(epoch)

    def end_epoch(self) -> None:
        """Move to the start of the next epoch."""
        self.epoch, self.consumed, self.is_loaded = self.epoch + 1, 0, False
        if self.peeked is not None and self.peeked.consumed == 0:
            # The pass has delivered the whole epoch, which is a single batch.
            self.peeked = None

    def superseded(self) -> SupersededError:
        """Return the error of the pass of this position, which a newer pass has superseded."""
        self.is_superseded = True
        return SupersededError(
            "this iterator was superseded by a newer iterator of the same loader, or by skip() or load_state_dict()"
            "\nhint: use one iterator at a time; for two concurrent passes, use two loaders"
        )


def _profiler() -> Callable[[], bool] | None:
    """Return a function that tells whether a torch profiler is running, if torch is imported."""
    autograd = getattr(sys.modules.get("torch"), "autograd", None)
    return getattr(autograd, "_profiler_enabled", None)


class Pass(Iterator[Any]):
    """The batches of one ``iter(loader)``.

    The position of a loader counts the batches of one pass. Invariant: a superseded pass delivers nothing.
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
            batch = next(self._batches) if self._is_profiled is None or not self._is_profiled() else self._marked()
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

    def __init__(self, position: Position, batches: Iterator[Any], counters: Counters, steps: int) -> None:
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
