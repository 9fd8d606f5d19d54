"""Draws the bars of a report as SVG that does not change when the numbers do not.

Enters: labels and numbers. Leaves: SVG files. Called by ``report``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

# Colours that stay apart for colour-blind readers and in print.
_COLOURS = {
    "NeMo Curator": "#9aa5b1",
    "shardmill": "#0b6e4f",
    "torch-dataloader-utils": "#9aa5b1",
    "array_record": "#9aa5b1",
    "Ray Data": "#9aa5b1",
    "pyarrow": "#9aa5b1",
    "MosaicML Streaming": "#9aa5b1",
    "Ray Data, our plug-in": "#33658a",
    "Ray Data, no checkpoint": "#f6ae2d",
    "array_record, best call": "#33658a",
    "pyarrow loop": "#33658a",
    "manual_sharded": "#f6ae2d",
    "naive_iterable": "#c8553d",
    "HF datasets": "#86608e",
}
_STAGE_COLOURS = {"reader": "#33658a", "filter": "#f6ae2d", "writer": "#c8553d"}
_SETTINGS: Any = {"svg.hashsalt": "shardmill", "svg.fonttype": "none", "font.size": 9, "font.family": "sans-serif"}


@dataclass(frozen=True)
class Bar:
    """One bar of a ranking."""

    label: str
    system: str
    value: float


def plot_ranking(path: Path, bars: Sequence[Bar], axis_title: str) -> None:
    """Draws one bar an entry, in the given order, coloured by system."""
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(8, 0.8 + 0.24 * len(bars)), layout="constrained")
        axes = figure.subplots()
        for system in dict.fromkeys(bar.system for bar in bars):
            places = [place for place, bar in enumerate(bars) if bar.system == system]
            values = [bars[place].value for place in places]
            drawn = axes.barh(places, values, 0.75, label=system, color=_COLOURS.get(system))
            axes.bar_label(drawn, [f"{value:.3g}" for value in values], padding=3)
        _finish(figure, path, [bar.label for bar in bars], axis_title)


def plot_bars(
    path: Path,
    cases: Sequence[str],
    series: dict[str, list[float | None]],
    axis_title: str,
    limits: Sequence[float | None] | None = None,
) -> None:
    """Draws one group of horizontal bars a case, with the physical limit as a short line across the group."""
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(8, 0.8 + 0.6 * len(cases)), layout="constrained")
        axes = figure.subplots()
        height = 0.8 / max(1, len(series))
        for number, (system, values) in enumerate(series.items()):
            places = [case + (number - (len(series) - 1) / 2) * height for case in range(len(cases))]
            numbers = [value or 0.0 for value in values]
            bars = axes.barh(places, numbers, height * 0.9, label=system, color=_COLOURS.get(system))
            axes.bar_label(bars, [f"{value:.2f}" if value is not None else "" for value in values], padding=3)
        for case, limit in enumerate(limits or ()):
            if limit is not None:
                label = "limit of the disk" if case == 0 else None
                axes.plot([limit, limit], [case - 0.45, case + 0.45], color="#d1495b", linewidth=1.5, label=label)
        _finish(figure, path, list(cases), axis_title)


def plot_stages(path: Path, bars: Sequence[tuple[str, str, dict[str, float]]]) -> None:
    """Draws one stacked bar for each case and system."""
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(8, 0.8 + 0.3 * len(bars)), layout="constrained")
        axes = figure.subplots()
        left = [0.0] * len(bars)
        for stage, colour in _STAGE_COLOURS.items():
            widths = [stages.get(stage, 0.0) for _, _, stages in bars]
            axes.barh(range(len(bars)), widths, 0.75, left=left, label=stage, color=colour)
            left = [start + width for start, width in zip(left, widths, strict=True)]
        for place, total in enumerate(left):
            axes.annotate(f"{total:.2f}", (total, place), xytext=(3, 0), textcoords="offset points", va="center")
        _finish(figure, path, [f"{case}, {system}" for case, system, _ in bars], "seconds, summed over all tasks")


def _finish(figure: Figure, path: Path, labels: Sequence[str], axis_title: str) -> None:
    axes = figure.axes[0]
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.set_xlabel(axis_title)
    axes.margins(x=0.12)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper left", ncols=3, frameon=False)
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
