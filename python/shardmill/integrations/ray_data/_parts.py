"""Divides the rows of files among tasks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

#: Formats whose files are read from their start, and so are never divided.
_STREAMS = ("csv", "jsonl")
_COMPRESSED = (".gz", ".tgz", ".zst", ".zstd", ".br", ".bz2", ".snappy", ".xz")
#: Size of a range at least. Each task of a file reads its metadata again, and the blocks of rows at
#: its borders; Ray divides what a task returns.
RANGE_BYTES = 32 << 20
#: A border this close to that of a file moves there, as a fraction of a task.
_NEAR = 0.25


@dataclass(frozen=True)
class File:
    """A file of a data set.

    Attributes:
        path: its path.
        size: its size in bytes.
        rows: number of its rows.
    """

    path: str
    size: int
    rows: int


@dataclass(frozen=True)
class Part:
    """Rows that a task reads: those of whole files, or a range of the rows of one file.

    Attributes:
        first: index of the first file in the data set.
        files: consecutive files.
        start: first row.
        stop: row after the last one, or ``None`` for all rows of the files.
    """

    first: int
    files: tuple[File, ...]
    start: int = 0
    stop: int | None = None

    @property
    def rows(self) -> int:
        """Number of rows, without a filter."""
        end = sum(file.rows for file in self.files) if self.stop is None else self.stop
        return end - self.start


def divided(
    files: Sequence[File], tasks: int, format: str | None, *, by_file: bool
) -> list[list[Part]]:
    """Divide the rows into at most ``tasks`` lists of parts with similar sizes, in order.

    Args:
        files: the files of a data set.
        tasks: number of lists; fewer if files would be divided into ranges that are too small.
        format: their format.
        by_file: whether all files stay whole.
    """
    share = max(sum(map(_weight, files)) / max(tasks, 1), 1)
    pieces: dict[int, list[tuple[int, int, int]]] = {}
    begun = 0.0
    for number, file in enumerate(files):
        is_whole = by_file or format in _STREAMS or file.path.lower().endswith(_COMPRESSED)
        step = math.inf if is_whole else max(math.ceil(RANGE_BYTES / share), 1)
        for task, start, stop in _pieces(file, begun / share, _weight(file) / share, step):
            pieces.setdefault(min(task, tasks - 1), []).append((number, start, stop))
        begun += _weight(file)
    return [list(_joined(files, pieces[task])) for task in sorted(pieces)]


def _weight(file: File) -> int:
    return max(file.size, 1) if file.rows else 0


def _pieces(file: File, begun: float, length: float, step: float) -> Iterator[tuple[int, int, int]]:
    """Yield task, first row and end of each piece of a file.

    Args:
        file: the file.
        begun: where it begins, measured in tasks.
        length: its length in tasks.
        step: the least length of a piece in tasks.
    """
    if not file.rows:
        return
    if step > length / 2 or length <= _NEAR:
        yield int(begun + length / 2), 0, file.rows
        return
    first, last = int(begun + _NEAR), max(int(begun + _NEAR), int(begun + length - _NEAR))
    start = 0
    for task in range(first, last + 1, int(step)):
        end = file.rows * max(task + step - begun, 0) / length
        stop = file.rows if task + step > last else round(end)
        if start < stop:
            yield task, start, stop
        start = stop


def _joined(files: Sequence[File], pieces: list[tuple[int, int, int]]) -> Iterator[Part]:
    """Yield the parts of a task; whole files that follow one another are one part."""
    is_whole = [(start, stop) == (0, files[number].rows) for number, start, stop in pieces]
    for whole, group in groupby(zip(pieces, is_whole, strict=True), key=lambda pair: pair[1]):
        found = [piece for piece, _ in group]
        if whole:
            numbers = [number for number, _, _ in found]
            # Files without rows in between are left out, so numbers may have gaps.
            runs = groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])
            for _, run in runs:
                own = [number for _, number in run]
                yield Part(own[0], tuple(files[number] for number in own))
        else:
            for number, start, stop in found:
                yield Part(number, (files[number],), start, stop)
