"""Maps row n of a filtered data set to the row over all files, and back.

The plan of a data set knows this without reading rows, so a page of kept or dropped rows costs a
few look-ups for a data set of any size.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from functools import lru_cache, partial
from itertools import accumulate
from typing import TYPE_CHECKING

from shardmill.data._dataset import opened_files

if TYPE_CHECKING:
    from shardmill import Dataset

_PLACES_AT_ONCE = 256
_ANSWERS_KEPT = 64


class Rows:
    """The rows of a data set in order, each with its index among the rows of all files.

    Args:
        dataset: with or without a filter.
        whole: the same files without a filter.
    """

    def __init__(self, dataset: Dataset, whole: Dataset) -> None:
        self._files = files = [
            (name, rows) for _, name, _, rows in opened_files(whole).native.files
        ]
        self._firsts = [0, *accumulate(rows for _, rows in files)]
        self._by_name = {
            name: first for (name, rows), first in zip(files, self._firsts, strict=False) if rows
        }
        self._counts = Counter(name for name, rows in files if rows)
        # Files are told apart by the rows that they keep: several may have the same name below
        # their roots.
        plan = opened_files(dataset).row_plan()
        kept = dict(zip(dataset.files, plan.rows_of_files, strict=True))
        self._ends = list(accumulate(kept.get(path, 0) for path in whole.files))
        self._is_whole = dataset.row_filter is None
        self._length = len(dataset)
        self._plan = plan.ordered(window_bytes=None, seed=0, lanes=1)
        self._numbers = lru_cache(_ANSWERS_KEPT)(self._explained)

    def __len__(self) -> int:
        return self._length

    def number(self, position: int) -> int:
        """Return the index of the row at ``position``; it grows with ``position``."""
        if self._is_whole:
            return position
        step, place = divmod(position, _PLACES_AT_ONCE)
        return self._numbers(step)[place]

    def position(self, number: int) -> int:
        """Return the position of the first row whose index is not below ``number``."""
        if self._is_whole:
            return min(number, self._length)
        return bisect_left(range(self._length), number, key=self.number)

    def place(self, position: int) -> tuple[str, int]:
        """Return the file of a row, and the index of the row in it."""
        number = self.number(position)
        file = bisect_right(self._firsts, number) - 1
        return self._files[file][0], number - self._firsts[file]

    def position_in(self, file: str, row: int) -> int | None:
        """Return the position of a row of a file.

        It is None for a filtered data set, and if several files have this name.
        """
        return self._by_name[file] + row if self._is_whole and self._counts[file] == 1 else None

    def _explained(self, step: int) -> list[int]:
        share = {"batch_size": _PLACES_AT_ONCE, "world_size": 1, "rank": 0, "tail": "uneven"}
        runs = self._plan.explain(0, step, share, [])["rows"] or []
        rows = (row for _, first, count in runs for row in range(first, first + count))
        places = enumerate(rows, step * _PLACES_AT_ONCE)
        return [self._firsts[bisect_right(self._ends, at)] + row for at, row in places]


class Division:
    """The rows that a condition keeps and drops, by their positions among the rows shown.

    A row is dropped if the condition is unknown because of a null.
    """

    def __init__(self, shown: Rows, kept: Rows) -> None:
        self._shown, self._kept = shown, kept
        self.kept_count = len(kept)
        self.dropped_count = len(shown) - len(kept)

    def kept(self, start: int, count: int) -> list[int]:
        """Return kept rows, starting with row ``start`` of them."""
        return [
            self._position(place) for place in range(start, min(start + count, self.kept_count))
        ]

    def dropped(self, start: int, count: int) -> list[int]:
        """Return dropped rows, starting with row ``start`` of them."""
        end = min(start + count, self.dropped_count)
        # Before the kept row at `at` there are `position - at` dropped rows, which never decreases.
        before = partial(
            bisect_right, range(self.kept_count), key=lambda at: self._position(at) - at
        )
        return [place + before(place) for place in range(start, end)]

    def is_kept(self, start: int, count: int) -> list[bool]:
        """Return whether each row from ``start`` on is kept."""
        place = self._kept.position(self._shown.number(start)) if count else 0
        kept = set(self.kept(place, count))
        return [row in kept for row in range(start, start + count)]

    def _position(self, place: int) -> int:
        return self._shown.position(self._kept.number(place))
