"""What the rounds of a session measured: median and best of each call, by scenario, setting and system.

Enters: the ``results.json`` of a run whose entries are named ``<scenario>__<setting>__<system>``. Leaves: ``Measured``.
Called by ``goals`` and ``report``. Invariant: only entries of which every round succeeded are in it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

OURS, PEER = "shardmill", "array_record"


@dataclass(frozen=True)
class Rate:
    """Records a second of one call.

    Attributes:
        call: As it is written in Python.
        records: Of one round.
        median: Over the rounds.
        best: Over the rounds.
    """

    call: str
    records: int
    median: float
    best: float


@dataclass(frozen=True)
class Measured:
    """One entry.

    Attributes:
        rounds: The metrics of each.
    """

    scenario: str
    setting: str
    system: str
    rounds: tuple[dict[str, Any], ...]

    def rate(self, call: str) -> Rate | None:
        """Median and best of a call, if the entry made it."""
        found = [one["figures"][call] for one in self.rounds if call in one["figures"]]
        if not found:
            return None
        rates = [one["records"] / one["seconds"] for one in found]
        return Rate(call, found[0]["records"], statistics.median(rates), max(rates))

    def calls(self) -> list[str]:
        """All calls, in the order in which they were made."""
        return list(self.rounds[0]["figures"])

    def median(self, key: str) -> float:
        """Of a number that is no rate."""
        return statistics.median(one[key] for one in self.rounds)


# Scenario, setting, system.
Find = Callable[[str, str, str], Measured | None]


def measured_entries(results: dict[str, Any], systems: Collection[str] = (OURS, PEER)) -> list[Measured]:
    """The entries that succeeded, of the named systems."""
    found = []
    for entry in results["entries"]:
        parts = entry["name"].split("__")
        if entry["is_success"] and len(parts) == 3 and parts[2] in systems:
            # A session of one round, or an older one, holds its metrics only.
            rounds = entry.get("all_metrics") or [entry["metrics"]]
            found.append(Measured(parts[0], parts[1], parts[2], tuple(rounds)))
    return found


def finder(measured: Iterable[Measured]) -> Find:
    """Looks entries up by scenario, setting and system."""
    entries = {(one.scenario, one.setting, one.system): one for one in measured}
    return lambda scenario, setting, system: entries.get((scenario, setting, system))


def rate_of(entry: Measured | None, *calls: str) -> Rate | None:
    """The call of the highest median among some, if there is one."""
    rates = [rate for call in calls if entry and (rate := entry.rate(call))]
    return max(rates, key=lambda rate: rate.median, default=None)


def repeated_reads(entry: Measured | None) -> list[str]:
    """The calls of an entry that are ``read()`` over and over, whatever its options."""
    return [call for call in entry.calls() if call.split(",")[0] == "read()"] if entry else []


def shown_rate(value: float | None) -> str:
    """Records a second for a table."""
    if value is None:
        return "-"
    return f"{value / 1e6:.3g} M/s" if value >= 1e6 else f"{value / 1e3:.3g} K/s"
