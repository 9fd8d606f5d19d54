"""Which rows or packs the epochs of a loader have, in which order, and which a rank gets."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, cast

from shardmill._native import load as _native
from shardmill._warnings import warn_caller
from shardmill.data._dataset import Dataset, opened_files
from shardmill.errors import CheckpointMismatchError, OptionError
from shardmill.load import _mixture_state as mixture_state
from shardmill.load import _ranks as ranks
from shardmill.load._balance import explained
from shardmill.load._batched_rows import BatchedRows
from shardmill.load._checks import at_least
from shardmill.load._mixture import Mixture
from shardmill.load._packed_rows import PackedRows
from shardmill.load._packings import batch_size_of
from shardmill.load._set_weights import SetWeights
from shardmill.load._state import OrderSettings

_FILES_SHOWN = 4


@dataclass(frozen=True, kw_only=True, eq=False)
class LoaderPlan:
    """The plan of a loader. It never changes; a state with other lanes has another plan.

    Attributes:
        dataset: the data set or mixture.
        packed: the packs or batches, if they are distributed in place of rows.
        window_bytes: size of the shuffle window, ``None`` for rows in file order.
        seed: seed of the order.
        asked_lanes: the number of lanes that was asked for; by default it is that of the run that
            saved the state.
        lanes: the number of lanes.
        batch_size: rows or packs of a batch of this rank.
        rank: this rank.
        world_size: number of ranks.
        asked_tail: what was asked for ``tail``; the default depends on ``world_size``.
        set_weights: the weights of a mixture that were set during the run.
    """

    dataset: Dataset | Mixture
    packed: PackedRows | BatchedRows | None
    window_bytes: int | None
    seed: int
    asked_lanes: int | None
    lanes: int
    batch_size: int
    rank: int
    world_size: int
    asked_tail: str | None
    set_weights: SetWeights | None = None

    @cached_property
    def rows(self) -> _native.RowPlan:
        """The rows of all epochs in their order."""
        rows, changed = opened_files(self.dataset).row_plan(), self.set_weights
        if changed is not None:
            rows = rows.reweighted(changed.native_stages, list(changed.drawn))
        return rows.ordered(window_bytes=self.window_bytes, seed=self.seed, lanes=self.lanes)

    def of_epoch(self, epoch: int) -> _native.RowPlan:
        """Return the plan of an epoch: rows, or packs of rows.

        Raises:
            ValueError: If the weights of the epoch are not known.
        """
        self.check_known(epoch)
        packed, changed = self.packed, self.set_weights
        if packed is None:
            return self.rows
        return packed.of_epoch(self.rows, epoch, self.lanes, changed.marks if changed else ())

    def check_known(self, epoch: int) -> None:
        """Check that the weights of an epoch are known.

        For endless lanes, the weights of passes are checked when packs are drawn.

        Raises:
            ValueError: If they are not known.
        """
        if self.set_weights is None or self.is_endless:
            return
        if epoch < (first := self.set_weights.known_from):
            raise OptionError(
                f"epoch {epoch} had weights that are not known any more: set_weights was called "
                f"again, and the loader has the weights from epoch {first} on\n"
                "hint: load a state of that epoch, which has the weights of its time"
            )

    @property
    def is_endless(self) -> bool:
        """Whether lanes are endless."""
        return self.packed is not None and self.packed.is_endless

    def share(
        self, rank: int | None = None, world_size: int | None = None, batch_size: int | None = None
    ) -> dict[str, Any]:
        """Return what a rank gets of each step, in this or another topology, for native code."""
        size = self.world_size if world_size is None else world_size
        own = rank if rank is not None else self.rank if size == self.world_size else 0
        ranks.resolve(own, size)
        if batch_size is not None and isinstance(self.packed, BatchedRows):
            batch_size_of(batch_size, self.packed.packing)
        return {
            "batch_size": self.batch_size
            if batch_size is None
            else at_least("batch_size", batch_size, 1),
            "world_size": size,
            "rank": own,
            "tail": self.asked_tail or ("uneven" if size == 1 else "pad"),
        }

    @property
    def step_rows(self) -> int:
        """Rows or packs of a step of all ranks."""
        return self.batch_size * self.world_size

    @property
    def noun(self) -> str:
        """What is delivered."""
        return "rows" if self.packed is None else self.packed.noun

    def steps_left(self, epoch: int, consumed: int) -> int:
        """Return the number of steps from a position to the end of its epoch."""
        return self.of_epoch(epoch).steps_left(consumed, self.share())

    def no_steps(self, epoch: int) -> OptionError:
        """Return the error for an epoch without steps."""
        if self.of_epoch(epoch).num_places == 0:
            return OptionError(
                f"epoch {epoch} has no steps: there are no rows\n"
                "hint: check the paths and the filter"
            )
        return OptionError(
            f'epoch {epoch} has no steps: tail="drop" drops its rows, which do not fill a step'
            "\nhint: use a smaller batch_size"
        )

    def warn_of_nothing(self, epoch: int) -> None:
        """Warn if an epoch has no steps, because a step needs more rows or packs than there are."""
        places = self.of_epoch(epoch).num_places
        if places and not self.steps_left(epoch, 0):
            warn_caller(
                f'tail="drop" drops all {places:,} {self.noun}: a step needs {self.step_rows:,}\n'
                "hint: use a smaller batch_size or another tail"
            )

    def explain(
        self,
        epoch: int,
        step: int,
        share: dict[str, Any],
        columns: list[int],
        *,
        consumed: int = 0,
    ) -> dict[str, Any]:
        """Return which rows a batch contains and why; see ``Loader.explain``.

        Args:
            epoch: the epoch.
            step: the step from its start.
            share: the part of each step that ranks get.
            columns: the columns whose bytes are counted.
            consumed: the position of the loader in its epoch.
        """
        answer = self.of_epoch(epoch).explain(epoch, at_least("step", step, 0), share, columns)
        answer = mixture_state.by_name(answer, self.dataset) | {"tail": share["tail"]}
        if self.packed is None or (balance := self.packed.balance) is None:
            return answer
        names = list(self.dataset.sources) if isinstance(self.dataset, Mixture) else []
        answer["balance_bytes"] = self.packed.window_bytes(self.lanes, share)
        return explained(answer, balance, names, lanes=self.lanes, consumed=consumed, share=share)

    def described(self, epoch: int, start: int, consumed: int) -> str:
        """Return the place and the files of a batch, for a note.

        Args:
            epoch: epoch of the batch.
            start: rows of the epoch that were consumed when the pass started.
            consumed: rows of the epoch that are consumed with the batch.
        """
        step, is_whole = (consumed - 1) // self.step_rows, start % self.step_rows == 0
        place = f"batch {step:,}" if is_whole else f"the batch before row {consumed:,}"
        described = f"{place} of epoch {epoch} on rank {self.rank} of {self.world_size}"
        # The steps of a pass that continues another batch size are not those of the plan.
        rows = self.explain(epoch, step, self.share(), [])["rows"] if is_whole else None
        files = list(dict.fromkeys(file for file, *_ in rows or ()))
        if not files:
            return described
        more = f" and {len(files) - _FILES_SHOWN} more files" if len(files) > _FILES_SHOWN else ""
        return f"{described}, with rows of {', '.join(files[:_FILES_SHOWN])}{more}"

    @property
    def has_constant_epochs(self) -> bool:
        """Whether all epochs have the same number of steps.

        Rows have, packs of rows in the same order, and packs of endless lanes.
        """
        if self.packed is None or self.is_endless:
            return True
        return self.window_bytes is None and isinstance(self.dataset, Dataset)

    def with_lanes(self, lanes: int) -> LoaderPlan:
        """Return the plan with this number of lanes."""
        if lanes == self.lanes:
            return self
        changed = self.set_weights if not self.is_endless else None
        return replace(self, lanes=lanes, set_weights=changed)

    def reweighted(self, changed: SetWeights) -> LoaderPlan:
        """Return the plan with the weights that were set during the run."""
        plan = replace(self, set_weights=changed)
        if plan.packed is not None:
            plan.packed.reorder(plan.rows, changed.start, changed.marks)
        return plan

    def state(self, epoch: int, consumed: int) -> dict[str, Any]:
        """Return the state at a position."""
        state = self._settings.state(epoch, consumed)
        if self.set_weights is not None:
            state["mixture"] = state["mixture"] | {"set_weights": self.set_weights.state()}
        return state if self.packed is not None else mixture_state.with_consumed(state, self.rows)

    def resumed(self, state: dict[str, Any]) -> LoaderPlan:
        """Return the plan that continues a state.

        Raises:
            ValueError: If the state was saved with other data or another order, or its position is
                outside its epoch. The message names what differs and shows both values.
        """
        plan = self.with_lanes(self.asked_lanes or state["lanes"])
        plan._check_settings(state)
        saved, changed = (state.get("mixture") or {}).get("set_weights"), None
        if saved is not None:
            changed = SetWeights.parsed(
                saved,
                list(cast("Mixture", plan.dataset).sources),
                rows=plan.rows.num_rows,
                lanes=plan.lanes if plan.is_endless else None,
            )
        if changed != plan.set_weights:
            plan = replace(plan, set_weights=changed)
        plan._check_place(state)
        return plan

    def _check_settings(self, state: dict[str, Any]) -> None:
        if state["order_version"] != _native.ORDER_VERSION:
            raise CheckpointMismatchError(
                f"the state has order version {state['order_version']}, "
                f"but this version of shardmill has {_native.ORDER_VERSION}"
            )
        settings = self._settings
        mixture_state.check(state.get("mixture"), settings.mixture)
        settings.check(
            state, [relative for _, relative, *_ in opened_files(self.dataset).native.files]
        )

    def _check_place(self, state: dict[str, Any]) -> None:
        places = self.of_epoch(state["epoch"]).num_places
        if state["consumed"] > places:
            raise CheckpointMismatchError(
                f"the state is damaged: place {state['consumed']} of {places} "
                f"in epoch {state['epoch']}"
            )
        if self.packed is None:
            mixture_state.check_consumed(state, self.rows)

    @property
    def _settings(self) -> OrderSettings:
        return OrderSettings(
            order_version=_native.ORDER_VERSION,
            rows=self.rows.num_rows,
            seed=self.seed,
            shuffle=self.window_bytes is not None,
            shuffle_window_bytes=self.window_bytes,
            lanes=self.lanes,
            packing=None if self.packed is None else self.packed.identity(self.lanes),
            **self._identity,
        )

    @cached_property
    def _identity(self) -> dict[str, Any]:
        """The identity of the data.

        Hashing all blocks takes time, and a state may be taken after every batch.
        """
        return mixture_state.identity_of(self.dataset)

    def __getstate__(self) -> dict[str, Any]:
        # Files are reopened when this is unpickled.
        return {field.name: getattr(self, field.name) for field in fields(self)}
