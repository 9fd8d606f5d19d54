"""The data set of one page: as it was opened, with the conditions applied to it.

Rows of files that changed after they were opened are never mixed with earlier rows.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Literal

from shardmill.errors import OptionError
from shardmill.expressions import Expression
from shardmill.storage._paths import path_of
from shardmill.view._numbering import Division, Rows
from shardmill.view._packs import Packs
from shardmill.view._query import Refused
from shardmill.view._step_costs import StepCosts
from shardmill.view._token_columns import TokenColumns
from shardmill.view._token_texts import TokenTexts

if TYPE_CHECKING:
    from shardmill import Dataset, Images, Packing, Sequences, Tokenize
    from shardmill.data._dataset import Format

_CONDITIONS_KEPT = 4
_SUBSETS_KEPT = 16
_CHANGED = "The files changed after they were opened. Reload the page to see the current files."

#: Size, time and inode of a file by its path; None for a glob, an object of a store,
#: and a missing file.
_Facts = dict[str, tuple[int, int, int] | None]


@dataclass(frozen=True)
class Source:
    """What to open, as arguments of ``shardmill.Dataset``, and how to show it.

    Attributes:
        paths: as for ``Dataset``; so are the next five.
        columns: names of the columns.
        filter: the rows to show.
        format: format of the files.
        partitioning: ``"hive"`` or None.
        ignore_zeros: for tars.
        tokenize: how tokens are computed; the page shows them beside the columns of the files.
        tokens: the columns of the files that contain tokens; not together with ``tokenize``.
        sequences: how documents become tokens and pixels, for the page of packs; not together with
            ``tokenize`` or ``tokens``.
        packing: how the tokens are packed, for the page of packs.
        images: how a loader computes pixels, for the page of pixels.
        seed: the seed of that loader.
        world_size: number of ranks whose work the page of packs compares, if the packing has a
            balance. The packs themselves are shown in the order of packing.
    """

    paths: Sequence[str]
    columns: Sequence[str] | None = None
    filter: Expression | None = None
    format: Format | None = None
    partitioning: Literal["hive"] | None = None
    ignore_zeros: bool = False
    tokenize: Tokenize | None = None
    tokens: TokenColumns | None = None
    sequences: Sequences | None = None
    packing: Packing | None = None
    images: Images | None = None
    seed: int = 0
    world_size: int = 1

    @property
    def token_columns(self) -> TokenColumns | None:
        """The columns of tokens, whether computed or stored."""
        computed = self.tokenize or self.sequences
        return self.tokens if computed is None else TokenColumns.computed(computed)

    @property
    def joins_rows(self) -> bool:
        """Whether a document of ``sequences`` consists of several rows."""
        sequences = self.sequences
        return sequences is not None and not sequences.parts and sequences.messages is None

    def open(
        self,
        *,
        columns: Sequence[str] | None = None,
        condition: Expression | None = None,
        tokenize: Tokenize | None = None,
        sequences: Sequences | None = None,
        images: Images | None = None,
    ) -> Dataset:
        """Open the data set, with other columns or fewer rows."""
        from shardmill import Dataset

        columns = columns if columns is not None else self.columns
        conditions = [part for part in (self.filter, condition) if part is not None]
        with warnings.catch_warnings():
            # The page itself shows that a data set is empty.
            warnings.simplefilter("ignore")
            return Dataset(
                self.paths[0] if len(self.paths) == 1 else list(self.paths),
                columns=None if columns is None else list(columns),
                filter=reduce(lambda one, other: one & other, conditions) if conditions else None,
                format=self.format,
                partitioning=self.partitioning,
                ignore_zeros=self.ignore_zeros,
                tokenize=tokenize,
                sequences=sequences,
                images=() if images is None else images,
            )


class Opened:
    """The data set at one point in time.

    Raises:
        OptionError: If the columns of tokens do not fit.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.dataset = source.open()
        files = self.dataset.files
        self.facts = _stated(files)
        self._directories = _stated(
            {str(Path(file).parent) for file in files} | {path_of(path) for path in source.paths}
        )
        self._lock = RLock()
        self._shown: Rows | None = None
        self._subset = lru_cache(_SUBSETS_KEPT)(lambda columns: self._again(columns=columns))
        self._division = lru_cache(_CONDITIONS_KEPT)(self._divided)
        #: Indices and values of the rows of the latest page, so that showing
        #: its images does not read files again.
        self.recent: list[tuple[Sequence[int], Any]] = []
        #: The same rows with their tokens, and labels if there are any; ``None`` for documents.
        self.token_rows: Dataset | None = None
        self.texts: TokenTexts | None = None
        self.packs: Packs | None = None
        self.step_costs: StepCosts | None = None
        self._open_tokens()
        self._pixels: tuple[Images, Dataset] | None = None
        if source.images is not None:
            # As the page delivers them: one byte a channel, the channels last.
            images = replace(source.images, dtype="uint8", normalize=None, layout="HWC")
            self._pixels = images, self._again(columns=[images.column], images=images)

    def _open_tokens(self) -> None:
        source, columns = self.source, self.source.token_columns
        if source.packing is not None and (
            columns is None or columns.tokens not in source.packing.columns
        ):
            raise OptionError(
                "packing requires a column of tokens among the packed columns\n"
                "hint: pass tokenize= or tokens=, and name that column in Packing"
            )
        if columns is None:
            return
        self.texts = TokenTexts(columns)
        if source.sequences is not None:
            self._open_documents(source.sequences)
            return
        self.token_rows = self._again(columns=columns.names, tokenize=source.tokenize)
        if self.token_rows.files:
            columns.check(self.token_rows.schema)
        if source.packing is None:
            return
        self.packs = Packs(self.token_rows, replace(source.packing, balance=None))
        if source.packing.balance is not None and source.world_size > 1:
            self.step_costs = StepCosts(self.token_rows, source.packing, source.world_size)

    def _open_documents(self, sequences: Sequences) -> None:
        packing = self.source.packing
        if packing is None:
            raise OptionError("sequences requires packing\nhint: pass packing=sm.Packing(…)")
        # The page shows uint8 pixels without padding.
        output = replace(sequences.image_output, dtype="uint8", pad=False)
        sequences = replace(sequences, image_output=output)
        documents = self._again(columns=sequences.outputs, sequences=sequences)
        self.packs = Packs(documents, replace(packing, balance=None), sequences.images)

    def is_unchanged(self, *, is_complete: bool = False) -> bool:
        """Return whether no file has changed.

        With ``is_complete``, also whether no directory gained or lost files, as far as its time
        shows it.
        """
        is_same = _stated(self.facts) == self.facts
        return is_same and (not is_complete or _stated(self._directories) == self._directories)

    def subset(self, columns: Sequence[str]) -> Dataset:
        """Return the same rows with fewer columns."""
        return (
            self.dataset if list(columns) == self.dataset.columns else self._subset(tuple(columns))
        )

    @property
    def images(self) -> Images:
        """How the page of pixels computes them.

        Raises:
            Refused: If the data set is not shown as pixels.
        """
        return self._shown_as_pixels()[0]

    def _shown_as_pixels(self) -> tuple[Images, Dataset]:
        if self._pixels is None:
            raise Refused(404, "this data set is not shown as pixels\nhint: pass --image-size")
        return self._pixels

    def pixels_of(self, row: int, epoch: int) -> dict[str, Any]:
        """Return the batch of one row in file order, as a loader delivers it in an epoch."""
        from shardmill import Loader, Runtime

        _, rows = self._shown_as_pixels()
        # Without threads: the page asks for many rows at the same time.
        loader = Loader(
            rows,
            batch_size=1,
            seed=self.source.seed,
            rank=0,
            world_size=1,
            output="numpy",
            runtime=Runtime(threads=0),
        )
        loader.set_epoch(epoch)
        loader.skip(row)
        return next(iter(loader))

    def place_of(self, position: int) -> tuple[str, int]:
        """Return the file of a row and the row in it."""
        return self._rows_shown().place(position)

    def places_of(self, positions: Sequence[int]) -> list[dict[str, Any]]:
        """Return the file of each row, and the row in it."""
        places = [(position, *self.place_of(position)) for position in positions]
        return [{"row": position, "file": file, "file_row": row} for position, file, row in places]

    def position_of(self, file: str, row: int) -> int | None:
        """Return the position of a row of a file.

        It is None if the file's name or a filter does not tell it.
        """
        return self._rows_shown().position_in(file, row)

    def division(self, condition: Expression) -> Division:
        """Return the rows that ``condition`` keeps and drops.

        The columns that it uses are read once.
        """
        return self._division(json.dumps(condition.tree, sort_keys=True), condition.text)

    def _divided(self, tree: str, text: str) -> Division:
        kept = self._again(condition=Expression(json.loads(tree), text))
        return Division(self._rows_shown(), self._rows(kept))

    def _again(self, **options: Any) -> Dataset:
        """Open the same files with other options.

        Raises:
            Refused: If the files have changed.
        """
        dataset = self.source.open(**options)
        if not set(dataset.files) <= set(self.dataset.files):
            raise Refused(409, _CHANGED)
        return dataset

    def _rows_shown(self) -> Rows:
        with self._lock:
            if self._shown is None:
                self._shown = self._rows(self.dataset)
            return self._shown

    def _rows(self, dataset: Dataset) -> Rows:
        # A filter on a partition skips files.
        whole = (
            self.dataset if self.source.filter is None else replace(self.source, filter=None).open()
        )
        return Rows(dataset, whole)


class Session:
    """Open the data set, and open it again after it has changed.

    Raises:
        shardmill.Error: If it cannot be opened.
    """

    def __init__(self, source: Source) -> None:
        self._lock = RLock()
        self._opened = Opened(source)

    def opened(self, *, is_new: bool = False) -> Opened:
        """Return the data set as the page knows it, or the current one for a page that is reloaded.

        Raises:
            Refused: If files changed since the page was loaded.
        """
        with self._lock:
            if not self._opened.is_unchanged(is_complete=is_new):
                if not is_new:
                    raise Refused(409, _CHANGED)
                self._opened = Opened(self._opened.source)
            return self._opened


def _stated(paths: Any) -> _Facts:
    facts: _Facts = {}
    for path in paths:
        try:
            status = os.stat(path)  # noqa: PTH116 - thousands of files, before each page
            facts[path] = (status.st_size, status.st_mtime_ns, status.st_ino)
        except OSError:
            facts[path] = None
    return facts
