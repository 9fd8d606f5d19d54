"""The packs of a loader, epoch by epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shardmill._native import packing as _native
from shardmill._warnings import warn_caller
from shardmill.data._dataset import opened_files
from shardmill.errors import MissingColumnError, OptionError
from shardmill.load import _balance as balancing
from shardmill.load._columns import plain_fill_values
from shardmill.load._epoch_plans import EpochPlans
from shardmill.load._packing_checks import BUDGETS, INSIDE, check_images, cuts, warn_of_joined
from shardmill.load._varlen import IGNORED, LABELS

if TYPE_CHECKING:
    from shardmill._native import load
    from shardmill.data._dataset import Dataset
    from shardmill.data._opened_files import ImageLimits
    from shardmill.load._mixture import Mixture
    from shardmill.load._packing import Packing
    from shardmill.load._set_weights import Mark

#: Version of the algorithms: any change to which tokens are packed together needs a new number, so
#: that old states are rejected. One more for packings of documents with images.
PACKING_VERSION = 1


class PackedRows(EpochPlans):
    """The packs of a loader, epoch by epoch.

    Args:
        packing: the packing options.
        dataset: the data set whose rows are packed.
        nulls_are_empty: whether a null list is an empty row.
        threads: number of threads that plan the packs of a shuffled epoch.
    """

    noun = "packs"

    def __init__(
        self, packing: Packing, dataset: Dataset | Mixture, *, nulls_are_empty: bool, threads: int
    ) -> None:
        super().__init__(
            dataset,
            packing.columns,
            packing.lengths,
            stated_as="integers",
            nulls_are_empty=nulls_are_empty,
            threads=threads,
        )
        warn_of_joined(opened_files(dataset).tokenize)
        self._has_images = opened_files(dataset).has_document_images
        check_images(packing, self._has_images)
        #: What a pack has room for of one image, if documents with images are cut.
        self._limits: ImageLimits | None = None
        if self._has_images and cuts(packing):
            self._limits = packing.length, packing.max_patches
        #: The last rows, and the same without images that exceed the limits.
        self._rows_without: tuple[load.RowPlan, load.RowPlan] | None = None
        self.packing, self.is_endless = packing, packing.plan == "ahead"
        #: For endless lanes, the packs of all epochs.
        self._ahead: _native.AheadPacks | None = None
        self.columns = self._pack_columns()

    def converter(self, *, kind: str, is_padded: bool) -> load.OutputConverter:
        """Return a converter for batches of packs."""
        from shardmill._native import load

        return load.OutputConverter.of_packs(self.columns, kind=kind, is_padded=is_padded)

    @property
    def native(self) -> load.Dataset:
        """The files whose rows are packed."""
        return opened_files(self._dataset).limited(self._limits)

    @property
    def lengths(self) -> _native.Lengths:
        """The lengths of all rows."""
        return opened_files(self._dataset).lengths_of(**self.source, limits=self._limits)

    @property
    def source(self) -> dict[str, Any]:
        """The column with the lengths of rows, or with lists whose lengths are counted."""
        source = super().source
        return source if self._limits is None else source | {"source": "blocks"}

    @property
    def balance(self) -> balancing.Balance | None:
        """The balance that orders packs, if they do not come in the order of packing."""
        return self.packing.balance

    def planned(self, rows: load.RowPlan, epoch: int, lanes: int) -> load.RowPlan:
        """Return the plan of the packs of an epoch."""
        packing = self.packing
        options: dict[str, Any] = {
            "length": packing.length,
            "strategy": packing.strategy,
            "open_packs": packing.open_packs or 1,
            "long": packing.long or "split",
            "multiple_of": packing.multiple_of,
            "overlaps": packing.overlap > 0,
            "looks_ahead": packing.across,
            **{name: getattr(packing, name) for name in BUDGETS},
            "threads": self.threads,
            "balance": packing.balance and balancing.planned(packing.balance),
        }
        epoch_packs = self.epoch_packs(lanes)
        if epoch_packs is None:
            return _native.packed(rows, self.columns, self.lengths, epoch=epoch, **options)
        return self._packs_ahead(rows, options).of_epoch(rows, epoch=epoch, epoch_packs=epoch_packs)

    def reorder(self, rows: load.RowPlan, start: int, marks: Sequence[Mark]) -> None:
        """Use another order of rows from an epoch on, or from a pass of endless lanes.

        Packs before it keep their plan. Endless lanes begin at these marks.
        """
        rows = self._without(rows)
        super().reorder(rows, start, marks)
        self._ahead = self._ahead and self._ahead.reordered(rows, start, list(marks))

    def of_epoch(
        self, rows: load.RowPlan, epoch: int, lanes: int, marks: Sequence[Mark] = ()
    ) -> load.RowPlan:
        """Return the plan of an epoch; see ``EpochPlans``."""
        return super().of_epoch(self._without(rows), epoch, lanes, marks)

    def forget(self) -> None:
        """Forget all plans."""
        super().forget()
        self._ahead = None

    def epoch_packs(self, lanes: int) -> int | None:
        """Return the number of packs of an epoch of endless lanes."""
        packs = self.packing.epoch_packs
        return (
            packs
            if packs is None or self.packing.balance is None
            else balancing.rounded(packs, lanes)
        )

    def warn_of_balance(self, lanes: int, share: Mapping[str, Any], prefetch_bytes: int) -> None:
        """Warn about the effects of a balance on the length of an epoch and on memory."""
        balance, packs = self.packing.balance, self.packing.epoch_packs
        if balance is None:
            return
        if packs != self.epoch_packs(lanes):
            warn_caller(
                f"epoch_packs={packs} is rounded up to {self.epoch_packs(lanes)}, because packs "
                f"are balanced, and lanes={lanes} then have equally many in an epoch\n"
                "hint: use a multiple of the lanes"
            )
        balancing.warn_of_memory(balance, self.window_bytes(lanes, share), prefetch_bytes)

    def window_bytes(self, lanes: int, share: Mapping[str, Any]) -> int:
        """Return the size of the rows that a rank keeps for the windows of a balance."""
        balance = self.packing.balance
        if balance is None:
            return 0
        return balancing.window_bytes(balance, self.columns.row_bytes, lanes, share)

    def identity(self, lanes: int) -> dict[str, Any]:
        """Return what a state must match: the content of each pack, and the order of packs."""
        packing = self.packing
        shared = {
            "version": PACKING_VERSION + self._has_images,
            "column": packing.columns[0],
            "length": packing.length,
            "strategy": packing.strategy,
            "open_packs": packing.open_packs,
            "long": packing.long,
            # Absent unless set: states of earlier versions have none of them.
            **{
                name: value
                for name, unset in {**INSIDE, **dict.fromkeys(BUDGETS)}.items()
                if (value := getattr(packing, name)) != unset
            },
        }
        if packing.balance is not None:
            shared["balance"] = balancing.identity_of(packing.balance)
        if packing.plan == "epoch":
            return {**shared, "lengths_digest": self.lengths.digest}
        return {
            "plan": packing.plan,
            **shared,
            "epoch_packs": self.epoch_packs(lanes),
            "pack_window_rows": _native.PACK_WINDOW_ROWS,
            "tokenize": opened_files(self._dataset).tokenization,
        }

    def _without(self, rows: load.RowPlan) -> load.RowPlan:
        """Return these rows without images that exceed the limits."""
        if self._limits is None:
            return rows
        if self._rows_without is None or self._rows_without[0] is not rows:
            self._rows_without = rows, rows.with_dataset(self.native)
        return self._rows_without[1]

    def _packs_ahead(self, rows: load.RowPlan, options: dict[str, Any]) -> _native.AheadPacks:
        if self._ahead is None:
            self._ahead = _native.AheadPacks(
                rows, self.columns, starts=list(self._marks), **self.source, **options
            )
            for warning in self._ahead.warnings:
                warn_caller(warning)
        return self._ahead

    def _pack_columns(self) -> _native.PackColumns:
        packing = self.packing
        files = opened_files(self._dataset)
        labels = {name: pad for name, pad in files.label_pads.items() if name in packing.columns}
        shifted: list[str] = []
        if packing.next_token:
            stored = [LABELS] if LABELS in packing.columns else []
            labels = dict.fromkeys(stored or labels or [LABELS], IGNORED) | labels
            shifted = list(labels)
            if files.has_document_images and not set(shifted) <= set(packing.columns):
                raise OptionError(
                    "next_token=True would make labels of the placeholders of images\n"
                    "hint: pack the labels of Sequences too: sm.Packing(['tokens', 'labels'], …)"
                )
        pads = packing.pad_value
        if not isinstance(pads, dict):
            # Every type has a zero, including booleans.
            pads = {packing.columns[0]: pads} if pads else {}
        for name in pads:
            if name not in (*packing.columns, *labels):
                raise MissingColumnError(
                    f"pad_value names column {name!r}, "
                    f"the packed columns are {', '.join(packing.columns)}"
                )
        return _native.PackColumns(
            self.native,
            columns=self.column_numbers,
            length=packing.length,
            multiple_of=packing.multiple_of,
            next_token=shifted,
            across=packing.across,
            pad_values=plain_fill_values({**labels, **pads}),
            nulls_are_empty=self._nulls_are_empty,
        )

    def __getstate__(self) -> dict[str, Any]:
        # Files are reopened when this is unpickled.
        return {**super().__getstate__(), "columns": None, "_ahead": None, "_rows_without": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.columns = self._pack_columns()
