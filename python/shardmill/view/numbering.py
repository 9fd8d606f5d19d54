"""Which row of the whole set is the n-th row of a filtered one, and back.

The plan of a data set knows this without reading a row, so a page of kept or of dropped rows costs a few look-ups however large the set is.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable
from itertools import accumulate
from typing import Any

# Places are asked for by so many at once, and so many answers are kept.
_PLACES_AT_ONCE = 256
_ANSWERS_KEPT = 64


class FileOrder:
    """Numbers the rows of all files, one file after the other.

    Args:
        dataset: without a filter.
    """

    def __init__(self, dataset: Any) -> None:
        self._runs: list[tuple[str, int]] = []
        first = 0
        for name, count in dataset.file_rows:
            if count:
                self._runs.append((name, first))
            first += count
        self._firsts = dict(self._runs)

    @property
    def has_distinct_names(self) -> bool:
        """False where files of several folders share a name, as in a list of files."""
        return len(self._firsts) == len(self._runs)

    def number(self, name: str, row: int) -> int:
        """Of a row of a file."""
        return self._firsts[name] + row

    def file_of(self, number: int) -> tuple[str, int]:
        """The file of a row, and the row's number in it."""
        name, first = self._runs[bisect_right(self._runs, number, key=lambda run: run[1]) - 1]
        return name, number - first


class Rows:
    """The rows of a data set in order, each with its number among the rows of all files."""

    def __init__(self, dataset: Any, order: FileOrder) -> None:
        self._order = order
        self._explain = _explained(dataset, _PLACES_AT_ONCE)
        self._answers: OrderedDict[int, list[int]] = OrderedDict()
        self._length = len(dataset)
        self._is_whole = dataset.filter is None

    def __len__(self) -> int:
        return self._length

    def number(self, position: int) -> int:
        """Of the row at ``position``; grows with it."""
        if self._is_whole:
            return position
        step, place = divmod(position, _PLACES_AT_ONCE)
        answer = self._answers.get(step)
        if answer is None:
            runs = self._explain(step)
            answer = [self._order.number(name, row + more) for name, row, count in runs for more in range(count)]
            self._answers[step] = answer
            if len(self._answers) > _ANSWERS_KEPT:
                self._answers.popitem(last=False)
        return answer[place]

    def position(self, number: int) -> int:
        """Of the first row whose number is not below ``number``."""
        if self._is_whole:
            return min(number, self._length)
        return bisect_left(range(self._length), number, key=self.number)


class FileRows(Rows):
    """As :class:`Rows`, for files that share names: each is opened alone to learn how many rows it has and keeps.

    Args:
        dataset: the filtered set.
        order: of the whole set.
        lengths: for each file, its rows and its rows that the filter keeps.
    """

    def __init__(self, dataset: Any, order: FileOrder, lengths: list[tuple[int, int]]) -> None:
        super().__init__(dataset, order)
        self._ends = list(accumulate(kept for _, kept in lengths))
        self._firsts = [0, *accumulate(rows for rows, _ in lengths)]

    def number(self, position: int) -> int:
        """Of the row at ``position``; grows with it."""
        if self._is_whole:
            return position
        ((_, row, _),) = self._explain(position, batch_size=1)
        return self._firsts[bisect_right(self._ends, position)] + row


class Division:
    """The rows that a condition keeps beside those that it drops, by their positions in what is shown."""

    def __init__(self, shown: Rows, kept: Rows) -> None:
        self._shown, self._kept = shown, kept

    @property
    def kept_count(self) -> int:
        """How many rows are kept."""
        return len(self._kept)

    @property
    def dropped_count(self) -> int:
        """How many are not, also those for which the condition is unknown because of a null."""
        return len(self._shown) - len(self._kept)

    def kept(self, start: int, count: int) -> list[int]:
        """Kept rows, from the ``start``-th on."""
        return [self._position(place) for place in range(start, min(start + count, self.kept_count))]

    def dropped(self, start: int, count: int) -> list[int]:
        """Dropped rows, from the ``start``-th on."""
        end = min(start + count, self.dropped_count)
        if start >= end:
            return []
        # Before the kept row at `at` there are `position - at` dropped ones, which never becomes less.
        before = bisect_right(range(self.kept_count), start, key=lambda at: self._position(at) - at)
        rows = []
        for place in range(start, end):
            while before < self.kept_count and self._position(before) <= place + before:
                before += 1
            rows.append(place + before)
        return rows

    def is_kept(self, start: int, count: int) -> list[bool]:
        """Of each row from ``start`` on."""
        place = self._kept.position(self._shown.number(start)) if count else 0
        kept = set(self.kept(place, count))
        return [row in kept for row in range(start, start + count)]

    def _position(self, place: int) -> int:
        return self._shown.position(self._kept.number(place))


def _explained(dataset: Any, batch_size: int) -> Callable[..., list[tuple[str, int, int]]]:
    from shardmill import Loader

    loader = Loader(dataset, batch_size=batch_size, output="arrow", rank=0, world_size=1, threads=0, tail="uneven")
    return lambda step, **other: loader.explain(step=step, **other)["rows"] or []
