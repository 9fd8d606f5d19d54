"""Responses about rows: an overview of the data set, pages of rows, images and full strings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from shardmill._native import images as native
from shardmill._native import pixels
from shardmill._native.formats import type_names
from shardmill.curate._documents import is_interleaved
from shardmill.curate._pictures import has_pillow, image_format, thumbnail_of
from shardmill.data._dataset import opened_files
from shardmill.view._cells import Cells, Path, buffer_of, found, text_cell
from shardmill.view._documents import row_document
from shardmill.view._png import png_of
from shardmill.view._query import Query, Refused
from shardmill.view._row_pages import row_page
from shardmill.view._session import Opened
from shardmill.view._statistics import holds_bytes

_MOST_ROWS = 200
_MOST_CHARACTERS = 500_000
_FILES_LISTED = 200
_HEAVY_ROWS = 20
_KEPT_BYTES = 128 << 20
#: A GIF may be animated, which the browser shows.
_DECODED = ("jpeg", "png", "webp", "bmp")
#: Twice the width at which the page shows an image.
_LONGEST_SIDE = 1_120


def overview(opened: Opened, query: Query) -> dict[str, Any]:
    """Return what the page shows about the data set as a whole."""
    dataset = opened.dataset
    return {
        "paths": [str(path) for path in opened.source.paths],
        "format": dataset.format,
        "rows": len(dataset),
        "filter": None if dataset.row_filter is None else repr(dataset.row_filter),
        "files": dataset.files[:_FILES_LISTED],
        "file_count": len(dataset.files),
        "bytes": sum(
            {path: size for path, _, size, _ in opened_files(dataset).native.files}.values()
        ),
        "columns": [
            {"name": field.name, "type": name, "nullable": field.nullable}
            for field, name in zip(dataset.schema, type_names(dataset.schema), strict=True)
        ],
        "interleaved": is_interleaved(dataset.columns),
        "tokens": opened.token_rows is not None,
        "packs": opened.packs is not None,
        "pixels": opened.source.images is not None,
    }


def samples_page(opened: Opened, query: Query) -> dict[str, Any]:
    """Return rows with their cells; see ``row_page``."""
    return row_page(opened, query, partial(_rows, opened), most=_MOST_ROWS)


def _rows(opened: Opened, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Return rows by index, each with its file and its cells."""
    columns = opened.dataset.columns
    # A page of this many cells stays a few megabytes.
    share = 3_000_000 // max(len(numbers) * len(columns), 1)
    characters, items = min(2_000, max(120, share)), min(24, max(4, share // 40))
    # The images of a long page need not be in memory all at once.
    at_once = (
        _HEAVY_ROWS
        if any(holds_bytes(field.type) for field in opened.dataset.schema)
        else _MOST_ROWS
    )
    rows: list[dict[str, Any]] = []
    recent: list[tuple[Sequence[int], Any]] = []
    for first in range(0, len(numbers), at_once):
        piece = numbers[first : first + at_once]
        batch = opened.dataset.take(piece) if columns else None
        for at, number in enumerate(piece):
            content = (
                {}
                if batch is None
                else {name: batch.column(to)[at] for to, name in enumerate(columns)}
            )
            file, file_row = opened.place_of(number)
            fields = _fields(Cells(number, characters, items), content)
            rows.append({"row": number, "file": file, "file_row": file_row, "fields": fields})
        if (
            batch is not None
            and sum(kept.nbytes for _, kept in recent) + batch.nbytes <= _KEPT_BYTES
        ):
            recent.append((piece, batch))
    opened.recent = recent
    return rows


def _fields(cells: Cells, content: dict[str, Any]) -> list[list[Any]]:
    """Return names and cells. An image in a document of the row is not shown a second time."""
    documents = {
        name: document for name in content if (document := row_document(cells, name, content))
    }
    shown = {
        path[0]
        for document in documents.values()
        for entry in document["entries"]
        if (path := entry["cell"].get("path"))
    }
    note = {"kind": "note", "text": "shown in the document"}
    return [
        [name, note if name in shown else documents.get(name) or cells.cell(value, [name])]
        for name, value in content.items()
    ]


def image(opened: Opened, query: Query) -> tuple[str, bytes]:
    """Return type and bytes of one image.

    The type is always that of its first bytes; a TIFF is converted.
    """
    page = query.number("page") if query.text("page") else None
    row, path = query.number("row"), query.path()
    payload = bytes(_buffer(opened, row, path) or b"")
    if not payload:
        raise Refused(404, "there are no bytes of this image")
    kind = image_format(payload)
    if kind is None and native.unsupported_name(payload) is not None:
        # The message is the cause.
        return "image/png", _decoded(payload)
    if kind is None:
        raise Refused(415, "these bytes are not an image that a browser can show")
    if query.text("decoded") and kind in _DECODED and has_pillow():
        return "image/png", _decoded(payload)
    if kind != "tiff":
        return f"image/{kind}", payload
    try:
        shown = thumbnail_of(payload if page is None else native.extract_page(payload, page))
    except ValueError as error:
        raise Refused(415, f"page {(page or 0) + 1} of the TIFF cannot be read: {error}") from error
    if isinstance(shown, str):
        raise Refused(415, f"browsers cannot show TIFF. {shown}")
    return f"image/{shown.kind}", shown.payload


def _decoded(payload: bytes) -> bytes:
    """Return the pixels that a loader gets, smaller if they are many.

    Raises:
        Refused: If the image cannot be decoded. The message is the cause.
    """
    try:
        return png_of(pixels.decode(payload), longest_side=_LONGEST_SIDE)
    except ValueError as error:
        raise Refused(415, str(error)) from error


def whole_text(opened: Opened, query: Query) -> dict[str, Any]:
    """Return one string, up to the limit of a page."""
    buffer = _buffer(opened, query.number("row"), query.path())
    if buffer is None:
        raise Refused(404, "this value is not a string")
    return text_cell(buffer, _MOST_CHARACTERS)


def _buffer(opened: Opened, row: int, path: Path) -> Any | None:
    name = path[0]
    if name not in opened.dataset.columns or row >= len(opened.dataset):
        raise Refused(404, "there is no such row or column")
    try:
        recent = (
            batch.column(name)[rows.index(row)] for rows, batch in opened.recent if row in rows
        )
        value = found(
            next(recent, None) or opened.subset([str(name)]).take([row]).column(0)[0], path[1:]
        )
    except (LookupError, TypeError):
        raise Refused(404, "there is no such value") from None
    return buffer_of(value)
