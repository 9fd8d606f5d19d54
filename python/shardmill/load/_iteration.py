"""Passes over a loader: of one epoch, a number of steps, and the shares of worker processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from shardmill._stall import checked_stall_seconds, warn_of_stall
from shardmill.errors import OptionError
from shardmill.load import _ranks as ranks
from shardmill.load._audit import Audit
from shardmill.load._bad_rows import BadRow
from shardmill.load._batches import Delivery, close
from shardmill.load._checks import MOST_LANES
from shardmill.load._conversion import Conversion
from shardmill.load._cost import TERMS
from shardmill.load._metrics import CostTerms, Counters, Mark
from shardmill.load._pass import Pass, Steps
from shardmill.load._position import Cursor, Peek, Position
from shardmill.load._progress import Progress
from shardmill.load._transforming import Transforming
from shardmill.load._trees import register

#: Bad rows, audit and terms of the cost of a batch, by the position after that batch.
_Notes = dict[int, list[BadRow | Audit | CostTerms]]


@dataclass(eq=False)
class Iteration:
    """What begins the passes of a loader, and delivers their batches.

    Attributes:
        cursor: what the passes move.
        conversion: what the batches are.
        progress: what the passes count, with threads and memory.
        has_share: whether rank and world size were given; see ``_ranks.refuse_copies``.
        made_in: the process that made the loader.
        stage: a stage through which batches pass before they count.
    """

    cursor: Cursor
    conversion: Conversion
    progress: Progress
    has_share: bool
    made_in: int = field(default_factory=os.getpid)
    stage: Callable[[Iterator[Delivery]], Iterator[Delivery]] = iter

    def for_stream(self) -> Iteration:
        """Return what begins passes over the pieces of an Arrow stream.

        These passes have a position and counters of their own.

        Raises:
            ValueError: If there is a transform.
        """
        if self.progress.transform is not None:
            raise OptionError(
                "a transform returns batches of any kind, so they are not an Arrow stream"
                "\nhint: read the stream of a Loader without transform"
            )
        here = self.cursor
        cursor = Cursor(here.plan, here.ledger.emptied(), here.begun.following())
        progress = replace(self.progress, cursor=cursor, counters=Counters())
        return replace(
            self,
            cursor=cursor,
            conversion=self.conversion.for_stream(),
            progress=progress,
            stage=iter,
        )

    def of_rank(
        self, rank: int, world_size: int, stage: Callable[[Iterator[Delivery]], Iterator[Delivery]]
    ) -> Iteration:
        """Return the iteration of another rank, at the start of its first epoch.

        Args:
            rank: the rank.
            world_size: number of ranks that share the rows.
            stage: a stage through which batches pass before they count.

        Raises:
            ValueError: If the loader has begun, or was created for another rank.
        """
        here, plan = self.cursor, self.cursor.plan
        if self.has_share and (plan.rank, plan.world_size) != (rank, world_size):
            raise OptionError(
                f"the loader has rank={plan.rank} and world_size={plan.world_size}, but this "
                f"process is data rank {rank} of {world_size}\n"
                "hint: create the Loader without rank and world_size"
            )
        if not here.is_new:
            raise OptionError(
                "the loader has begun, and its position would be lost\n"
                "hint: pass a new Loader, and load the state afterwards"
            )
        lanes = plan.asked_lanes or min(world_size, MOST_LANES)
        plan = replace(plan, rank=rank, world_size=world_size, lanes=lanes)
        cursor = Cursor(plan, here.ledger.emptied(is_audited=here.ledger.is_audited))
        return replace(
            self,
            cursor=cursor,
            conversion=self.conversion.of_plan(plan),
            progress=replace(self.progress, cursor=cursor, counters=Counters()),
            stage=stage,
        )

    def begin(self, collate: Callable[[Any], Any] | None = None, steps: int | None = None) -> Pass:
        """Begin a pass, of one epoch or of a number of steps.

        An exception of ``collate`` leaves the position before its batch.
        """
        ranks.refuse_copies(made_in=self.made_in, has_share=self.has_share)
        # The program may have imported JAX since the loader was created.
        register()
        cursor, counters, before = self.cursor, self.progress.counters, self.progress.mark()
        position = cursor.begun.following(is_counted=steps is not None)
        with counters.planning():
            if steps is None:
                cursor.plan.warn_of_nothing(position.epoch)
            elif steps:
                self._steps_left(position)
        cursor.begin(position)
        delivered = partial(self._delivered, position, collate)
        if steps is None:
            return Pass(position, delivered(before=before), counters)
        return Steps(position, self._stepped(position, steps, delivered, before), counters, steps)

    def _steps_left(self, position: Position) -> int:
        """Return the number of steps from a position to the end of its epoch.

        Raises:
            ValueError: If there are none. To continue into the next epochs might never end.
        """
        if left := self.cursor.plan.steps_left(position.epoch, position.consumed):
            return left
        raise self.cursor.plan.no_steps(position.epoch)

    def _stepped(
        self, position: Position, steps: int, delivered: Callable[..., Iterator[Any]], before: Mark
    ) -> Iterator[Any]:
        """Deliver the next steps, epoch after epoch, with the same position."""
        while steps:
            taken = min(steps, self._steps_left(position))
            yield from delivered(
                before=before, stop=position.consumed + taken * self.cursor.plan.step_rows
            )
            steps -= taken
            if steps == 0:
                return
            self.cursor.check(position)
            # The end of the last epoch has stopped the clock of this wait.
            before = self.progress.mark()
            self.progress.counters.time.ask()
            self.cursor.next_epoch(position)

    def every(
        self, stride: int, *, first: int, epoch: int, consumed: int, threads: int | None = None
    ) -> Iterator[Any]:
        """Iterate over every ``stride``-th batch of an epoch.

        These are ``first``, ``first + stride``, …, counted after ``consumed``.

        For processes that share the batches of a rank. The position of the loader does not change.
        The limit of bad rows counts those of this share.
        """
        counters, plan = self.progress.counters, self.cursor.plan
        start = consumed + first * plan.step_rows
        with counters.planning():
            rows_of_epoch = plan.of_epoch(epoch).num_places
        if start >= rows_of_epoch:
            return
        notes: _Notes = {}
        ledger = self.cursor.ledger.emptied()
        batches = self._transformed(Position(epoch, start), notes, stride=stride, threads=threads)
        counters.time.ask()
        try:
            for batch, rows, place in self.conversion.cutter.staged(batches):
                received = notes.pop(place, [])
                ledger.add(received, epoch, rows_of_epoch)
                counters.received(rows, received)
                counters.time.got()
                yield batch
                counters.time.ask()
        finally:
            counters.time.leave()
            close(batches)

    def _transformed(
        self, start: Position, notes: _Notes, *, stride: int = 1, threads: int | None = None
    ) -> Iterator[Delivery]:
        batches = self._decoded(
            start, notes, stride, self.progress.threads if threads is None else threads
        )
        if self.progress.transform is None:
            return batches
        transforming = Transforming(
            self.progress.transform, self._stall_seconds, self.progress.counters
        )
        return transforming.over(
            batches, partial(self.cursor.plan.described, start.epoch, start.consumed)
        )

    @property
    def _stall_seconds(self) -> float:
        return checked_stall_seconds(self.progress.runtime.stall_seconds)

    def _decoded(
        self, start: Position, notes: _Notes, stride: int, threads: int
    ) -> Iterator[Delivery]:
        counters, plan, cutter = self.progress.counters, self.cursor.plan, self.conversion.cutter
        begun = counters.clock()
        native = plan.of_epoch(start.epoch).start(
            self.conversion.converter,
            plan.share(),
            epoch=start.epoch,
            consumed=start.consumed,
            threads=threads,
            prefetch_bytes=int(self.progress.runtime.prefetch_bytes),
            stride=stride,
            on_bad_rows=self.cursor.ledger.policy,
            is_audited=self.cursor.ledger.is_audited,
            memory=cutter.memory,
        )
        process = os.getpid()
        counters.plan += counters.clock() - begun
        counters.begin(native)
        try:
            while (
                superbatch := native.next_superbatch(self._stall_seconds, warn_of_stall)
            ) is not None:
                content, rows, consumed, bad_rows, audits, terms = superbatch
                for batch, path, row, cause in bad_rows:
                    notes.setdefault(consumed[batch], []).append(BadRow(path, row, cause))
                for place, sums in zip(consumed, audits, strict=False):
                    notes.setdefault(place, []).append(Audit(*sums))
                for place, sums in zip(consumed, terms, strict=False):
                    note = CostTerms(**dict(zip(TERMS, sums, strict=True)))
                    notes.setdefault(place, []).append(note)
                yield from zip(cutter.cut(content, rows), rows, consumed, strict=True)
        finally:
            # A forked child does not have the threads.
            if process == os.getpid():
                native.stop()
                counters.end(native)

    def _planned(self, position: Position, notes: _Notes) -> Iterator[Delivery]:
        """Yield the rest of an epoch. If its plan changes, drop what was prefetched."""
        cursor, epoch = self.cursor, position.epoch
        while True:
            plan = cursor.plan
            batches = self._transformed(replace(position), notes)
            try:
                for delivery in self.stage(self.conversion.cutter.staged(batches)):
                    yield delivery
                    # Other plans change from the next epoch on.
                    is_here = cursor.position is position and position.epoch == epoch
                    if plan.is_endless and plan is not cursor.plan and is_here:
                        break
                else:
                    return
            finally:
                close(batches)
            notes.clear()

    def _delivered(
        self,
        position: Position,
        collate: Callable[[Any], Any] | None,
        *,
        before: Mark,
        stop: int | None = None,
    ) -> Iterator[Any]:
        """Deliver the rest of an epoch, or the steps up to ``stop``, all of whose batches count."""
        cursor, counters, epoch = self.cursor, self.progress.counters, position.epoch
        is_first = not counters.time.has_started
        if not is_first:
            counters.judged_from = before
        notes: _Notes = {}
        batches = self._planned(position, notes)
        try:
            cursor.check(position)
            plan = cursor.plan.of_epoch(epoch)
            end = plan.end(position.consumed, cursor.plan.share())
            peek = None if stop is not None else Peek(replace(position), cursor.ledger.mark(epoch))
            for batch, rows, consumed in batches:
                if collate is not None:
                    batch = collate(batch)
                # Another thread or the function of the user may have moved the loader meanwhile.
                cursor.check(position)
                if received := notes.pop(consumed, []):
                    # The limit of bad rows may end the pass before this batch.
                    cursor.ledger.add(received, epoch, plan.num_places)
                cursor.advance(position, consumed, peek, end=end, is_counted=stop is not None)
                peek = None
                counters.received(rows, received)
                if is_first:
                    is_first, counters.judged_from = False, self.progress.mark()
                yield batch
                if position.consumed == stop:
                    return
                # A pass whose last batch was already counted has nothing left to miscount.
                if position.epoch == epoch:
                    cursor.check(position)
            position.peeked = None
            # A rank may have no rows in the last step.
            if position.epoch == epoch:
                cursor.end_epoch(position)
            self.progress.log_epoch(epoch)
        finally:
            if counters.time.owner is position:
                counters.time.leave()
            close(batches)
