"""The chart of a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.figures import Figures, three_digits

# Colours that stay apart for colour-blind readers and in print.
_COLOURS = ("#9aa5b1", "#33658a", "#f6ae2d", "#c8553d", "#86608e", "#5b8e7d")
_OURS = "#0b6e4f"


def draw(page: Figures, path: Path) -> None:
    """Draws one bar a line, coloured by system; the same numbers give the same bytes."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    chart = page.block["chart"]
    rows = page.rows(chart)
    # Systems side by side.
    cases, figures = [row.places()["case"] for row in rows], [row.figure for row in rows]
    rows.sort(key=lambda row: (cases.index(row.places()["case"]), figures.index(row.figure)))
    bars = [
        (row, value.median)
        for row in rows
        if (value := page.value(chart["value"], row)) is not None
    ]
    svg = {"svg.hashsalt": "shardmill", "svg.fonttype": "none"}
    settings: Any = {**svg, "font.size": 9, "font.family": "sans-serif"}
    systems = list(dict.fromkeys(row.places()["system"] for row, _ in bars))
    others = [system for system in systems if not system.startswith("shardmill")]
    with mpl.rc_context(settings):
        figure = Figure(figsize=(8, 0.8 + 0.24 * len(bars)), layout="constrained")
        axes = figure.subplots()
        for system in systems:
            places = [
                place for place, (row, _) in enumerate(bars) if row.places()["system"] == system
            ]
            colour = _COLOURS[others.index(system) % len(_COLOURS)] if system in others else _OURS
            drawn = axes.barh(
                places,
                [bars[place][1] for place in places],
                0.75,
                label=page.named(system),
                color=colour,
            )
            axes.bar_label(drawn, fmt=three_digits, padding=3)
        label = chart.get("label", "{setting}, {system}")
        texts = [
            label.format(**{key: page.named(text) for key, text in row.places().items()})
            for row, _ in bars
        ]
        axes.set_yticks(range(len(bars)), texts)
        axes.invert_yaxis()
        axes.set_xlabel(chart["axis"])
        axes.margins(x=0.12, y=0.01)
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside upper left", ncols=3, frameon=False)
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
