"""Interleaved documents: runs of rows as curation writes them, and samples whose JSON lists texts and images.

Rows enter, documents in reading order leave. A document of rows is a run of one ``sample_id``; a metadata row begins a new one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from shardmill.view.cells import Cells, Limits, plain_scalar, text_cell
from shardmill.view.images import image_format
from shardmill.view.session import Opened

_MARKS = ("sample_id", "position", "modality")
_BODIES = ("text_content", "binary_content")
_ROWS_AT_ONCE = 256
_MOST_ROWS = 4_096
_MOST_ENTRIES = 400


def is_interleaved(columns: Sequence[str]) -> bool:
    """Whether rows are texts and images of documents."""
    return {*_MARKS, "text_content"} <= set(columns)


def documents(opened: Opened, *, start: int, count: int) -> dict[str, Any]:
    """Documents from the one that has row ``start``.

    Returns:
        The documents, the row after them as ``next``, or None at the end, and ``start``, where the first one begins.
    """
    columns = [name for name in opened.dataset.columns if name != "binary_content"]
    total = len(opened.dataset)
    start = _beginning(opened, min(start, max(total - 1, 0)))
    found: list[list[tuple[int, dict[str, Any]]]] = []
    row = start
    while row < total and row - start < _MOST_ROWS:
        batch = opened.take(range(row, min(row + _ROWS_AT_ONCE, total)), columns)
        for number in range(batch.num_rows):
            content = {name: batch.column(at)[number] for at, name in enumerate(columns)}
            if not found or _begins(found[-1][-1][1], content):
                if len(found) == count:
                    return {"documents": [_document(run) for run in found], "start": start, "next": row + number}
                found.append([])
            found[-1].append((row + number, content))
        row += batch.num_rows
    return {"documents": [_document(run) for run in found], "start": start, "next": row if row < total else None}


def _beginning(opened: Opened, row: int) -> int:
    """The first row of the document that has ``row``; ``row`` itself where that is too far away."""
    low = max(0, row - _MOST_ROWS)
    end = row + 1
    later: dict[str, Any] | None = None
    while end > low:
        first = max(low, end - _ROWS_AT_ONCE)
        batch = opened.take(range(first, end), [name for name in _MARKS if name in opened.dataset.columns])
        for number in range(batch.num_rows - 1, -1, -1):
            content = {name: batch.column(at)[number] for at, name in enumerate(_MARKS)}
            if later is not None and _begins(content, later):
                return first + number + 1
            later = content
        end = first
    return 0 if low == 0 else row


def _begins(before: dict[str, Any], content: dict[str, Any]) -> bool:
    """Whether a new document begins with ``content``."""
    return content["modality"].as_py() == "metadata" or before["sample_id"].as_py() != content["sample_id"].as_py()


def _document(rows: list[tuple[int, dict[str, Any]]]) -> dict[str, Any]:
    limits = Limits()
    facts: list[list[Any]] = []
    entries = []
    for row, content in rows[:_MOST_ENTRIES]:
        modality = content["modality"].as_py()
        cells = Cells(row, limits, lambda *_: None)
        # What curation does not name is the user's own.
        more = [
            [name, cells.cell(value, [name])]
            for name, value in content.items()
            if name not in (*_MARKS, *_BODIES) and plain_scalar(value).is_valid
        ]
        if modality == "metadata":
            facts += more
            continue
        entry: dict[str, Any] = {"row": row, "position": content["position"].as_py(), "facts": more}
        if modality == "image":
            entry["cell"] = {"kind": "image", "row": row, "path": ["binary_content"]}
        else:
            entry["cell"] = cells.cell(content["text_content"], ["text_content"])
        entries.append(entry)
    first = rows[0][1]
    return {
        "id": str(first["sample_id"].as_py()),
        "row": rows[0][0],
        "rows": len(rows),
        "facts": facts,
        "entries": entries,
    }


def is_sample_json(name: str) -> bool:
    """Whether a column of this name may list texts and images."""
    return name == "json" or name.endswith(".json")


def row_document(cells: Cells, name: str, content: dict[str, Any]) -> dict[str, Any] | None:
    """A sample whose JSON has parallel lists of texts and images, its images from the other columns; None for other JSON."""
    value = plain_scalar(content[name])
    if not value.is_valid or not hasattr(value, "as_buffer"):
        return None
    try:
        listed = json.loads(bytes(value.as_buffer()))
        texts, images = listed["texts"], listed["images"]
        pairs = list(zip(texts, images, strict=True))
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    tiffs = [column for column, value in content.items() if _format(value) == "tiff"]
    entries: list[dict[str, Any]] = []
    token = 0
    for position, (text, image) in enumerate(pairs[:_MOST_ENTRIES]):
        if text is not None:
            entry = text_cell(str(text).encode(errors="replace"), cells.limits.characters)
            entries.append({"position": position, "cell": entry, "facts": []})
        if image is not None:
            column = str(image).rpartition("/")[2].partition(".")[2].lower()
            reference: dict[str, Any] = {"kind": "image", "row": cells.row}
            if column in content:
                reference |= {"path": [column]}
            elif len(tiffs) == 1:
                # Opaque names stand for the pages of the document's TIFF, in order.
                reference |= {"path": [tiffs[0]], "page": token}
                token += 1
            else:
                reference = {"kind": "note", "text": f"missing image {str(image)[:200]}"}
            entries.append({"position": position, "cell": reference, "facts": []})
    return {"kind": "document", "entries": entries, "length": len(pairs)}


def _format(value: Any) -> str | None:
    value = plain_scalar(value)
    return image_format(value.as_buffer()) if value.is_valid and hasattr(value, "as_buffer") else None
