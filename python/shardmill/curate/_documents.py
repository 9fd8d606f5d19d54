"""Interleaved documents of a data set: texts and images in reading order.

A document is a run of rows with one ``sample_id``, as curation writes them to Parquet (a metadata
row starts a new one), or a sample whose JSON has parallel lists ``texts`` and ``images``. Images
are identified by row and column; their bytes are not read.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardmill import Dataset

#: Number of rows among which the start of a document is searched.
MOST_ROWS = 4_096

_MARKS = ("sample_id", "position", "modality")
_BODIES = ("text_content", "binary_content")
_ROWS_AT_ONCE = 256


@dataclass(frozen=True)
class Entry:
    """One text or image of a document, or one of its metadata rows.

    Attributes:
        row: index of the row in the data set.
        position: position in the document; positions may have gaps.
        modality: ``text``, ``image``, ``metadata`` or another.
        text: the text, a ``pyarrow.Scalar``.
        column: the column of the image bytes; None if no column holds them.
        page: page of the TIFF in that column.
        name: the name of the image in the list of the sample.
        facts: columns that the format does not define, by name.
    """

    row: int
    position: int
    modality: str
    text: Any = None
    column: str | None = None
    page: int | None = None
    name: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Document:
    """One sample in reading order."""

    sample_id: str
    entries: list[Entry]


def is_interleaved(columns: Collection[str]) -> bool:
    """Return whether rows are texts and images of documents."""
    return {*_MARKS, "text_content"} <= set(columns)


def light_columns(columns: Sequence[str]) -> list[str]:
    """Return the columns that ``documents`` reads: all except image bytes."""
    is_run = is_interleaved(columns)
    return [name for name in columns if (name != "binary_content" if is_run else name == "json")]


def documents(light: Dataset, start: int, end: int, columns: Collection[str]) -> Iterator[Document]:
    """Yield the documents in rows ``start`` to ``end``, exclusive.

    ``start`` is the start of a document; the last document may be cut. ``columns`` are the columns
    of the data set; ``light`` is the data set with ``light_columns`` of them.
    """
    is_run = is_interleaved(columns)
    sample_id, run = None, []
    for row, content in _rows(light, start, end):
        if not is_run:
            if document := listed_document(content["json"], row, columns):
                yield document
            continue
        identifier, position, modality = (content[mark].as_py() for mark in _MARKS)
        if run and (modality == "metadata" or identifier != sample_id):
            yield Document(str(sample_id), run)
            run = []
        sample_id = identifier
        facts = {name: value for name, value in content.items() if name not in (*_MARKS, *_BODIES)}
        column = "binary_content" if modality == "image" else None
        run.append(Entry(row, position, modality, content["text_content"], column, facts=facts))
    if run:
        yield Document(str(sample_id), run)


def beginnings(marks: Dataset, row: int) -> list[int]:
    """Return the first rows of the document that contains ``row`` and of those before it.

    If they are too far away, return ``row`` itself. ``marks`` has the columns ``sample_id`` and
    ``modality``.
    """
    low = max(0, row - MOST_ROWS + 1)
    ids, modalities = (column.to_pylist() for column in marks.take(range(low, row + 1)).columns)
    starts = [
        at for at in range(1, len(ids)) if modalities[at] == "metadata" or ids[at] != ids[at - 1]
    ]
    return [low + at for at in ([0] if low == 0 else []) + starts] or [row]


def listed_document(
    value: Any, row: int, columns: Collection[str], tiffs: Sequence[str] = ()
) -> Document | None:
    """Return the sample of a row whose JSON has parallel lists of texts and images.

    ``value`` is the JSON, a ``pyarrow.Scalar``. The result is ``None`` for other JSON.

    The extension of an image names one of the columns. Other names refer to the pages of the only
    column of ``tiffs``, in order.
    """
    import pyarrow as pa

    try:
        listed = json.loads(bytes(value.as_buffer()))
        pairs = list(zip(listed["texts"], listed["images"], strict=True))
    except (AttributeError, ValueError, TypeError, LookupError, RecursionError):
        return None
    entries: list[Entry] = []
    pages = 0
    for position, (text, image) in enumerate(pairs):
        if text is not None:
            # A lone surrogate is valid in JSON but not in UTF-8.
            scalar = pa.scalar(str(text).encode(errors="replace").decode())
            entries.append(Entry(row, position, "text", scalar))
        if image is not None:
            name = str(image)
            column, page = name.rpartition("/")[2].partition(".")[2].lower(), None
            if column not in columns:
                column = tiffs[0] if len(tiffs) == 1 else None
                page, pages = (pages, pages + 1) if column else (None, pages)
            entries.append(Entry(row, position, "image", column=column, page=page, name=name))
    return Document(str(listed.get("sample_id", row)), entries)


def _rows(light: Dataset, start: int, end: int) -> Iterator[tuple[int, dict[str, Any]]]:
    for first in range(start, end, _ROWS_AT_ONCE):
        batch = light.take(range(first, min(first + _ROWS_AT_ONCE, end)))
        for at in range(batch.num_rows):
            yield (
                first + at,
                {
                    name: values[at]
                    for name, values in zip(light.columns, batch.columns, strict=True)
                },
            )
