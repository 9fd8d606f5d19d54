"""The rows of a page, after the filter and the search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shardmill.view._query import Query, Refused
from shardmill.view._session import Opened

_Row = dict[str, Any]


def row_page(
    opened: Opened, query: Query, rows_of: Callable[[Sequence[int]], list[_Row]], *, most: int
) -> dict[str, Any]:
    """Return rows ``start`` to ``start + count``, after the filter and the search.

    With a condition, ``show`` is ``all``, ``kept``, ``dropped``, or ``both``, which returns a list
    of each; positions refer to the selected rows, and each row has ``kept``.

    Args:
        opened: the data set.
        query: the arguments of the request.
        rows_of: returns what the page shows of the rows with these indices, in their order.
        most: the largest number of rows.
    """
    show = query.text("show") or "all"
    if show not in ("all", "kept", "dropped", "both"):
        raise Refused(400, f"show must be all, kept, dropped or both, not {show[:40]!r}")
    total = len(opened.dataset)
    start, count = query.number("start", 0), min(query.number("count", 20), most)
    numbers = range(min(start, total), min(start + count, total))
    condition = query.condition(opened.dataset.schema)
    if condition is None:
        return {"rows": total, "samples": rows_of(numbers), "total": total}
    division = opened.division(condition)
    counts = {"kept": division.kept_count, "dropped": division.dropped_count}
    answer = {"rows": total} | counts
    if show == "all":
        rows = _marked(rows_of(numbers), division.is_kept(start, len(numbers)))
        return answer | {"samples": rows, "total": total}
    kept = division.kept(start, count) if show != "dropped" else []
    dropped = division.dropped(start, count) if show != "kept" else []
    rows = _marked(rows_of([*kept, *dropped]), [True] * len(kept) + [False] * len(dropped))
    if show == "both":
        halves = {"samples": rows[: len(kept)], "dropped_samples": rows[len(kept) :]}
        return answer | halves | {"total": max(counts.values())}
    return answer | {"samples": rows, "total": counts[show]}


def _marked(rows: list[_Row], marks: Sequence[bool]) -> list[_Row]:
    for row, mark in zip(rows, marks, strict=True):
        row["kept"] = mark
    return rows
