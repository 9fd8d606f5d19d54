"""Prints which goals the committed summaries reach: ``python -m benchmarks.goals``.

The goals are in ``goals.yaml``.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from benchmarks.report import Page, read_summary, shown
from benchmarks.runner.settings import read_settings

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs" / "benchmarks"


def judged(page: Page, goals: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, str, str]]:
    """Yields the figure, the goal, the measured value, and a verdict.

    A goal bounds a ratio of the page (``work`` and ``against``, or ``share`` for the ratio to its
    limit), all ratios of a work that ends in ``*``, or an expression.
    """
    for goal in goals:
        is_least = "at_least" in goal
        bound, holds = (
            (goal["at_least"], operator.ge) if is_least else (goal["at_most"], operator.le)
        )
        form = goal.get("form", "{:.3g}×")
        for what, value in _values(page, goal):
            word = (
                "not measured"
                if value is None
                else "met"
                if holds(value, float(bound))
                else "missed"
            )
            yield (
                what,
                f"{'≥' if is_least else '≤'} {form.format(float(bound))}",
                shown(value, form),
                word,
            )


def _values(page: Page, goal: Mapping[str, Any]) -> Iterator[tuple[str, float | None]]:
    if "value" in goal:
        value = page.value(goal["value"])
        yield goal["figure"], value and value.median
        return
    found = {}
    for ratio in page.ratios():
        if fnmatchcase(ratio.work, goal["work"].replace("[", "[[]")):
            series = (
                ratio.share
                if "share" in goal
                else ratio.times
                if ratio.peer == goal["against"]
                else None
            )
            if series:
                found[f"{ratio.work}, against {ratio.limit if 'share' in goal else ratio.peer}"] = (
                    series.median
                )
    yield from found.items() or [
        (f"{goal['work']}, against {goal.get('against', 'the limit')}", None)
    ]


def main() -> None:
    """Prints one line per goal, and how long each suite took."""
    minutes = {}
    for suite, goals in yaml.safe_load((HERE / "goals.yaml").read_text()).items():
        summary = read_summary(DOCS / suite)
        if not summary:
            continue
        lines = list(judged(Page(summary, read_settings(HERE / f"{suite}.yaml").report), goals))
        minutes[suite] = (
            sum(entry.get("seconds", 0.0) for entry in summary["entries"].values()) / 60
        )
        met = sum(word == "met" for *_, word in lines)
        print(f"\n{suite}: {met} of {len(lines)} goals met, {minutes[suite]:.0f} minutes")
        for figure, bound, value, word in lines:
            print(f"  {word:12} {figure}: {value}, goal {bound}")
    print(f"\nall suites: {sum(minutes.values()):.0f} minutes, goal ≤ 60 minutes")


if __name__ == "__main__":
    main()
