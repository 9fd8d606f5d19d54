"""Packs or batches that a loader distributes over steps in place of rows, epoch by epoch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from shardmill.data._dataset import Dataset, opened_files
from shardmill.load._mixture import Mixture, blend_of
from shardmill.load._packing_checks import check_sources

if TYPE_CHECKING:
    from shardmill._native import load, packing
    from shardmill.load._balance import Balance
    from shardmill.load._set_weights import Mark

#: A loader needs the plan of the current epoch and of the previous one.
_EPOCHS_KEPT = 2


class EpochPlans(ABC):
    """Packs or batches of rows whose lengths are known.

    Results that need a pass over the rows are computed on demand, and only once.

    Args:
        dataset: the data set whose rows are combined.
        columns: the columns with the tokens; the tokens of the first column are counted.
        lengths: the column with the lengths of rows, if there is one.
        stated_as: the kind of lengths in that column.
        nulls_are_empty: whether a null list is an empty row.
        threads: number of threads that plan a shuffled epoch.
    """

    #: What a step has.
    noun: str
    #: Whether lanes never end.
    is_endless = False

    def __init__(
        self,
        dataset: Dataset | Mixture,
        columns: tuple[str, ...],
        lengths: str | None,
        *,
        stated_as: Literal["integers", "numbers"],
        nulls_are_empty: bool,
        threads: int,
    ) -> None:
        files = opened_files(dataset)
        self.threads = max(threads, 1)
        self._dataset, self._nulls_are_empty = dataset, nulls_are_empty
        self._plans: dict[int, load.RowPlan] = {}
        self._rows: load.RowPlan | None = None
        self._marks: Sequence[Mark] = ()
        if not isinstance(dataset, Dataset):
            check_sources(dataset, columns, blend_of(dataset))
        self.column_numbers = files.numbers_of(columns)
        self._lengths_number = None if lengths is None else files.numbers_of([lengths])
        self._stated_as = stated_as

    @property
    @abstractmethod
    def balance(self) -> Balance | None:
        """The balance that orders packs, if they do not come in the order of packing."""

    @abstractmethod
    def identity(self, lanes: int) -> dict[str, Any]:
        """Return what a state must match: which rows are combined, and in which order."""

    @abstractmethod
    def window_bytes(self, lanes: int, share: Mapping[str, Any]) -> int:
        """Return the size of the rows that a rank keeps for the windows of a balance."""

    @abstractmethod
    def warn_of_balance(self, lanes: int, share: Mapping[str, Any], prefetch_bytes: int) -> None:
        """Warn about the effects of a balance."""

    @abstractmethod
    def planned(self, rows: load.RowPlan, epoch: int, lanes: int) -> load.RowPlan:
        """Return the plan of an epoch, and keep it."""

    def reorder(self, rows: load.RowPlan, start: int, marks: Sequence[Mark]) -> None:
        """Use another order of rows from an epoch on, or from a pass of endless lanes.

        Plans of earlier epochs stay. Endless lanes begin at these marks.
        """
        self._plans = {
            epoch: plan
            for epoch, plan in self._plans.items()
            if epoch < start and not self.is_endless
        }
        self._rows, self._marks = rows, marks

    def of_epoch(
        self, rows: load.RowPlan, epoch: int, lanes: int, marks: Sequence[Mark] = ()
    ) -> load.RowPlan:
        """Return the plan of an epoch with rows in the order of ``rows``, cut into ``lanes``.

        Endless lanes begin at these marks.
        """
        if rows is not self._rows:
            self.forget()
            self._rows, self._marks = rows, marks
        plan = self._plans.get(epoch)
        if plan is None:
            plan = self.planned(rows, epoch, lanes)
            while len(self._plans) >= _EPOCHS_KEPT:
                del self._plans[next(iter(self._plans))]
            self._plans[epoch] = plan
        return plan

    def forget(self) -> None:
        """Forget all plans."""
        self._rows, self._plans = None, {}

    @property
    def lengths(self) -> packing.Lengths:
        """The lengths of all rows."""
        return opened_files(self._dataset).lengths_of(**self.source)

    @property
    def source(self) -> dict[str, Any]:
        """The column with the lengths of rows, or with lists whose lengths are counted."""
        is_stated = self._lengths_number is not None
        numbers = self.column_numbers if self._lengths_number is None else self._lengths_number
        return {
            # A directory without files has no columns, and no rows to inspect.
            "column": numbers[0] if numbers else 0,
            "source": self._stated_as if is_stated else "lists",
            # A column of lengths has no nulls.
            "nulls_are_empty": self._nulls_are_empty and not is_stated,
        }

    def __getstate__(self) -> dict[str, Any]:
        # Files are reopened when this is unpickled.
        return {**self.__dict__, "_plans": {}, "_rows": None}
