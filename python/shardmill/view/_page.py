"""The page itself: one view of the data set, as HTML."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from shardmill.curate._templates import environment
from shardmill.errors import Error
from shardmill.view._documents import documents_page
from shardmill.view._pack_page import packs_page
from shardmill.view._pixels import pixels_page
from shardmill.view._query import Query, Refused
from shardmill.view._samples import overview, samples_page
from shardmill.view._session import Opened
from shardmill.view._statistics import figures
from shardmill.view._tokens import tokens_page, whole_tokens

if TYPE_CHECKING:
    from jinja2 import Environment

VIEWS = {
    "samples": samples_page,
    "documents": documents_page,
    "tokens": tokens_page,
    "packs": packs_page,
    "pixels": pixels_page,
    "columns": figures,
    "files": overview,
}
#: The views that a data set opens with, if it has them.
_FIRST = {"pixels": "pixels", "packs": "packs", "tokens": "tokens", "interleaved": "documents"}
_DEFAULTS = {
    "start": "0",
    "count": "20",
    "epoch": "0",
    "filter": "",
    "column": "",
    "value": "",
    "show": "both",
    "layout": "",
}
_MOST_DOCUMENTS = 10


def view_page(opened: Opened, query: Query) -> tuple[str, bytes]:
    """Return type and bytes of the page.

    The arguments are those of the routes of its views, and ``view`` and ``layout``.
    """
    dataset = overview(opened, query)
    first = next((view for fact, view in _FIRST.items() if dataset[fact]), "samples")
    defaults = _DEFAULTS | {"view": first}
    state = {name: query.text(name) or default for name, default in defaults.items()}
    for name in ("start", "count", "epoch"):
        state[name] = re.sub(r"\D", "", state[name]).lstrip("0")[:18] or defaults[name]
    state["column"] = state["column"] if state["value"] else ""
    view = state["view"] = state["view"] if state["view"] in VIEWS else "samples"

    def link(**changes: object) -> str:
        wanted = state | {name: str(value) for name, value in changes.items()}
        return urlencode({name: value for name, value in wanted.items() if value != defaults[name]})

    content, problem = None, ""
    try:
        count = min(int(state["count"]), _MOST_DOCUMENTS) if view == "documents" else state["count"]
        content = VIEWS[view](opened, Query(urlencode(state | {"count": count})))
        if view in ("samples", "tokens", "pixels") and int(state["start"]) >= content["total"] > 0:
            state["start"] = str(content["total"] - 1)
            content = VIEWS[view](opened, Query(urlencode(state)))
    except (Error, Refused, OSError) as error:
        problem = str(error)
    template = templates().get_template("view.html")
    text = template.render(
        dataset=dataset, state=state, link=link, content=content, problem=problem
    )
    return "text/html; charset=utf-8", text.encode(errors="replace")


def tokens_part(opened: Opened, query: Query) -> tuple[str, bytes]:
    """Return all tokens of a row, or of a document of a pack, as they are on the page."""
    text = templates().get_template("part.html").render(cell=whole_tokens(opened, query))
    return "text/html; charset=utf-8", text.encode(errors="replace")


@cache
def templates() -> Environment:
    """Return the templates of the page; an ImportError says what is missing."""
    made = environment("view/assets", extra="view")
    made.globals["holds_picture"] = _holds_picture
    return made


def _holds_picture(cell: dict[str, Any]) -> bool:
    inner = cell.get("items") or [value for _, value in cell.get("fields", ())]
    return cell["kind"] in ("image", "document") or any(map(_holds_picture, inner))
