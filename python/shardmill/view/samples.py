"""Pages of rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from shardmill._native import __version__
from shardmill.expressions import Expression
from shardmill.view.cells import Cells, Limits, Path, found, text_cell
from shardmill.view.documents import is_interleaved, is_sample_json, row_document
from shardmill.view.errors import Refused
from shardmill.view.images import displayable
from shardmill.view.session import Opened
from shardmill.view.statistics import holds_bytes

MOST_ROWS = 200
_MOST_CHARACTERS = 500_000
_FILES_LISTED = 200
_HEAVY_ROWS = 20


def overview(opened: Opened) -> dict[str, Any]:
    """What the page says of the data set as a whole."""
    dataset = opened.dataset
    schema = dataset.schema
    return {
        "version": __version__,
        "format": dataset.format,
        "rows": len(dataset),
        "filter": None if dataset.filter is None else repr(dataset.filter),
        "files": dataset.files[:_FILES_LISTED],
        "file_count": len(dataset.files),
        "bytes": opened.stored_bytes,
        "columns": [
            {"name": field.name, "type": str(field.type), "nullable": field.nullable}
            for field in (schema.field(place) for place in range(len(schema.names)))
        ],
        "interleaved": is_interleaved(dataset.columns),
    }


def page(opened: Opened, *, start: int, count: int, condition: Expression | None, show: str) -> dict[str, Any]:
    """Rows of one page, with what the condition makes of them.

    Args:
        opened: the data set.
        start: the first row; of the kept or dropped ones where only those are shown.
        count: how many rows.
        condition: divides the rows.
        show: ``all``, ``kept``, ``dropped``, or ``both``, which gives a list of each.
    """
    total = len(opened.dataset)
    count = min(count, MOST_ROWS)
    if condition is None:
        numbers = list(range(min(start, total), min(start + count, total)))
        return {"rows": total, "samples": samples(opened, numbers), "total": total}
    division = opened.division(condition)
    answer = {"rows": total, "kept": division.kept_count, "dropped": division.dropped_count}
    if show == "all":
        numbers = list(range(min(start, total), min(start + count, total)))
        marks = division.is_kept(start, len(numbers))
        return answer | {"samples": samples(opened, numbers, marks), "total": total}
    kept = division.kept(start, count) if show in ("kept", "both") else []
    dropped = division.dropped(start, count) if show in ("dropped", "both") else []
    if show == "both":
        rows = samples(opened, [*kept, *dropped], [True] * len(kept) + [False] * len(dropped))
        answer |= {"samples": rows[: len(kept)], "dropped_samples": rows[len(kept) :]}
        return answer | {"total": max(division.kept_count, division.dropped_count)}
    rows = samples(opened, kept or dropped, [show == "kept"] * (len(kept) + len(dropped)))
    return answer | {"samples": rows, "total": division.kept_count if show == "kept" else division.dropped_count}


def samples(opened: Opened, numbers: Sequence[int], marks: Sequence[bool] | None = None) -> list[dict[str, Any]]:
    """Rows by number, each with its file and its cells."""
    if not numbers:
        return []
    columns = opened.dataset.columns
    limits = Limits.for_page(len(numbers) * len(columns))
    # Images of a long page need not be in memory all at once.
    at_once = _HEAVY_ROWS if any(holds_bytes(field.type) for field in opened.dataset.schema) else MOST_ROWS
    rows = []
    for first in range(0, len(numbers), at_once):
        piece = numbers[first : first + at_once]
        batch = opened.take(piece) if columns else None
        for place, number in enumerate(piece):
            content = {} if batch is None else {name: batch.column(at)[place] for at, name in enumerate(columns)}
            rows.append(_sample(opened, Cells(number, limits, _keeping(opened)), content))
    for row, mark in zip(rows, marks or [], strict=False):
        row["kept"] = mark
    return rows


def _sample(opened: Opened, cells: Cells, content: dict[str, Any]) -> dict[str, Any]:
    file, file_row = opened.place_of(cells.row)
    return {"row": cells.row, "file": file, "file_row": file_row, "fields": _fields(cells, content)}


def _fields(cells: Cells, content: dict[str, Any]) -> list[list[Any]]:
    """Names and cells. An image that stands in a document of the row is not shown a second time."""
    documents = {name: row_document(cells, name, content) for name in content if is_sample_json(name)}
    shown = {
        entry["cell"]["path"][0]
        for document in documents.values()
        if document is not None
        for entry in document["entries"]
        if entry["cell"]["kind"] == "image"
    }
    fields = []
    for name, value in content.items():
        cell = documents.get(name) or cells.cell(value, [name])
        if name in shown:
            cell = {"kind": "note", "text": "stands in the document"}
        fields.append([name, cell])
    return fields


def _keeping(opened: Opened) -> Any:
    return lambda row, path, buffer: opened.images.put((row, json.dumps(list(path))), bytes(buffer))


def image(opened: Opened, row: int, path: Path, image_page: int | None) -> tuple[str, bytes]:
    """Type and bytes of one image.

    Raises:
        Refused: when there is none.
    """
    payload = opened.images.get((row, json.dumps(list(path))))
    if payload is None:
        value = _value(opened, row, path)
        if not hasattr(value, "as_buffer"):
            raise Refused(404, "this value has no bytes")
        payload = b"" if not value.is_valid else bytes(value.as_buffer())
    if not payload:
        raise Refused(404, "there are no bytes of this image")
    return displayable(payload, image_page)


def whole_text(opened: Opened, row: int, path: Path) -> dict[str, Any]:
    """One text, as far as a page can take it."""
    value = _value(opened, row, path)
    if not value.is_valid or not hasattr(value, "as_buffer"):
        raise Refused(404, "this value is no text")
    return text_cell(value.as_buffer(), _MOST_CHARACTERS)


def _value(opened: Opened, row: int, path: Path) -> Any:
    name = path[0] if path else None
    if not isinstance(name, str) or name not in opened.dataset.columns or not 0 <= row < len(opened.dataset):
        raise Refused(404, "there is no such row or column")
    try:
        return found(opened.take([row], [name]).column(0)[0], path[1:])
    except (LookupError, TypeError):
        raise Refused(404, "there is no such value") from None
