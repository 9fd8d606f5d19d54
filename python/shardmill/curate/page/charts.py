"""Bars as SVG. Widths are percentages, so that a bar fits any column and its text is ordinary HTML beside it."""

from __future__ import annotations

from dataclasses import dataclass

from shardmill.curate.page.markup import Html, element

_HEIGHT = 12


@dataclass(frozen=True)
class Part:
    """One piece of a stacked bar; ``tone`` is a class of the style sheet."""

    label: str
    value: float
    tone: str


def bar(value: float, largest: float, *, label: str, tone: str = "kept") -> Html:
    """One bar on a track that stands for ``largest``.

    Args:
        value: what the bar shows.
        largest: the value that would fill the track.
        label: what a screen reader says.
        tone: class of the style sheet.

    Example:
        >>> "50.00%" in str(bar(1, 2, label="half"))
        True
    """
    return stacked([Part(label, value, tone)], largest, label=label)


def stacked(parts: list[Part], largest: float, *, label: str) -> Html:
    """Parts end to end on a track that stands for ``largest``. Each names itself where the pointer rests on it."""
    pieces = []
    start = 0.0
    for part in parts:
        width = _percentage(part.value, largest)
        title = element("title", part.label)
        pieces.append(
            element("rect", title, class_=part.tone, x=f"{start:.2f}%", width=f"{width:.2f}%", height=_HEIGHT)
        )
        start += width
    track = element("rect", class_="track", width="100%", height=_HEIGHT)
    return element("svg", track, pieces, class_="bar", width="100%", height=_HEIGHT, role="img", aria_label=label)


def _percentage(value: float, largest: float) -> float:
    return max(0.0, min(100.0, 100.0 * value / largest)) if largest > 0 else 0.0
