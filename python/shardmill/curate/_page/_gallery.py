"""The part of the page that shows files.

These are documents of the output, and images of the input that a filter dropped. Damage is not an
error here: a file that cannot be read has nothing to show.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardmill._native import images as native
from shardmill.curate._documents import Document, Entry, documents, light_columns
from shardmill.curate._pictures import image_format, image_size
from shardmill.errors import Error

if TYPE_CHECKING:
    from shardmill.curate._report import Report

_MOST_ENTRIES = 8
_MOST_REJECTED = 10
# Number of documents of a file that are considered before the most informative ones are chosen.
_CANDIDATES = 32
_CANDIDATE_ROWS = 4_096
_TELLING_LENGTH = 6
_MOST_IMAGES = 400
_ROWS_AT_ONCE = 16
_DAMAGE = (Error, OSError, ValueError, LookupError)


@dataclass(frozen=True)
class Image:
    """An image of a file; ``payload`` is None if a document lists one that has no bytes."""

    payload: bytes | None
    name: str

    @property
    def size(self) -> tuple[int, int] | None:
        """Width and height from the header, if both are available."""
        size = image_size(self.payload) if self.payload else None
        return size if size and size[1] else None

    @property
    def ratio(self) -> float:
        """Width over height; 0 if the size is unknown."""
        return self.size[0] / self.size[1] if self.size else 0.0

    @property
    def kind(self) -> str:
        """The format, as shown in captions."""
        kind = image_format(self.payload or b"")
        return "image" if kind is None else "WebP" if kind == "webp" else kind.upper()


def document_cards(report: Report, count: int) -> list[dict[str, Any]]:
    """Return up to ``count`` documents, with the first of their texts and images.

    They come from as many output files as possible.
    """
    files = [output["path"] for output in report.outputs if output["rows"]][:count]
    found: list[dict[str, Any]] = []
    for index, path in enumerate(files):
        # Later files make up for earlier ones that have too few.
        share = -(-(count - len(found)) // (len(files) - index))
        with suppress(*_DAMAGE):
            found += _cards(path, share)
    return found


def rejected_images(report: Report, low: float, high: float) -> list[Image]:
    """Return images of the input with a ratio outside of ``low`` … ``high``.

    The ratios come from the same headers as in the run.
    """
    images = (
        image for split in report.splits for path in split["files"] for image in _images(path)
    )
    rejected = (
        image
        for image in islice(images, _MOST_IMAGES)
        if image.size and not low <= image.ratio <= high
    )
    return list(islice(rejected, _MOST_REJECTED))


def _cards(path: str, count: int) -> list[dict[str, Any]]:
    from shardmill import Dataset

    columns = Dataset(path).columns
    light = Dataset(path, columns=light_columns(columns))
    found = islice(documents(light, 0, min(len(light), _CANDIDATE_ROWS), columns), _CANDIDATES)
    candidates = [
        Document(
            document.sample_id,
            [entry for entry in document.entries if entry.modality in ("text", "image")],
        )
        for document in found
    ]
    best = sorted(range(len(candidates)), key=lambda at: _telling(candidates[at]), reverse=True)[
        :count
    ]
    chosen = [candidates[at] for at in sorted(best)]
    column_of = cache(lambda name: Dataset(path, columns=[name]))

    def content(entry: Entry) -> str | Image:
        if entry.modality == "text":
            return entry.text.as_py() or ""
        payload = (
            column_of(entry.column).take([entry.row]).column(0)[0].as_py() if entry.column else None
        )
        return Image(payload, entry.name)

    return [
        {
            "document": document,
            "file": Path(path).name,
            "entries": [
                (entry.position, content(entry)) for entry in document.entries[:_MOST_ENTRIES]
            ],
        }
        for document in chosen
    ]


def _telling(document: Document) -> tuple[bool, int, int]:
    """Return a sort key that is largest for the most informative documents.

    These have text and several images, and are neither tiny nor very long.
    """
    entries = document.entries
    texts = sum(entry.modality == "text" for entry in entries)
    return (
        0 < texts < len(entries),
        min(len(entries) - texts, 3),
        -abs(len(entries) - _TELLING_LENGTH),
    )


def _images(path: str) -> Iterator[Image]:
    """Yield all images of a file, page by page."""
    from shardmill import Dataset

    with suppress(*_DAMAGE):
        schema = Dataset(path).schema
        identity = "__key__" if "__key__" in schema.names else "sample_id"
        binary = [field.name for field in schema if str(field.type).endswith("binary")]
        dataset = Dataset(path, columns=[identity, *binary])
        for first in range(0, len(dataset) if binary else 0, _ROWS_AT_ONCE):
            batch = dataset.take(range(first, min(first + _ROWS_AT_ONCE, len(dataset))))
            for at, sample in enumerate(batch.columns[0].to_pylist()):
                for name, values in zip(binary, batch.columns[1:], strict=True):
                    if values[at].is_valid:
                        yield from _pages(
                            f"{name} of {sample} in {Path(path).name}", values[at].as_py()
                        )


def _pages(name: str, payload: bytes) -> Iterator[Image]:
    if image_format(payload) != "tiff":
        yield Image(payload, name)
        return
    with suppress(ValueError):
        for page in range(native.tiff_pages(payload)):
            with suppress(ValueError):
                yield Image(native.extract_page(payload, page), f"{name}, page {page + 1}")
