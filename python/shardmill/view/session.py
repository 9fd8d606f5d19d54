"""The data set behind one page: as it was opened, with the conditions that were put to it.

Files are held against what they were when they were opened; rows of files that changed are never mixed with those from before.
"""

from __future__ import annotations

import json
import os
import warnings
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from threading import RLock
from typing import Any

from shardmill.expressions import Expression
from shardmill.storage import path_of
from shardmill.view.errors import Refused
from shardmill.view.images import ImageStore
from shardmill.view.numbering import Division, FileOrder, FileRows, Rows

_CONDITIONS_KEPT = 4
_SUBSETS_KEPT = 16
_CHANGED = "The files changed after they were opened. Reload the page to see them as they are."


@dataclass(frozen=True)
class Source:
    """What is to be opened, by the arguments of :class:`shardmill.Dataset`."""

    paths: Sequence[str]
    columns: Sequence[str] | None = None
    filter: Expression | None = None
    format: str | None = None
    partitioning: str | None = None
    ignore_zeros: bool = False

    def open(
        self, *, columns: Sequence[str] | None = None, condition: Expression | None = None, is_whole: bool = False
    ) -> Any:
        """The data set, with fewer columns, fewer rows, or without the filter of the source."""
        from shardmill import Dataset

        chosen = columns if columns is not None else self.columns
        parts = [part for part in (None if is_whole else self.filter, condition) if part is not None]
        with warnings.catch_warnings():
            # An empty set is said on the page.
            warnings.simplefilter("ignore")
            return Dataset(
                list(self.paths),
                columns=None if chosen is None else list(chosen),
                filter=parts[0] & parts[1] if len(parts) == 2 else parts[0] if parts else None,
                format=self.format,
                partitioning=self.partitioning,
                ignore_zeros=self.ignore_zeros,
            )


class Opened:
    """The data set as it was at one moment."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.dataset = source.open()
        self._files = _facts(self.dataset.files)
        self._folders = _facts(_folders(self.dataset.files, source.paths))
        self._lock = RLock()
        self._divisions: OrderedDict[str, Division] = OrderedDict()
        self._subsets: OrderedDict[tuple[str, ...], Any] = OrderedDict()
        self._shown: tuple[FileOrder, Rows] | None = None
        self.images = ImageStore()
        self.answers: dict[str, Any] = {}

    @property
    def stored_bytes(self) -> int:
        """Of all files that can be asked for their size."""
        return sum(facts[0] for facts in self._files.values() if facts)

    def is_unchanged(self) -> bool:
        """Whether every file is still what it was."""
        return _facts(self.dataset.files) == self._files

    def is_complete(self) -> bool:
        """Whether no folder has got or lost a file, as far as its time tells."""
        return _facts(_folders(self.dataset.files, self._source.paths)) == self._folders

    def subset(self, columns: Sequence[str]) -> Any:
        """The same rows with fewer columns."""
        key = tuple(columns)
        if key == tuple(self.dataset.columns):
            return self.dataset
        with self._lock:
            if key not in self._subsets:
                self._subsets[key] = self._again(columns=key)
                if len(self._subsets) > _SUBSETS_KEPT:
                    self._subsets.popitem(last=False)
            return self._subsets[key]

    def take(self, numbers: Sequence[int], columns: Sequence[str] | None = None) -> Any:
        """Rows by number, as a record batch."""
        return (self.dataset if columns is None else self.subset(columns)).take(numbers)

    def place_of(self, position: int) -> tuple[str, int]:
        """File and row in it."""
        order, shown = self._numbering()
        return order.file_of(shown.number(position))

    def division(self, condition: Expression) -> Division:
        """Rows that ``condition`` keeps and rows that it drops; reads the columns that it names, once."""
        key = json.dumps(condition.tree, sort_keys=True)
        with self._lock:
            if key in self._divisions:
                self._divisions.move_to_end(key)
                return self._divisions[key]
        order, shown = self._numbering()
        division = Division(shown, self._rows(self._again(condition=condition), order))
        with self._lock:
            self._divisions[key] = division
            if len(self._divisions) > _CONDITIONS_KEPT:
                self._divisions.popitem(last=False)
        return division

    def _again(self, **options: Any) -> Any:
        """The same files, opened with other options.

        Raises:
            Refused: when there are others by now.
        """
        dataset = self._source.open(**options)
        if not set(dataset.files) <= set(self.dataset.files):
            raise Refused(409, _CHANGED)
        return dataset

    def _numbering(self) -> tuple[FileOrder, Rows]:
        with self._lock:
            if self._shown is None:
                whole = self.dataset if self.dataset.filter is None else self._again(is_whole=True)
                order = FileOrder(whole)
                self._shown = (order, self._rows(self.dataset, order))
            return self._shown

    def _rows(self, dataset: Any, order: FileOrder) -> Rows:
        if dataset.filter is None or order.has_distinct_names:
            return Rows(dataset, order)
        lengths = []
        for path in self.dataset.files:
            alone = Source([path], format=self.dataset.format)
            lengths.append((len(alone.open()), len(alone.open(condition=dataset.filter))))
        return FileRows(dataset, order, lengths)


class Session:
    """Opens the data set, and opens it again when it changed.

    Args:
        source: what to open.

    Raises:
        shardmill.Error: when it cannot be opened.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self._lock = RLock()
        self._opened = Opened(source)

    def latest(self) -> Opened:
        """The data set as it is now."""
        with self._lock:
            if not (self._opened.is_unchanged() and self._opened.is_complete()):
                self._opened = Opened(self.source)
            return self._opened

    def opened(self) -> Opened:
        """The data set as the page knows it.

        Raises:
            Refused: when files changed since.
        """
        with self._lock:
            if not self._opened.is_unchanged():
                raise Refused(409, _CHANGED)
            return self._opened


def _folders(files: Sequence[str], paths: Sequence[str]) -> list[str]:
    return sorted({str(FilePath(file).parent) for file in files} | {path_of(path) for path in paths})


def _facts(paths: Sequence[str]) -> dict[str, tuple[int, int, int] | None]:
    """Size, time and number of each file; a folder's time tells of new files."""
    facts: dict[str, tuple[int, int, int] | None] = {}
    for path in paths:
        try:
            status = os.stat(path)  # noqa: PTH116 - thousands of them, before each page
            facts[path] = (status.st_size, status.st_mtime_ns, status.st_ino)
        except OSError:
            # A glob, an object store, or gone.
            facts[path] = None
    return facts
