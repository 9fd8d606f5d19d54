"""The goals of the loader benchmark, and what a session measured for each, beside the peers.

Enters: a ``Find`` over the entries that succeeded. Leaves: lines of Markdown. Called by ``report``. Invariant: a figure
that was not measured is shown as missing, never as met.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from benchmarks import report_goals

Metrics = dict[str, Any]
# Scenario, setting, system.
Find = Callable[[str, str, str], Metrics | None]
# The same figure for any system.
Figure = Callable[[str], float | None]

OURS, PEER, LOOP = "shardmill", "torch_dataloader_utils", "pyarrow_loop"
_THREADS = ("threads_1", "threads_2", "threads_4")
_WORKERS = ("workers_0", "workers_1", "workers_2", "workers_4")
# Two runs of the same program differ by this much on a quiet machine.
_NOISE = 0.03


@dataclass(frozen=True)
class Goal(report_goals.Goal):
    """One line of the table, the peers beside."""

    peer: str
    loop: str


def goals(find: Find) -> list[Goal]:
    """Holds a session against the goals."""

    def rate(scenario: str, *settings: str) -> Figure:
        return lambda system: _best(find(scenario, setting, system) for setting in settings)

    def of(scenario: str, setting: str, key: str, scale: float = 1.0) -> Figure:
        return lambda system: _value(find(scenario, setting, system), key, scale)

    arrow = [f"arrow_{setting}" for setting in (*_THREADS, *_WORKERS)]
    tensors = [f"torch_{setting}" for setting in (*_THREADS, *_WORKERS)]
    both = ("threads_2", "workers_0")
    million = 1e6
    lines = [
        _rate("S1 Arrow, best number of threads or workers", 18 * million, rate("s1", *arrow)),
        _bound("S1 more threads against fewer, worst step", 1 - _NOISE, "×", _steps(find), is_least=True),
        _rate("S1 torch, 66 tensors a batch", 10 * million, rate("s1", *tensors)),
        _rate("S1 rows shuffled, torch", 5 * million, rate("s1", "shuffle_torch_threads_2")),
        _bound("S2 imbalance of 2 and 4 ranks, worst", 1, " %", _worst_imbalance(find)),
        _rate("S2 rows of 2 and 4 ranks together, slower one", 10 * million, _slower(find)),
        _bound("S3 one file, one process", 0.8, " s", _s3(find)),
        _bound("S3 one file, 8 ranks at the same time", 0.8, " s", of("s3", "ranks_8", "median_s")),
        _bound("S4 share of a rank of 16, furthest from 6.25 %", 0.1, " points", _share_error(find)),
        _bound(
            "S4 bytes of rank of 16 behind the footers, worst, against a sixteenth", 1.05, "×", _bytes_of_rank(find)
        ),
        _rate("S5 two of 66 columns", 60 * million, rate("s5", *[f"two_columns_{name}" for name in both])),
        _rate("S6 sorted, delivered rows", 8 * million, rate("s6", *[f"sorted_{name}" for name in both])),
        _bound("S6 sorted, bytes against reading all", 12, " %", _sorted_bytes(find)),
        _rate("S6 uniform, delivered rows", 1.2 * million, rate("s6", *[f"uniform_{name}" for name in both])),
        _bound("S7 first batch, 10 files", 15, " ms", _first_batch(find)),
    ]
    for kind, wanted in (("parquet", 10.0), ("orc", 0.5), ("csv", 1.0)):
        settings = [f"{kind}_{name}" for name in ("threads_2", "workers_0", "workers_4")]
        lines.append(_rate(f"S8 {kind}", wanted * million, rate("s8", *settings)))
    for setting, words in (("epochs_3", "in order"), ("epochs_3_shuffle", "rows shuffled")):
        lines.append(_bound(f"peak memory of three epochs, {words}", 500, " MB", _peak(find, setting)))
        lines.append(_bound(f"peak of later epochs against the first, {words}", 1.1, "×", _growth(find, setting)))
    return lines


def goal_lines(find: Find) -> list[str]:
    """The table as Markdown."""
    words = {True: "met", False: "**missed**", None: "not measured"}
    return [
        "## Goals",
        "",
        "| figure | goal | shardmill | | torch-dataloader-utils | pyarrow loop |",
        "|---|--:|--:|---|--:|--:|",
        *[
            f"| {goal.figure} | {goal.wanted} | {goal.measured} | {words[goal.is_met]} | {goal.peer} | {goal.loop} |"
            for goal in goals(find)
        ],
        "",
    ]


def _rate(figure: str, wanted: float, value: Figure) -> Goal:
    ours = value(OURS)
    is_met = None if ours is None else ours >= wanted
    shown = [_rows_per_s(value(system)) for system in (OURS, PEER, LOOP)]
    return Goal(figure, f"≥ {_rows_per_s(wanted)}", shown[0], is_met, *shown[1:])


def _bound(figure: str, wanted: float, unit: str, value: Figure, *, is_least: bool = False) -> Goal:
    ours = value(OURS)
    is_met = None if ours is None else ours >= wanted if is_least else ours <= wanted
    shown = [_shown(value(system), unit) for system in (OURS, PEER, LOOP)]
    return Goal(figure, f"{'≥' if is_least else '≤'} {wanted:g}{unit}", shown[0], is_met, *shown[1:])


def _steps(find: Find) -> Figure:
    def worst(system: str) -> float | None:
        names = _THREADS if system == OURS else _WORKERS
        steps = [
            step
            for output in ("arrow", "torch")
            for step in _ratios([_value(find("s1", f"{output}_{name}", system), "rows_per_s") for name in names])
        ]
        return min(steps, default=None)

    return worst


def _ratios(rates: Sequence[float | None]) -> list[float]:
    """Of each rate to the one before it."""
    return [later / earlier for earlier, later in pairwise(rates) if earlier is not None and later is not None]


def _worst_imbalance(find: Find) -> Figure:
    return lambda system: _all_of(
        [_value(find("s2", f"ranks_{ranks}", system), "imbalance", 100) for ranks in (2, 4)], max
    )


def _slower(find: Find) -> Figure:
    return lambda system: _all_of([_value(find("s2", f"ranks_{ranks}", system), "rows_per_s") for ranks in (2, 4)], min)


def _s3(find: Find) -> Figure:
    # The peer's figure is its simulation.
    return lambda system: _value(find("s3", "ranks_8_in_turn" if system == PEER else "threads_2", system), "median_s")


def _share_error(find: Find) -> Figure:
    def furthest(system: str) -> float | None:
        entry = find("s4", "ranks_16", system)
        if entry is None:
            return None
        rows = entry["rows_of_ranks"]
        return max(abs(count / sum(rows) - 1 / len(rows)) for count in rows) * 100

    return furthest


def _bytes_of_rank(find: Find) -> Figure:
    def worst(system: str) -> float | None:
        entry, alone = find("s4", "ranks_16", system), find("s4", "rank_0_of_1", system)
        alone = alone or find("s1", "arrow_workers_0", system)
        if entry is None or alone is None:
            return None
        # The clock starts when the footers were read, and every rank needs those of all files.
        built = entry.get("build_bytes_of_ranks") or [0] * len(entry["asked_bytes_of_ranks"])
        of_ranks = [asked - build for asked, build in zip(entry["asked_bytes_of_ranks"], built, strict=True)]
        return max(of_ranks) * len(of_ranks) / (alone["asked_bytes"] - alone.get("build_bytes", 0))

    return worst


def _sorted_bytes(find: Find) -> Figure:
    def share(system: str) -> float | None:
        name = "threads_2" if system in (OURS, LOOP) else "workers_0"
        entry, whole = find("s6", f"sorted_{name}", system), find("s6", f"sorted_unfiltered_{name}", system)
        if entry is None:
            return None
        # Without a run over everything, the size of the files stands for it.
        return 100 * entry["asked_bytes"] / (whole["asked_bytes"] if whole else entry["data_bytes"])

    return share


def _first_batch(find: Find) -> Figure:
    def best(system: str) -> float | None:
        settings = ("small_threads_2", "small_workers_4")
        found = [_value(find("s7", setting, system), "first_batch_s", 1000) for setting in settings]
        return min((one for one in found if one is not None), default=None)

    return best


def _peak(find: Find, setting: str) -> Figure:
    return lambda system: _value(_memory(find, setting, system), "peak_rss_bytes", 1e-6)


def _growth(find: Find, setting: str) -> Figure:
    def growth(system: str) -> float | None:
        entry = _memory(find, setting, system)
        if entry is None:
            return None
        first, *later = entry["epoch_peak_rss_bytes"]
        return max(later) / first

    return growth


def _memory(find: Find, setting: str, system: str) -> Metrics | None:
    return find("memory", f"{setting}_{'workers_0' if system == PEER else 'threads_2'}", system)


def _best(entries: Iterable[Metrics | None]) -> float | None:
    return max((entry["rows_per_s"] for entry in entries if entry), default=None)


def _all_of(values: list[float | None], pick: Callable[[list[float]], float]) -> float | None:
    present = [value for value in values if value is not None]
    return pick(present) if len(present) == len(values) else None


def _value(entry: Metrics | None, key: str, scale: float = 1.0) -> float | None:
    return float(entry[key]) * scale if entry else None


def _rows_per_s(value: float | None) -> str:
    return "-" if value is None else f"{value / 1e6:.3g} M/s"


def _shown(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.3g}{unit}"
