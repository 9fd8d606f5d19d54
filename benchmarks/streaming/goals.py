"""The goals of the streaming benchmark, and what a session measured for each.

Enters: a ``Find`` over the entries that succeeded. Leaves: ``Goal`` lines. Called by ``report``. Invariant: a figure that
was not measured is shown as missing, never as met; medians over the rounds decide. Rates are those of the fair protocol.
"""

from __future__ import annotations

from benchmarks.arrayrecord.rounds import Find, rate_of, shown_rate
from benchmarks.report_goals import Goal, at_least, at_most

OURS, PEER, CHINI, CEILING = "shardmill", "mosaicml", "chinidataset", "pyarrow"
TITLES = {PEER: "MosaicML Streaming", CHINI: "ChiniDataset", OURS: "shardmill", CEILING: "pyarrow by hand"}

# Rows a second.
RATES = {
    "read, sequential": 600e3,
    "read, shuffled": 500e3,
    "batches of columns": 2e6,
    "batches of columns, shuffled": 1.2e6,
    "DataLoader, 0 workers": 500e3,
    "DataLoader, 2 workers": 250e3,
    "write, row by row": 400e3,
    "write, column batches": 1.5e6,
    "parallel write + merge": 400e3,
}
_SPEED_UP = 1.6
# Times as fast as MosaicML on its own files.
MDS = {"read, sequential": 30.0, "read, shuffled": 25.0}
_PLAN_MS, _PLAN_MB, _AMPLIFICATION = 50.0, 20.0, 1.1


def goals(find: Find) -> list[Goal]:
    """Holds a session against the goals."""
    return [
        *[_rate(find, figure, wanted) for figure, wanted in RATES.items()],
        at_least(
            "write_rows with a transform, 2 workers against 1",
            _ratio(*(_median(find, "fair", OURS, f"write_rows, transform, {workers}") for workers in ("2 workers", "1 worker"))),
            _SPEED_UP,
        ),
        *[
            at_least(
                f"MDS files of MosaicML, {figure}, against its own reader",
                _ratio(*(_median(find, "mds", system, figure) for system in (OURS, PEER))),
                wanted,
            )
            for figure, wanted in MDS.items()
        ],
        at_most("plan of 10 M rows for one of 64 ranks, time", _value(find, "plan_s", 1e3), _PLAN_MS, " ms"),
        at_most("plan of 10 M rows for one of 64 ranks, memory", _value(find, "plan_bytes", 1e-6), _PLAN_MB, " MB"),
        at_most(
            "1 GB of images in 100 row groups, shuffled: stated decode amplification",
            _value(find, "amplification"),
            _AMPLIFICATION,
            "×",
        ),
    ]  # fmt: skip


def _rate(find: Find, figure: str, wanted: float) -> Goal:
    found = _median(find, "fair", OURS, figure)
    is_met = None if found is None else found >= wanted
    return Goal(f"{figure}, rows a second", f"≥ {shown_rate(wanted)}", shown_rate(found), is_met)


def _median(find: Find, protocol: str, system: str, figure: str) -> float | None:
    rate = rate_of(find("imdb", protocol, system), figure)
    return rate.median if rate else None


def _value(find: Find, key: str, scale: float = 1.0) -> float | None:
    entry = find("imdb", "plan", OURS)
    return entry.median(key) * scale if entry else None


def _ratio(over: float | None, under: float | None) -> float | None:
    return over / under if over and under else None
