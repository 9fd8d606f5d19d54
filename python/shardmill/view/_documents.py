"""Interleaved documents as cells for the page."""

from __future__ import annotations

from itertools import islice
from typing import Any

from shardmill.curate import _documents as reader
from shardmill.curate._documents import Document, Entry
from shardmill.curate._pictures import image_format
from shardmill.view._cells import Cells, buffer_of, plain_scalar
from shardmill.view._query import Query, Refused
from shardmill.view._session import Opened

_MOST_DOCUMENTS = 50
_MOST_ENTRIES = 400


def documents_page(opened: Opened, query: Query) -> dict[str, Any]:
    """Return documents, starting with the one that contains row ``start``.

    Returns:
        The documents; ``start``, where the first one starts; ``next``, the row after them or None
        at the end; and ``previous``, the first row of the same number of documents before them.
    """
    columns, total = opened.dataset.columns, len(opened.dataset)
    if not reader.is_interleaved(columns):
        raise Refused(404, "these rows are not interleaved documents")
    start, count = (
        min(query.number("start", 0), max(total - 1, 0)),
        min(query.number("count", 5), _MOST_DOCUMENTS),
    )
    starts = reader.beginnings(opened.subset(["sample_id", "modality"]), start) if total else [0]
    start = starts[-1]
    light = opened.subset(reader.light_columns(columns))
    shown = list(
        islice(reader.documents(light, start, min(start + reader.MOST_ROWS, total), columns), count)
    )
    end = shown[-1].entries[-1].row + 1 if shown else start
    return {
        "documents": [_document(found) for found in shown],
        "start": start,
        # No other start is near: the document before is long.
        "previous": starts[-1 - count :][0]
        if len(starts) > 1
        else max(start - reader.MOST_ROWS, 0),
        "next": end if end < total else None,
    }


def _document(document: Document) -> dict[str, Any]:
    cells = [(entry, _facts(entry)) for entry in document.entries[:_MOST_ENTRIES]]
    return {
        "id": document.sample_id,
        "row": document.entries[0].row,
        "rows": len(document.entries),
        "facts": [fact for entry, facts in cells if entry.modality == "metadata" for fact in facts],
        "entries": [
            {
                "row": entry.row,
                "position": entry.position,
                "facts": facts,
                "cell": _cell(Cells(entry.row), entry),
            }
            for entry, facts in cells
            if entry.modality != "metadata"
        ],
    }


def _facts(entry: Entry) -> list[list[Any]]:
    values = [(name, value) for name, value in entry.facts.items() if plain_scalar(value).is_valid]
    return [[name, Cells(entry.row).cell(value, [name])] for name, value in values]


def _cell(cells: Cells, entry: Entry) -> dict[str, Any]:
    if entry.modality != "image":
        return cells.cell(entry.text, ["text_content"])
    if entry.column is None:
        return {"kind": "note", "text": f"missing image {entry.name[:200]}"}
    page = {} if entry.page is None else {"page": entry.page}
    return {"kind": "image", "row": entry.row, "path": [entry.column]} | page


def row_document(cells: Cells, name: str, content: dict[str, Any]) -> dict[str, Any] | None:
    """Return the sample if its JSON lists texts and images; None for other values.

    The images come from the other columns.
    """
    if name != "json" and not name.endswith(".json"):
        return None
    tiffs = [
        column
        for column, value in content.items()
        if image_format(buffer_of(value) or b"") == "tiff"
    ]
    document = reader.listed_document(plain_scalar(content[name]), cells.row, content, tiffs)
    if document is None:
        return None
    shown = document.entries[:_MOST_ENTRIES]
    entries = [
        {"position": entry.position, "cell": _cell(cells, entry), "facts": []} for entry in shown
    ]
    return {"kind": "document", "entries": entries, "length": len(document.entries)}
