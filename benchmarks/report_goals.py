"""The goals of the interleaved benchmark, and what a session measured for each.

Enters: the measured entries of a report. Leaves: lines of Markdown, whose form other reports share.
Invariant: a figure that was not measured is shown as missing, never as met.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Metrics = dict[str, Any]
Find = Callable[[str, str, str], Metrics | None]

_PATHS = ("wds_to_parquet", "wds_to_wds", "pq_to_parquet", "pq_to_wds")
_SPEEDUP = {"jpeg": 20.0, "raw": 10.0}


@dataclass(frozen=True)
class Goal:
    """One line of the table."""

    figure: str
    wanted: str
    measured: str
    is_met: bool | None


def goals(find: Find) -> list[Goal]:
    """Holds the session against the goals; ``find(path, codec, system)`` gives the metrics of an entry."""
    lines = []
    for codec, wanted in _SPEEDUP.items():
        for path in _PATHS:
            ours, peer = find(path, codec, "shardmill"), find(path, codec, "nemo_curator")
            factor = peer["process_seconds"] / ours["process_seconds"] if ours and peer else None
            lines.append(at_least(f"{path}, {codec}, speed-up over NeMo Curator", factor, wanted))
    wds, parquet = find("wds_to_parquet", "raw", "shardmill"), find("pq_to_parquet", "raw", "shardmill")
    ratio = wds["process_seconds"] / parquet["process_seconds"] if wds and parquet else None
    lines.append(at_most("wds→parquet against parquet→parquet, raw, wall time", ratio, 1.3, "×"))
    for path in ("wds_to_parquet", "pq_to_parquet"):
        entry = find(path, "raw", "shardmill")
        seconds = entry.get("task_interleaved_aspect_ratio_filter_process_time_sum") if entry else None
        each = float(seconds) * 1e6 / entry["input_num_images"] if entry and seconds is not None else None
        lines.append(at_most(f"aspect ratio filter per image, {path}, raw", each, 5.0, " µs"))
    entries = [find(path, "raw", "shardmill") for path in _PATHS]
    peaks = [entry["peak_rss_bytes"] / 1e6 for entry in entries if entry]
    lines.append(at_most("peak memory, raw shards, worst path", max(peaks, default=None), 400.0, " MB"))
    on_ray, local = find("wds_to_parquet", "raw", "shardmill_ray"), find("wds_to_parquet", "raw", "shardmill")
    ratio = on_ray["time_taken_s"] / local["time_taken_s"] if on_ray and local else None
    lines.append(at_most("Ray executor against local, raw, after Ray and its workers have started", ratio, 1.5, "×"))
    return lines


def goal_lines(find: Find) -> list[str]:
    """The table as Markdown."""
    return goal_table(goals(find))


def goal_table(held: Iterable[Goal]) -> list[str]:
    """Goals as Markdown."""
    words = {True: "met", False: "**missed**", None: "not measured"}
    rows = [f"| {goal.figure} | {goal.wanted} | {goal.measured} | {words[goal.is_met]} |" for goal in held]
    return ["## Goals", "", "| figure | goal | measured | |", "|---|--:|--:|---|", *rows, ""]


def summary(held: Sequence[Goal], *, nothing: str) -> list[str]:
    """How many goals are met, and which are not; ``nothing`` when none was measured."""
    unmeasured = sum(goal.is_met is None for goal in held)
    if unmeasured == len(held):
        return [nothing]
    met = sum(goal.is_met is True for goal in held)
    missed = [goal.figure for goal in held if goal.is_met is False]
    lines = [f"tl;dr: {met} of {len(held)} goals are met, {unmeasured} were not measured."]
    return lines + ([f"Missed: {'; '.join(missed)}."] if missed else [])


def at_least(figure: str, value: float | None, wanted: float) -> Goal:
    """A line for a ratio."""
    return Goal(figure, f"≥ {wanted:g}×", _shown(value, "×"), None if value is None else value >= wanted)


def at_most(figure: str, value: float | None, wanted: float, unit: str) -> Goal:
    """A line for a figure that should be small."""
    return Goal(figure, f"≤ {wanted:g}{unit}", _shown(value, unit), None if value is None else value <= wanted)


def _shown(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.3g}{unit}"
