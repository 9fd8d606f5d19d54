"""How the time of a loader is divided: startup, waits for batches, and work of the trainer."""

from __future__ import annotations

from collections.abc import Callable

from shardmill.metrics._waits import Histogram

#: What a moment counts as. The first three are indices of the totals.
_STARTUP, _WAIT, _TRAINER, _BETWEEN = range(4)


class TrainerTime:
    """The time since the first pass of a loader, in nanoseconds of ``clock``.

    Time between two passes is work of the trainer, but it is counted only when the next pass
    begins: a loader that is no longer used has no trainer. Invariant: the totals add up to the time
    that has passed, whenever they are read.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self.waits = Histogram()
        #: Whether a batch was delivered. What comes before it is startup.
        self.has_started = False
        #: The pass that is counted; closing an older one ends nothing.
        self.owner: object = None
        #: The part of the trainer's time that was between passes.
        self.between = 0
        self._planned = 0
        # One tuple, because another thread may read it at any time: the current part, since when,
        # and the totals of the parts.
        self._state = (_BETWEEN, clock(), 0, 0, 0)
        self._reported = (0, 0, 0)

    def ask(self) -> None:
        """The trainer asks for a batch. Called for every batch, as is ``got``."""
        self._move(_WAIT if self.has_started else _STARTUP)

    def got(self) -> None:
        """The trainer gets the batch that it asked for."""
        waited = self._move(_TRAINER) + self._planned
        if self.has_started:
            self.waits.add(waited)
        self.has_started, self._planned = True, 0

    def planned(self) -> int:
        """The pass that the trainer asked for is planned. Return how long that took.

        The time belongs to the wait for the first batch.
        """
        self._planned = self._move(_BETWEEN)
        return self._planned

    def leave(self) -> None:
        """The pass has ended, or was left."""
        if self._state[0] != _BETWEEN:
            self._move(_BETWEEN)

    def totals(self) -> tuple[int, int, int]:
        """Return startup, waits and the trainer's time up to now. None of them ever decreases."""
        part, since, *totals = self._state
        if part != _BETWEEN:
            totals[part] += max(0, self._clock() - since)
        # The part may have ended between the two reads.
        startup, wait, trainer = map(max, totals, self._reported)
        self._reported = startup, wait, trainer
        return self._reported

    def _move(self, part: int) -> int:
        now = self._clock()
        before, since, startup, wait, trainer = self._state
        spent = now - since
        if before == _TRAINER:
            trainer += spent
        elif before == _WAIT:
            wait += spent
        elif before == _STARTUP:
            startup += spent
        elif self.has_started:
            trainer += spent
            self.between += spent
        self._state = (part, now, startup, wait, trainer)
        return spent
