"""How many tokens each row has."""

from __future__ import annotations

from collections.abc import Callable

from shardmill._native.load import RowPlan
from shardmill._native.packing import Lengths


class TokenLengths:
    """Found by a pass over a column, once for all who pack the same rows.

    Args:
        rows: gives the rows after the filter.
        threads: that read.
    """

    def __init__(self, rows: Callable[[], RowPlan], threads: int) -> None:
        self._rows, self._threads = rows, max(threads, 1)
        self._found: dict[tuple[int, bool, bool], Lengths] = {}

    def of_column(self, column: int, *, is_stated: bool, nulls_are_empty: bool) -> Lengths:
        """By the lists in a column, or by what a column states."""
        key = column, is_stated, nulls_are_empty
        if key not in self._found:
            self._found[key] = Lengths(
                self._rows(),
                column=column,
                is_stated=is_stated,
                nulls_are_empty=nulls_are_empty,
                threads=self._threads,
            )
        return self._found[key]
