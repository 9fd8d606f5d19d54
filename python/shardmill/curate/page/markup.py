"""HTML that cannot be injected into: text is escaped unless it was built here.

Strings and elements enter, elements leave; every other module of the page builds its HTML through :func:`element`. The invariant: a plain
``str`` never reaches the page unescaped, whatever a data set holds.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from typing import Any

# Elements that have no content and no closing tag; those of SVG close themselves.
_VOID = {"br", "hr", "img", "meta", "link", "col"}
_SVG_EMPTY = {"rect"}

# Characters that HTML forbids, and halves of surrogate pairs, which UTF-8 cannot hold.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class Html:
    """Finished HTML."""

    text: str

    def __str__(self) -> str:
        return self.text


Child = Html | str | int | None | list["Html"]


def escaped(text: str) -> str:
    """``text`` so that a browser shows it and does nothing else with it."""
    return html.escape(_UNPRINTABLE.sub("�", text), quote=True)


def joined(*children: Child) -> Html:
    """The children one after the other; None is nothing."""
    return Html("".join(_rendered(child) for child in children))


def element(tag: str, *children: Child, **attributes: Any) -> Html:
    """One element.

    Args:
        tag: its name.
        children: elements, lists of them, or text that is still to be escaped.
        attributes: ``class_`` is ``class`` and ``aria_label`` is ``aria-label``; one that is None is left out.

    Example:
        >>> str(element("p", "1 < 2 ", element("b", "yes"), class_="note"))
        '<p class="note">1 &lt; 2 <b>yes</b></p>'
    """
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escaped(str(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    if tag in _VOID:
        return Html(f"<{tag}{written}>")
    if tag in _SVG_EMPTY and not children:
        return Html(f"<{tag}{written}/>")
    return Html(f"<{tag}{written}>{joined(*children)}</{tag}>")


def table(head: list[str], rows: list[list[Child]], *, caption: str, numbers: frozenset[int] = frozenset()) -> Html:
    """A table that scrolls sideways on a narrow screen.

    Args:
        head: names of the columns.
        rows: their cells; the first of each row is its heading.
        caption: what the table shows, for those who cannot see the page around it.
        numbers: columns that are aligned to the right.
    """

    def style(column: int) -> str | None:
        return "number" if column in numbers else None

    headings = [element("th", name, scope="col", class_=style(column)) for column, name in enumerate(head)]
    body = [
        element(
            "tr",
            element("th", row[0], scope="row", class_=style(0)),
            [element("td", cell, class_=style(column)) for column, cell in enumerate(row[1:], 1)],
        )
        for row in rows
    ]
    content = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", headings)),
        element("tbody", body),
    )
    # A region that scrolls must be reachable by the keyboard.
    return element("div", content, class_="scrolls", tabindex=0, role="region", aria_label=caption)


def _rendered(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return child.text
    if isinstance(child, list):
        return "".join(item.text for item in child)
    return escaped(str(child))
