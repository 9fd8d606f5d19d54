"""The batches by length of a loader, epoch by epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from shardmill._native import packing as _native
from shardmill.data._dataset import opened_files
from shardmill.errors import OptionError
from shardmill.load import _balance as balancing
from shardmill.load._columns import plain_fill_values
from shardmill.load._epoch_plans import EpochPlans

if TYPE_CHECKING:
    from shardmill._native import load
    from shardmill.data._dataset import Dataset
    from shardmill.load._balance import Balance
    from shardmill.load._mixture import Mixture
    from shardmill.load._token_batches import TokenBatches

#: Version of the algorithm: any change to which rows are in one batch needs a new number, so that
#: old states are rejected.
BATCHING_VERSION = 1

_MULTIPLE_OF = 8

#: As many rows as a lane can have.
_ALL_ROWS = 2**32 - 1


class BatchedRows(EpochPlans):
    """The batches of rows of about equal length.

    Args:
        packing: the options of the batches.
        dataset: the data set.
        nulls_are_empty: whether a null list is an empty row.
        threads: number of threads that plan the batches of a shuffled epoch.

    Raises:
        ValueError: If an option has no meaning for lengths that are floats.
    """

    noun = "batches"

    def __init__(
        self,
        packing: TokenBatches,
        dataset: Dataset | Mixture,
        *,
        nulls_are_empty: bool,
        threads: int,
    ) -> None:
        super().__init__(
            dataset,
            packing.columns,
            packing.lengths,
            stated_as="numbers",
            nulls_are_empty=nulls_are_empty,
            threads=threads,
        )
        self.packing = packing
        native, stated = opened_files(dataset).native, self._lengths_number
        #: Whether lengths are floats.
        self.is_float = bool(stated) and native.is_floating(stated[0])
        given = {"multiple_of": packing.multiple_of, "long": packing.long == "truncate"}
        for name, is_given in given.items():
            if self.is_float and is_given:
                raise OptionError(
                    f"{name}={getattr(packing, name)!r} counts tokens, and the lengths in column "
                    f"{packing.lengths!r} are floats\nhint: omit {name}"
                )
        default = 1 if self.is_float or packing.tokens < _MULTIPLE_OF else _MULTIPLE_OF
        self._multiple_of = packing.multiple_of or default

    @property
    def balance(self) -> Balance | None:
        """The balance that orders batches, if they are not in random order."""
        return self.packing.balance

    def planned(self, rows: load.RowPlan, epoch: int, lanes: int) -> load.RowPlan:
        """Return the plan of the batches of an epoch."""
        packing = self.packing
        return _native.batched(
            rows,
            self.column_numbers if packing.lengths is None else [],
            self.lengths,
            epoch=epoch,
            tokens=packing.tokens,
            max_rows=packing.max_rows or _ALL_ROWS,
            window_rows=packing.window_rows,
            multiple_of=self._multiple_of,
            long=packing.long,
            threads=self.threads,
            balance=packing.balance and balancing.planned(packing.balance),
        )

    def pad_form(self) -> dict[str, Any]:
        """Return the padding of columns, for native code."""
        packing, most = self.packing, self.packing.tokens
        labels = opened_files(self._dataset).label_pads
        pads = packing.pad_value
        if not isinstance(pads, dict):
            pads = dict.fromkeys(packing.columns[:1], pads) if pads else {}
        pads = {name: pad for name, pad in labels.items() if name in packing.columns} | pads
        return {
            "length": None,
            "value": 0,
            "values": plain_fill_values(pads),
            "is_left": False,
            "columns": list(packing.columns),
            "multiple_of": self._multiple_of,
            "most": most - most % self._multiple_of if packing.long == "truncate" else None,
            "has_lengths": packing.lengths is not None,
        }

    def warn_of_balance(self, lanes: int, share: Mapping[str, Any], prefetch_bytes: int) -> None:
        """Do not warn: the windows of rows are larger than those of a balance."""

    def window_bytes(self, lanes: int, share: Mapping[str, Any]) -> int:
        """Return the size of the rows that a rank keeps for its windows."""
        rows = opened_files(self._dataset).row_plan()
        row_bytes = -(-rows.decoded_bytes // max(rows.num_rows, 1))
        kept = 2 * self.packing.window_rows * balancing.lanes_of_rank(lanes, share)
        return min(kept, rows.num_rows) * row_bytes

    def identity(self, lanes: int) -> dict[str, Any]:
        """Return what a state must match: the rows of each batch, and the order of batches."""
        packing = self.packing
        return {
            "version": BATCHING_VERSION,
            "strategy": "token_batches",
            "column": packing.lengths or packing.columns[0],
            "tokens": packing.tokens,
            "max_rows": packing.max_rows,
            "window_rows": packing.window_rows,
            "multiple_of": self._multiple_of,
            "long": packing.long,
            **(
                {"balance": balancing.identity_of(packing.balance)}
                if packing.balance is not None
                else {}
            ),
            "lengths_digest": self.lengths.digest,
        }
