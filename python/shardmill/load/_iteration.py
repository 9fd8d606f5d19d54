"""Passes over a loader: of one epoch, of a number of steps, and of the shares of worker processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from shardmill._stall import warn_of_stall
from shardmill.data._own_methods import own_method, refuse_own_batches
from shardmill.load import _ranks as ranks
from shardmill.load._audit import Audit
from shardmill.load._bad_rows import BadRow
from shardmill.load._batches import Delivery, close
from shardmill.load._checks import at_least, no_steps, warn_of_nothing, warn_of_restart
from shardmill.load._metrics import Mark
from shardmill.load._pass import Pass, Peek, Position, Steps
from shardmill.load._position import LoaderPosition
from shardmill.load._progress import LoaderProgress
from shardmill.load._reports import LoaderReports
from shardmill.load._trees import register

#: Bad rows and audit of a batch, by the position after that batch.
_Notes = dict[int, list[BadRow | Audit]]


class LoaderIteration(LoaderPosition, LoaderProgress, LoaderReports):
    """The part of a ``shardmill.Loader`` that delivers batches."""

    def __iter__(self) -> Iterator[Any]:
        return self._collated(None)

    def steps(self, n: int) -> Iterator[Any]:
        """Iterate over the next ``n`` batches, and continue into the following epochs. For a training loop with a fixed number of steps.

        The first batch is the one at the position of ``state_dict``: after the last batch that was returned. If the last pass over the
        loader was left after a single batch, it is that batch. Every batch that ``steps`` returns counts: after a loop that was
        left early, the next call continues at the next batch, and so does a pass over the loader.
        ``state_dict`` returns the position after the last batch at any time. The length of the
        iterator is the number of batches that are left.

        All ranks take the same steps. With ``tail="uneven"``, a rank may have no batch in the last
        step of an epoch.

        Args:
            n: number of batches.

        Raises:
            ValueError: If ``n`` is not an integer of at least 0, or an epoch has no batches.

        Examples:
            >>> import pyarrow as pa, pyarrow.parquet as pq
            >>> pq.write_table(pa.table({"x": list(range(10))}), "ten.parquet")
            >>> import shardmill as sm
            >>> loader = sm.Loader("ten.parquet", batch_size=4, output="numpy")
            >>> [batch["x"].tolist() for batch in loader.steps(4)]
            [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], [0, 1, 2, 3]]
            >>> [batch["x"].tolist() for batch in loader.steps(1)]
            [[4, 5, 6, 7]]
        """
        n = at_least("n", n, 0)
        if not own_method(self, ["steps"]):
            refuse_own_batches(self, "steps()")
        return self._collated(None, n)

    def _collated(self, collate: Callable[[Any], Any] | None, steps: int | None = None) -> Pass:
        """Begin a pass, of one epoch or of a number of steps. An exception of ``collate`` leaves the position before its batch."""
        ranks.refuse_copies(**self._origin)
        # The program may have imported JAX since the loader was created.
        register()
        before = self._mark()
        begun = self._asked or self._position
        position = begun.following(is_counted=steps is not None)
        with self._counters.planning():
            if steps is None:
                self._warn_of_nothing(position.epoch)
            elif steps:
                self._steps_left(position)
        if begun.peeked is None and position.consumed < begun.consumed and not self._has_warned_of_restart:
            self._has_warned_of_restart = True
            warn_of_restart(begun.epoch, begun.consumed, "rows" if self._packed is None else "packs")
        if begun.peeked is not None:
            begun.peeked.forget(self._ledger, self._audits)
        self._position, self._asked = position, None
        self._newest_pass += 1
        self._begin_epoch(position)
        delivered = partial(self._delivered, position, collate, number=self._newest_pass)
        if steps is None:
            return Pass(position, delivered(before=before), self._counters)
        return Steps(position, self._stepped(position, steps, delivered, before), self._counters, steps)

    def _begin_epoch(self, position: Position) -> None:
        if position.consumed == 0:
            self._ledger.restart()
            self._audits.pop(position.epoch, None)

    def _warn_of_nothing(self, epoch: int) -> None:
        plan = self._plan(epoch)
        if plan.num_places and not plan.steps_left(0, self._share()):
            what = "rows" if self._packed is None else "packs"
            warn_of_nothing(plan.num_places, self._batch_size * self._world_size, what)

    def _steps_left(self, position: Position) -> int:
        """Return the number of steps from a position to the end of its epoch.

        Raises:
            ValueError: If there are none. To continue into the next epochs might never end.
        """
        plan = self._plan(position.epoch)
        if left := plan.steps_left(position.consumed, self._share()):
            return left
        raise no_steps(position.epoch, plan.num_places)

    def _stepped(
        self, position: Position, steps: int, delivered: Callable[..., Iterator[Any]], before: Mark
    ) -> Iterator[Any]:
        """Deliver the next steps, epoch after epoch, with the same position."""
        number = self._newest_pass
        while steps:
            taken = min(steps, self._steps_left(position))
            stop = position.consumed + taken * self._batch_size * self._world_size
            yield from delivered(before=before, stop=stop)
            steps -= taken
            if steps == 0:
                return
            if number != self._newest_pass:
                raise position.superseded()
            # The end of the last epoch has stopped the clock of this wait.
            before = self._mark()
            self._counters.time.ask()
            if self._position is not position:
                # set_epoch() was called during the epoch.
                position.epoch, self._position = self._position.epoch, position
            self._begin_epoch(position)

    def _every(
        self, stride: int, *, first: int, epoch: int, consumed: int, threads: int | None = None
    ) -> Iterator[Any]:
        """Iterate over every ``stride``-th batch of an epoch: ``first``, ``first + stride``, …, counted after ``consumed``.

        For processes that share the batches of a rank. The position of the loader does not change.
        The limit of bad rows counts those of this share.
        """
        counters, start = self._counters, consumed + first * self._batch_size * self._world_size
        with counters.planning():
            rows_of_epoch = self._plan(epoch).num_places
        if start >= rows_of_epoch:
            return
        notes: _Notes = {}
        ledger = self._ledger.emptied()
        threads = self._threads if threads is None else threads
        batches = self._transformed(Position(epoch, start), notes, stride=stride, threads=threads)
        counters.time.ask()
        try:
            for batch, rows, place in self._cutter.staged(batches):
                ledger.add((note for note in notes.pop(place, []) if isinstance(note, BadRow)), rows_of_epoch)
                counters.rows += rows
                counters.batches += 1
                counters.time.got()
                yield batch
                counters.time.ask()
        finally:
            counters.time.leave()
            close(batches)

    def _transformed(self, start: Position, notes: _Notes, *, stride: int, threads: int) -> Iterator[Delivery]:
        batches = self._batches(start, stride, threads, notes)
        if self._transform is None:
            return batches
        return self._transform.over(batches, partial(self._described, start.epoch, start.consumed))

    def _batches(self, start: Position, stride: int, threads: int, notes: _Notes) -> Iterator[Delivery]:
        begun = self._counters.clock()
        native = self._plan(start.epoch).start(
            self._converter,
            self._share(),
            epoch=start.epoch,
            consumed=start.consumed,
            threads=threads,
            prefetch_bytes=self._prefetch_bytes,
            stride=stride,
            on_bad_rows=self._ledger.policy,
            is_audited=self._is_audited,
            memory=self._cutter.memory,
        )
        process = os.getpid()
        self._counters.plan += self._counters.clock() - begun
        self._counters.begin(native)
        try:
            while (superbatch := native.next_superbatch(self._stall_seconds, warn_of_stall)) is not None:
                content, rows, consumed, bad_rows, audits = superbatch
                for batch, path, row, cause in bad_rows:
                    notes.setdefault(consumed[batch], []).append(BadRow(path, row, cause))
                for place, sums in zip(consumed, audits, strict=False):
                    notes.setdefault(place, []).append(Audit(*sums))
                yield from zip(self._cutter.cut(content, rows), rows, consumed, strict=True)
        finally:
            # A forked child does not have the threads.
            if process == os.getpid():
                native.stop()
                self._counters.end(native)

    def _delivered(
        self,
        position: Position,
        collate: Callable[[Any], Any] | None,
        *,
        number: int,
        before: Mark,
        stop: int | None = None,
    ) -> Iterator[Any]:
        """Deliver the rest of an epoch, or the steps up to ``stop``, all of whose batches count."""
        epoch, counters, is_first = position.epoch, self._counters, not self._counters.time.has_started
        if not is_first:
            counters.judged_from = before
        notes: _Notes = {}
        batches = self._transformed(replace(position), notes, stride=1, threads=self._threads)
        try:
            if number != self._newest_pass:
                raise position.superseded()
            end = self._plan(epoch).end(position.consumed, self._share())
            peek = None if stop is not None else Peek.at(position, self._ledger, self._audits)
            for batch, rows, consumed in self._cutter.staged(batches):
                if collate is not None:
                    batch = collate(batch)
                if number != self._newest_pass:
                    # Another thread or the function of the user began a newer pass, or moved the loader, during this call.
                    raise position.superseded()
                if consumed in notes:
                    self._note(notes.pop(consumed), epoch)
                if self._position is not position:
                    # set_epoch() was called during this pass.
                    self._asked, self._position = self._position, position
                position.peeked, peek = peek, None
                if consumed < end:
                    position.consumed, position.is_loaded = consumed, position.is_loaded or stop is not None
                else:
                    self._end_epoch(position)
                counters.rows += rows
                counters.batches += 1
                if is_first:
                    is_first, counters.judged_from = False, self._mark()
                yield batch
                if position.consumed == stop:
                    return
                # A pass whose last batch was already counted has nothing left to miscount.
                if number != self._newest_pass and position.epoch == epoch:
                    raise position.superseded()
            position.peeked = None
            # A rank may have no rows in the last step.
            if position.epoch == epoch:
                self._end_epoch(position)
            self._log_epoch(epoch)
        finally:
            if counters.time.owner is position:
                counters.time.leave()
            close(batches)

    def _end_epoch(self, position: Position) -> None:
        position.end_epoch()
        if self._asked is not None:
            self._position, self._asked = self._asked, None

    def _note(self, notes: list[BadRow | Audit], epoch: int) -> None:
        """Record bad rows and audit of a batch when it is returned."""
        # The limit of bad rows may end the pass before this batch.
        self._ledger.add((note for note in notes if isinstance(note, BadRow)), self._plan(epoch).num_places)
        for note in notes:
            if isinstance(note, Audit):
                self._audits[epoch] = self._audits.get(epoch, Audit()) + note
