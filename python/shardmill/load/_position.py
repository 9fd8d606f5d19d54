"""The position of a loader: where its next pass starts, and what its rank received before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from shardmill._warnings import warn_caller
from shardmill.errors import OptionError, SupersededError
from shardmill.load._audit import Audit
from shardmill.load._checks import at_least
from shardmill.load._ledger import Ledger, Mark
from shardmill.load._plan import LoaderPlan
from shardmill.load._state import parsed


class Peek(NamedTuple):
    """What the first batch of a pass changes.

    If the pass is left after it, the next pass delivers this batch again.
    """

    #: Where the pass began, and what was recorded until then.
    begun: Position
    mark: Mark


@dataclass
class Position:
    """A position in the rows of all epochs."""

    epoch: int = 0
    consumed: int = 0
    #: For an epoch into which a state was loaded, or of which ``steps`` took batches: each pass
    #: continues at ``consumed``. In other epochs a pass starts at the first batch.
    is_loaded: bool = False
    #: Whether a newer pass has begun before this one was finished.
    is_superseded: bool = False
    #: Set while the pass has delivered a single batch.
    peeked: Peek | None = None

    def following(self, *, is_counted: bool = False) -> Position:
        """Return the position of a pass that begins now.

        With ``is_counted``, the pass never starts the epoch again.
        """
        if self.peeked is not None:
            return replace(self.peeked.begun)
        return Position(
            self.epoch, self.consumed if self.is_loaded or is_counted else 0, self.is_loaded
        )

    def of_epoch(self, epoch: int) -> Position:
        """Return the position in an epoch: this one if it is already there, otherwise the start."""
        peeked = self.peeked
        if peeked is not None and peeked.begun.epoch != self.epoch:
            # The last batch of an epoch was peeked at.
            return (
                replace(peeked.begun, peeked=peeked)
                if epoch == peeked.begun.epoch
                else Position(epoch)
            )
        return self if epoch == self.epoch else Position(epoch)

    def end_epoch(self) -> None:
        """Move to the start of the next epoch."""
        self.epoch, self.consumed, self.is_loaded = self.epoch + 1, 0, False
        if self.peeked is not None and self.peeked.begun.consumed == 0:
            # The pass has delivered the whole epoch, which is a single batch.
            self.peeked = None

    def superseded(self) -> SupersededError:
        """Return the error of the pass of this position, which a newer pass has superseded."""
        self.is_superseded = True
        return SupersededError(
            "this iterator was superseded by a newer iterator of the same loader, "
            "or by skip() or load_state_dict()\n"
            "hint: use one iterator at a time; for two concurrent passes, use two loaders"
        )


@dataclass(eq=False)
class Cursor:
    """The place of a loader in its epochs. Invariant: one pass at most, the newest, moves it.

    Attributes:
        plan: the plan of the loader.
        ledger: what was received.
        position: the position after the last returned batch.
    """

    plan: LoaderPlan
    ledger: Ledger
    position: Position = field(default_factory=Position)
    #: Start of the next pass, if an older pass continues after ``set_epoch``.
    _asked: Position | None = None
    _newest: Position | None = None
    _has_warned_of_restart: bool = False
    #: Whether other processes have begun passes.
    is_elsewhere: Callable[[], bool] = bool

    def check_here(self) -> None:
        """Check that batches are made in this process.

        Raises:
            ValueError: If worker processes make batches, because they do not know new weights.
        """
        if self.is_elsewhere():
            raise OptionError(
                "set_weights does not reach worker processes, which make the batches\n"
                "hint: use num_workers=0, where threads make the batches"
            )

    @property
    def start(self) -> tuple[int, int]:
        """The start of the next pass: its epoch, and the number of rows of the epoch before it."""
        begun = self.position.following()
        return begun.epoch, begun.consumed

    def state(self, epoch: int, consumed: int) -> dict[str, Any]:
        """Return the state at a position, which may be another than that of the next pass."""
        return self.plan.state(epoch, consumed) | self.ledger.state()

    def expected_audit(self, start: int, end: int | None, epoch: int | None) -> Audit:
        """Return the audit of all ranks between two positions; see ``Loader.expected_audit``."""
        last = max(self.ledger.audits, default=self.position.epoch)
        epoch = last if epoch is None else at_least("epoch", epoch, 0)
        plan, share = self.plan.of_epoch(epoch), self.plan.share()
        end = plan.end(start, share) if end is None else end
        return Audit(*plan.audit(epoch, start, end, share))

    def explain(
        self, epoch: int | None, step: int, share: dict[str, Any], columns: list[int]
    ) -> dict[str, Any]:
        """Return which rows a batch contains and why; see ``Loader.explain``."""
        epoch = self.position.epoch if epoch is None else at_least("epoch", epoch, 0)
        return self.plan.explain(epoch, step, share, columns, consumed=self.position.consumed)

    def load(self, state: Any) -> None:
        """Continue at the position of a state. If this fails, nothing changes.

        Raises:
            ValueError: If the state is not valid, or belongs to other data or another order.
        """
        state = parsed(state)
        plan = self.plan.resumed(state)
        position = Position(state["epoch"], state["consumed"], is_loaded=True)
        if position.consumed and plan.steps_left(position.epoch, position.consumed) == 0:
            # As any loaded position, it is not restarted.
            position = Position(position.epoch + 1, is_loaded=True)
        self.plan = plan
        self._move(position)
        self.ledger.load(state.get("bad_rows"))

    def skip(self, steps: int) -> None:
        """Move past ``steps`` steps of all ranks.

        Raises:
            ValueError: If an epoch has no steps.
        """
        plan, before = self.plan, self.position
        epoch, consumed = before.epoch, before.consumed
        while (left := plan.steps_left(epoch, consumed)) <= steps:
            if left == 0 and consumed == 0:
                if steps == 0:
                    break
                raise plan.no_steps(epoch)
            # Skip whole epochs at once.
            epochs = steps // left if plan.has_constant_epochs and consumed == 0 else 1
            steps, epoch, consumed = steps - epochs * left, epoch + epochs, 0
        if epoch != before.epoch or before.consumed == 0:
            # The bad rows of an epoch are kept until the next one begins.
            self.ledger.restart()
        self._move(Position(epoch, consumed + steps * plan.step_rows, is_loaded=True))

    def set_epoch(self, epoch: int) -> None:
        """Move to the start of an epoch, unless the position is in it.

        A pass that has begun continues.
        """
        self.plan.check_known(epoch)
        self.position, self._asked = self.position.of_epoch(epoch), None

    def restart_epoch(self) -> None:
        """Move to the start of the current epoch."""
        self.position, self._asked = Position(self.position.epoch), None

    @property
    def is_new(self) -> bool:
        """Whether the position has never moved."""
        return self._newest is None and self.position == Position()

    @property
    def begun(self) -> Position:
        """The position from which the next pass follows."""
        return self._asked or self.position

    def begin(self, position: Position) -> None:
        """Begin a pass at a position that follows ``begun``."""
        before = self.begun
        if before.peeked is not None:
            self.ledger.rewind(before.peeked.mark)
        elif position.consumed < before.consumed and not self._has_warned_of_restart:
            self._has_warned_of_restart = True
            warn_caller(
                f"this pass starts epoch {before.epoch} again and repeats batches, "
                f"because the last pass was left after {before.consumed:,} {self.plan.noun}\n"
                "hint: iterate over loader.steps(n) for the next n batches; "
                "it continues into the following epochs"
            )
        self._move(position)
        if position.consumed == 0:
            self.ledger.begin(position.epoch)

    def check(self, position: Position) -> None:
        """Check that a pass is the newest. Any other delivers nothing any more.

        Raises:
            SupersededError: If it is not.
        """
        if self._newest is not position:
            raise position.superseded()

    def advance(
        self, position: Position, consumed: int, peek: Peek | None, *, end: int, is_counted: bool
    ) -> None:
        """Move the newest pass past a batch.

        Args:
            position: the position of the pass.
            consumed: rows of the epoch that are consumed with the batch.
            peek: what the batch changes, if it is the first one of a pass over an epoch.
            end: end of the epoch.
            is_counted: whether later passes of the epoch continue after this batch.
        """
        if self.position is not position:
            # set_epoch() was called during this pass.
            self._asked, self.position = self.position, position
        position.peeked = peek
        if consumed < end:
            position.consumed, position.is_loaded = consumed, position.is_loaded or is_counted
        else:
            self.end_epoch(position)

    def end_epoch(self, position: Position) -> None:
        """Move the newest pass past its epoch."""
        position.end_epoch()
        if self._asked is not None:
            self.position, self._asked = self._asked, None

    def next_epoch(self, position: Position) -> None:
        """Let the newest pass continue in the epoch that follows, or in that of ``set_epoch``."""
        if self.position is not position:
            position.epoch, self.position = self.position.epoch, position
        self.ledger.begin(position.epoch)

    def _move(self, position: Position) -> None:
        self.position, self._asked, self._newest = position, None, position
