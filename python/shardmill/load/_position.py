"""The position of a loader: saving it, loading it, and skipping steps."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from shardmill._native import load as _native
from shardmill.data._dataset import opened_files
from shardmill.errors import CheckpointMismatchError
from shardmill.load import _mixture_state as mixture_state
from shardmill.load._checks import at_least, no_steps
from shardmill.load._pass import Position
from shardmill.load._plan import LoaderPlan
from shardmill.load._state import OrderSettings, parsed


class LoaderPosition(LoaderPlan):
    """The part of a ``shardmill.Loader`` that knows where its next pass starts."""

    def set_epoch(self, epoch: int) -> None:
        """Move to the start of ``epoch``. If the loader is already in this epoch, its position is kept.

        This is never required: a pass that ends moves to the next epoch by itself. A pass that continues after this call ends in its own epoch,
        and until then ``state_dict`` refers to that epoch. Call it on all ranks.

        Args:
            epoch: number of the epoch, from 0.

        Raises:
            ValueError: If ``epoch`` is not an integer of at least 0.

        Examples:
            >>> import pyarrow as pa, pyarrow.parquet as pq, shardmill as sm
            >>> pq.write_table(pa.table({"x": list(range(10))}), "ten.parquet")
            >>> loader = sm.Loader("ten.parquet", batch_size=4, shuffle=True)
            >>> loader.set_epoch(3)
            >>> loader.state_dict()["epoch"]
            3
        """
        epoch = at_least("epoch", epoch, 0)
        self._asked = None
        self._position = self._position.of_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the position after the last returned batch as plain JSON values, under 4 KiB, the same on every rank.

        Before the first batch of a pass, it is the position where the pass begins. Prefetched batches
        do not count. Calling it has no side effects; call it at the same step on all ranks.
        """
        return self._state_at(self._position.epoch, self._position.consumed)

    def _state_at(self, epoch: int, consumed: int) -> dict[str, Any]:
        """Return the state at a position, which may be another than that of the next pass."""
        state = self._settings().state(epoch, consumed)
        if self._packed is None:
            state = mixture_state.with_consumed(state, self._row_plan())
        return state if self._ledger.policy == "raise" else {**state, "bad_rows": self._ledger.state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue the next pass after the last batch recorded in ``state``, on any number of ranks and threads.

        Later passes of this epoch continue, too, after the last batch that was returned. As in any
        epoch, a pass that is left after a single batch, such as ``next(iter(loader))``, moves
        nothing: the next pass begins with that batch. If the state is rejected or cannot be loaded,
        the loader is unchanged.

        Args:
            state: what ``state_dict`` returned, also after a round trip through JSON.

        Raises:
            shardmill.CheckpointMismatchError: If the state is not valid, or was saved with another data set, filter, seed, shuffle, window,
                lanes, mixture, packing or version. It is a ``ValueError``.
            shardmill.StorageError: If rows are packed and their lengths cannot be read.
        """
        state = parsed(state)
        if state["order_version"] != _native.ORDER_VERSION:
            raise CheckpointMismatchError(
                f"the state has order version {state['order_version']}, but this version of shardmill has {_native.ORDER_VERSION}"
            )
        lanes = self._asked_lanes or state["lanes"]
        settings = self._settings(lanes)
        mixture_state.check(state.get("mixture"), settings.mixture)
        settings.check(state, [relative for _, relative, *_ in opened_files(self._dataset).native.files])
        before = self._lanes, self._rows
        self._set_lanes(lanes)
        position = Position(state["epoch"], state["consumed"], is_loaded=True)
        try:
            mixture_state.check_position(state, self._plan(state["epoch"]).num_places)
            if self._packed is None:
                mixture_state.check_consumed(state, self._row_plan())
            self._normalize(position)
        except BaseException:
            # Planning reads files, and may be interrupted.
            self._lanes, self._rows = before
            raise
        self._position, self._asked = position, None
        self._newest_pass += 1
        self._ledger.load(state.get("bad_rows"))
        self._audits.clear()

    def skip(self, steps: int) -> None:
        """Move past ``steps`` steps of all ranks without reading them, for example past a loss spike. The time does not depend on ``steps``.

        There are two exceptions, both with packing and shuffled or mixed rows. With ``plan="epoch"``, epochs have different numbers of packs,
        and each epoch in between is planned. With ``plan="ahead"``, the next batch follows from the token counts of each pass in between, except
        for ``strategy="concat"`` of the shuffled rows of a single lane.

        As after ``load_state_dict``, the position counts from the last returned batch, the next pass continues there, and older iterators are no
        longer valid. ``state_dict`` equals that of a loader that has consumed the steps, except for ``bad_rows``: skipped rows are in no
        audit and no list of bad rows. Call it on all ranks. At the end of an epoch, skipping continues in the next one.

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
        position = _skipped(self._position, steps, self._plan, self._share(), is_constant=self._has_constant_epochs)
        if position.epoch != self._position.epoch or self._position.consumed == 0:
            # The bad rows of an epoch are kept until the next one begins.
            self._ledger.restart()
        self._position, self._asked = position, None
        self._newest_pass += 1

    @property
    def _start(self) -> tuple[int, int]:
        """Return the start of the next pass: its epoch, and the number of rows of that epoch that come before it."""
        begun = self._position.following()
        return begun.epoch, begun.consumed

    def _set_lanes(self, lanes: int) -> None:
        if lanes != self._lanes:
            self._lanes, self._rows = lanes, None

    def _restart_epoch(self) -> None:
        """Move to the start of the current epoch."""
        self._position, self._asked = Position(self._position.epoch), None

    @property
    def _has_constant_epochs(self) -> bool:
        """Whether all epochs have the same number of steps: rows have, packs of rows in the same order, and packs of endless lanes."""
        if self._packed is None or self._packed.packing.plan == "ahead":
            return True
        return self._shuffle is None and "mixture" not in self._identity

    def _settings(self, lanes: int | None = None) -> OrderSettings:
        return OrderSettings(
            order_version=_native.ORDER_VERSION,
            rows=self._row_plan().num_rows,
            seed=self._seed,
            shuffle=self._shuffle is not None,
            shuffle_window_bytes=self._window_bytes,
            lanes=lanes or self._lanes,
            packing=None if self._packed is None else self._packed.identity(),
            **self._identity,
        )

    @cached_property
    def _identity(self) -> dict[str, Any]:
        """The identity of the data. Cached, because hashing all blocks takes time, and a state may be taken after every batch."""
        return mixture_state.identity_of(self._dataset)

    def _normalize(self, position: Position) -> None:
        if position.consumed and self._plan(position.epoch).steps_left(position.consumed, self._share()) == 0:
            position.end_epoch()
            # As any loaded position, it is not restarted.
            position.is_loaded = True


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
    while (left := (plan := plan_of(epoch)).steps_left(consumed, share)) <= steps:
        if left == 0 and consumed == 0:
            if steps == 0:
                break
            raise no_steps(epoch, plan.num_places)
        # Skip whole epochs at once.
        epochs = steps // left if is_constant and consumed == 0 else 1
        steps, epoch, consumed = steps - epochs * left, epoch + epochs, 0
    return Position(epoch, consumed + steps * share["batch_size"] * share["world_size"], is_loaded=True)
