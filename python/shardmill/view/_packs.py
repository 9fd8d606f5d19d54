"""Packs of a data set, as a loader would deliver them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any

from shardmill.view._packed_pictures import PackedPicture, pictures_of
from shardmill.view._query import Refused

if TYPE_CHECKING:
    from shardmill import Dataset, ImageTokens, Packing

_PACKS_KEPT = 8


@dataclass(frozen=True)
class Pack:
    """One pack.

    Attributes:
        number: its number in the epoch.
        pieces: file, row, first token and number of tokens of each document.
        columns: the packed columns by name, as Arrow arrays.
        pictures: the images of the documents.
    """

    number: int
    pieces: Sequence[tuple[str, int, int, int]]
    columns: dict[str, Any]
    pictures: Sequence[PackedPicture]


class Packs:
    """The packs of a data set in file order. The first call counts the tokens of all rows.

    Args:
        dataset: its rows have the columns of the packing.
        packing: how the rows are packed.
        images: the rule by which images become tokens, if rows are documents with images.
    """

    def __init__(
        self, dataset: Dataset, packing: Packing, images: ImageTokens | None = None
    ) -> None:
        from shardmill import Loader, Output, Runtime

        self.packing = packing
        self._images = images
        self._loader = Loader(
            dataset,
            batch_size=1,
            packing=packing,
            output=Output("numpy", nulls="fill"),
            rank=0,
            world_size=1,
            tail="uneven",
            # One pack, without prefetching more.
            runtime=Runtime(threads=0, prefetch_bytes=1),
        )
        self._first: tuple[dict[str, Any], dict[str, Any]] | None = None
        # A loader has one position.
        self._lock = Lock()
        self._packs = lru_cache(_PACKS_KEPT)(self._read)

    def epoch(self) -> dict[str, Any]:
        """Return what the loader explains about the epoch."""
        with self._lock:
            return self._start()[0]

    def pack(self, number: int) -> Pack:
        """Return one pack.

        Raises:
            Refused: If there is no such pack.
        """
        with self._lock:
            return self._packs(number)

    def _start(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the plan and the state at the start of the epoch."""
        if self._first is None:
            self._first = self._loader.explain(step=0, epoch=0), self._loader.state_dict()
        return self._first

    def _read(self, number: int) -> Pack:
        import pyarrow as pa

        plan, state = self._start()
        if number >= plan["packs_of_epoch"]:
            raise Refused(404, "there is no such pack")
        explained = self._loader.explain_table(step=number, epoch=0).drop_columns("pack")
        pieces = list(zip(*explained.to_pydict().values(), strict=True))
        self._loader.load_state_dict(state | {"consumed": number})
        batch = next(iter(self._loader))
        columns = {name: pa.array(batch[name][0]) for name in self.packing.columns}
        pictures = pictures_of(batch, self._images) if self._images else []
        return Pack(number, pieces, columns, pictures)
