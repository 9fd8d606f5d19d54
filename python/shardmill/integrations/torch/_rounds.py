"""Calls that all ranks of a replica make together.

The rank that reads does the work, and the other ranks receive the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from shardmill._sent_errors import packed_error, unpacked_error
from shardmill.errors import EngineError, OptionError, SupersededError
from shardmill.integrations.torch._broadcast import BATCH, END, ERROR, NO_BATCH, Channel, Form
from shardmill.integrations.torch._replica import Replica
from shardmill.load._batches import Delivery
from shardmill.load._loader import Loader
from shardmill.load._metrics import Counters, LoaderMetrics


class _Note(NamedTuple):
    """What the reading rank reports about a call."""

    #: Entries of the state that have changed, but the place in the epoch.
    changes: dict[str, Any]
    #: Number of batches of an epoch, if it may have changed.
    length: int | None = None
    #: Rows of the batch.
    rows: int = 0
    #: What `Channel.receive` needs for the batches that are sent now.
    forms: tuple[bytes | None, ...] = ()
    error: bytes | None = None


class Ahead:
    """A stage that reads one batch ahead of the trainer, so that it can be sent."""

    def __init__(self) -> None:
        #: The batch after the one that the loader delivers; `None` if there is none.
        self.batch: Any = None
        #: Rows of the batch that the loader delivers.
        self.rows = 0
        #: Whether the trainer will ask for another batch.
        self.is_wanted = True

    def over(self, batches: Iterator[Delivery]) -> Iterator[Delivery]:
        """Yield the batches. If reading ahead fails, raise the error in place of that batch."""
        failure: Exception | None = None
        current = next(batches, None)
        while current is not None:
            following = None
            if self.is_wanted:
                try:
                    following = next(batches, None)
                except Exception as error:
                    failure = error
            self.batch, self.rows = None if following is None else following[0], current[1]
            yield current
            current = following
        if failure is not None:
            raise failure


class Rounds:
    """The rounds of one replica: in each, its ranks make the same call.

    Args:
        replica: the ranks.
        timeout_s: longest time that a rank waits for the others.

    Attributes:
        state: the state after the last batch that this rank returned.
        length: number of batches of an epoch.
        loader: the loader, on the rank that reads.
        ahead: a stage of the passes of the loader.
    """

    def __init__(self, replica: Replica, timeout_s: float) -> None:
        self._replica, self._channel = replica, Channel(replica, timeout_s)
        self.loader: Loader | None = None
        self.ahead = Ahead()
        self.state: dict[str, Any] = {}
        self.length = 0
        #: Those of a rank that does not read.
        self._counters = Counters()
        self._newest = 0
        #: The batch that is on its way, and the broadcasts for which to wait.
        self._arriving: tuple[Any, list[Any]] | None = None

    def move(self, operation: str, argument: Any, act: Callable[[], object]) -> None:
        """Move the loader on the rank that reads, and notify the other ranks.

        Args:
            operation: name of the method, for messages.
            argument: its argument, which must be the same on all ranks.
            act: creates or moves the loader.
        """
        self._channel.record(operation, argument)
        note, failure = _Note({}), None
        if self._channel.is_reader:
            try:
                act()
                note = _Note(self._changes(), len(self._own))
            except Exception as error:
                note, failure = _Note({}, error=_packed(error)), error
        self._hear(operation, ERROR if failure else NO_BATCH, note, failure)

    def begin(self, steps: int | None) -> Iterator[Any]:
        """Return an iterator over an epoch or some steps, which begins with its first batch."""
        self._newest += 1
        return _Pass(self, self._newest, steps)

    def next_of(self, batches: _Pass) -> Any:
        """Return the next batch of an iterator."""
        if batches.number != self._newest:
            raise SupersededError(
                "this iterator was superseded by a newer iterator of the same MeshLoader\n"
                "hint: use one iterator at a time"
            )
        if not batches.has_begun:
            self.drop()
            self._channel.record("iter", batches.steps)
            self._channel.begin_pass()
        time = self._counters.time
        time.ask()
        try:
            batch = self._next_of(batches)
        except BaseException:
            batches.is_over = True
            time.leave()
            raise
        finally:
            batches.has_begun = True
        time.got()
        batches.returned += 1
        return batch

    def _next_of(self, batches: _Pass) -> Any:
        outcome, note, failure, forms = BATCH, _Note({}), None, list[Form]()
        if self._channel.is_reader:
            try:
                note, forms = self._read(batches)
            except StopIteration:
                outcome, note = END, _Note(self._changes())
            except Exception as error:
                outcome, note, failure = ERROR, _Note({}, error=_packed(error)), error
        outcome, note = self._hear("next", outcome, note, failure)
        if outcome == END:
            raise StopIteration
        self._counters.rows += note.rows
        self._counters.batches += 1
        channel = self._channel
        sent = map(channel.send, forms) if channel.is_reader else map(channel.receive, note.forms)
        arriving = [self._arriving, *sent] if self._arriving else list(sent)
        self._arriving = arriving[1] if len(arriving) > 1 else None
        batch, works = arriving[0]
        channel.wait(works)
        return batch

    def _read(self, batches: _Pass) -> tuple[_Note, list[Form]]:
        """Take the next batch from the loader."""
        loader, length, ahead = self._own, None, self.ahead
        if batches.inner is None:
            steps = batches.steps
            batches.inner = iter(loader) if steps is None else loader.steps(steps)
            length = len(loader)
        ahead.is_wanted = batches.steps is None or batches.returned + 1 < batches.steps
        batch = next(batches.inner)
        kept = self._replica.columns
        forms = [] if self._arriving else [Form(batch, kept)]
        if ahead.batch is not None:
            # What cannot be sent is an error in its own place.
            with suppress(OptionError):
                forms.append(Form(ahead.batch, kept))
        note = _Note(self._changes(), length, ahead.rows)
        return note._replace(forms=tuple(map(self._channel.packed, forms))), forms

    @property
    def _own(self) -> Loader:
        assert self.loader is not None
        return self.loader

    def _changes(self) -> dict[str, Any]:
        state, before = self._own.state_dict(), self.state
        return {
            name: value
            for name, value in state.items()
            if name not in before or before[name] != value
        }

    def _hear(
        self, operation: str, outcome: int, note: _Note, failure: Exception | None
    ) -> tuple[int, _Note]:
        """Exchange the call with the other ranks, and return its outcome.

        Raises:
            Exception: The error of the rank that reads.
        """
        place = note.changes.pop("consumed", self.state.get("consumed", 0))
        outcome, place, content = self._channel.exchange(operation, outcome, place, tuple(note))
        note = _Note(*content)
        if note.error is not None:
            if failure is None:
                failure, _ = unpacked_error(note.error)
                failure.add_note(f"raised on rank {self._replica.members[0]}, which reads")
            raise failure
        self.state.update(note.changes, consumed=place)
        self.length = self.length if note.length is None else note.length
        return outcome, note

    def drop(self) -> None:
        """Wait for the batch that is being sent, and discard it."""
        if self._arriving is not None:
            _, works = self._arriving
            self._arriving = None
            self._channel.wait(works)

    def metrics(self, *, since_last: bool) -> LoaderMetrics:
        """Return the counters of a rank that does not read."""
        counters, epoch = self._counters, self.state["epoch"]
        now = counters.report(rank=self._replica.rank, world_size=self._replica.size, epoch=epoch)
        if not since_last:
            return now
        before, counters.last_metrics = counters.last_metrics, now
        return now if before is None else now - before

    def close(self) -> None:
        """Leave the process groups."""
        with suppress(EngineError):
            self.drop()
        self._channel.close()


class _Pass(Iterator[Any]):
    """The batches of one pass, on one rank."""

    def __init__(self, rounds: Rounds, number: int, steps: int | None) -> None:
        self._rounds, self.number, self.steps = rounds, number, steps
        self.has_begun = self.is_over = False
        self.returned = 0
        #: On the rank that reads, the pass over the loader.
        self.inner: Iterator[Any] | None = None

    def __next__(self) -> Any:
        if self.is_over:
            raise StopIteration
        return self._rounds.next_of(self)


def _packed(error: Exception) -> bytes:
    generic = EngineError(f"{type(error).__name__}: {error}")
    return packed_error(error, generic, traced=None)
