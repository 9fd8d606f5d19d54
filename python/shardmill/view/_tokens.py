"""Rows as tokens for the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardmill.errors import Error
from shardmill.view._pack_page import whole_document
from shardmill.view._query import Query, Refused
from shardmill.view._row_pages import row_page
from shardmill.view._session import Opened

#: Tokens of a row that a page shows, of all rows of a page, and of a row that is asked for alone.
_MOST_OF_ROW = 2_000
_MOST_OF_PAGE = 40_000
_MOST_ROWS = 200
_MOST_ALONE = 100_000


def tokens_page(opened: Opened, query: Query) -> dict[str, Any]:
    """Return the tokens of rows, as ``row_page``, each with its file and its cell.

    A row whose tokens cannot be computed has ``error`` in place of ``cell``.
    """

    def rows_of(numbers: Sequence[int]) -> list[dict[str, Any]]:
        most = min(_MOST_OF_ROW, _MOST_OF_PAGE // max(len(numbers), 1))
        cells = _cells(opened, numbers, most)
        return [
            place | shown for place, shown in zip(opened.places_of(numbers), cells, strict=True)
        ]

    return row_page(opened, query, rows_of, most=_MOST_ROWS)


def whole_tokens(opened: Opened, query: Query) -> dict[str, Any]:
    """Return one cell: of ``row``, or of ``document`` of ``pack``."""
    if query.text("pack"):
        return whole_document(opened, query.number("pack"), query.number("document"), _MOST_ALONE)
    row = query.number("row")
    if row >= len(opened.dataset):
        raise Refused(404, "there is no such row")
    [shown] = _taken(opened, [row], _MOST_ALONE)
    return shown["cell"]


def _cells(opened: Opened, numbers: Sequence[int], most: int) -> list[dict[str, Any]]:
    try:
        return _taken(opened, numbers, most)
    except Error:
        # One of the rows cannot be tokenized.
        shown: list[dict[str, Any]] = []
    for number in numbers:
        try:
            shown += _taken(opened, [number], most)
        except Error as error:
            shown.append({"error": str(error)})
    return shown


def _taken(opened: Opened, numbers: Sequence[int], most: int) -> list[dict[str, Any]]:
    if opened.token_rows is None or opened.texts is None:
        raise Refused(404, "this data set is not shown as tokens\nhint: pass --tokenizer")
    if not len(numbers):
        return []
    batch = opened.token_rows.take(numbers)
    columns = [[_items(value) for value in column] for column in batch.columns]
    labels = columns[1] if len(columns) > 1 else [None] * len(numbers)
    return [
        {"cell": opened.texts.cell(ids, of, most)}
        for ids, of in zip(columns[0], labels, strict=True)
    ]


def _items(value: Any) -> Any:
    """Return the items of a list as an Arrow array; null has none."""
    import pyarrow as pa

    return value.values if value.is_valid else pa.array([], value.type.value_type)
