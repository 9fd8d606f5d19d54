"""The number of tokens of each row."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from shardmill._native.load import RowPlan
from shardmill._native.packing import Lengths
from shardmill._warnings import warn_caller


class TokenCounts(NamedTuple):
    """How many tokens the rows of a data set have."""

    rows: int
    #: Total number of tokens.
    total: int
    #: Number of tokens in the longest row.
    longest: int

    @property
    def mean(self) -> float:
        """Mean number of tokens per row; 0 if there are no rows."""
        return self.total / self.rows if self.rows else 0.0


class TokenLengths:
    """Token counts of a column, computed once and shared by all packings of the same rows.

    Args:
        rows: returns the plan of the rows after the filter.
        threads: number of reading threads.
    """

    def __init__(self, rows: Callable[[], RowPlan], threads: int) -> None:
        self._rows, self._threads = rows, max(threads, 1)
        self._found: dict[tuple[int, bool, bool], Lengths] = {}

    def of_column(self, column: int, *, is_stated: bool, nulls_are_empty: bool) -> Lengths:
        """Return lengths from the lists of a column, or from a column that contains the lengths."""
        key = column, is_stated, nulls_are_empty
        if key not in self._found:
            self._found[key] = Lengths(
                self._rows(),
                column=column,
                is_stated=is_stated,
                nulls_are_empty=nulls_are_empty,
                threads=self._threads,
            )
            for warning in self._found[key].warnings:
                warn_caller(warning)
        return self._found[key]
