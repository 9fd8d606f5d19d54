"""Moves the position of a loader past steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shardmill.errors import OptionError
from shardmill.load._checks import at_least
from shardmill.load._pass import Position

if TYPE_CHECKING:
    from shardmill._native import load as _native
    from shardmill.load._bad_rows import Ledger
    from shardmill.load._packing import PackedRows


class LoaderSkipping:
    """The part of a ``shardmill.Loader`` that skips steps."""

    _position: Position
    _asked: Position | None
    _newest_pass: int
    _packed: PackedRows | None
    _ledger: Ledger

    def skip(self, steps: int) -> None:
        """Move past ``steps`` steps of all ranks without reading them, for example past a spike of the loss. Takes the same time for any number.

        As after ``load_state_dict``: the position counts from the last returned batch, the next pass continues there, and older iterators are no
        longer valid. ``state_dict`` is that of a loader which has consumed the steps; skipped rows are in no audit and no list of bad rows. Call
        it on all ranks. At the end of an epoch, skipping continues in the next one.

        Raises:
            ValueError: If ``steps`` is negative, or an epoch has no steps.

        Examples:
            >>> import pyarrow as pa, pyarrow.parquet as pq
            >>> pq.write_table(pa.table({"x": list(range(10))}), "ten.parquet")
            >>> import shardmill as sm
            >>> loader = sm.Loader("ten.parquet", batch_size=4, output="numpy")
            >>> loader.skip(2)
            >>> [batch["x"].tolist() for batch in loader]
            [[8, 9]]
        """
        steps = at_least("steps", steps, 0)
        # Rows have the same number of steps in each epoch; packs may not.
        position = _skipped(self._position, steps, self._plan, self._share(), is_constant=self._packed is None)
        if position.epoch != self._position.epoch:
            self._ledger.restart()
        self._position, self._asked = position, None
        self._newest_pass += 1

    def _plan(self, epoch: int) -> _native.RowPlan:
        raise NotImplementedError

    def _share(self) -> dict[str, Any]:
        raise NotImplementedError


def _skipped(
    position: Position,
    steps: int,
    plan_of: Callable[[int], _native.RowPlan],
    share: dict[str, Any],
    *,
    is_constant: bool,
) -> Position:
    """Return the position after ``steps`` more steps.

    Args:
        position: where to start.
        steps: steps of all ranks.
        plan_of: returns the plan of an epoch.
        share: batch size and ranks.
        is_constant: whether all epochs have the same number of steps.

    Raises:
        ValueError: If an epoch has no steps.
    """
    epoch, consumed = position.epoch, position.consumed
    while (left := plan_of(epoch).steps_left(consumed, share)) <= steps:
        if left == 0 and consumed == 0:
            if steps == 0:
                break
            raise OptionError(f"epoch {epoch} has no steps to skip\nhint: use a smaller batch_size")
        # Whole epochs at once.
        epochs = steps // left if is_constant and consumed == 0 else 1
        steps, epoch, consumed = steps - epochs * left, epoch + epochs, 0
    return Position(epoch, consumed + steps * share["batch_size"] * share["world_size"], is_loaded=True)
