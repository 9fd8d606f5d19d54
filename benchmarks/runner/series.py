"""Figures over the rounds of an entry: names, medians, quartiles, and arithmetic round by round."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

_SEVERAL = "several sessions"


@dataclass(frozen=True)
class Series:
    """One value per round.

    Attributes:
        run: Commit and start of the session; empty for a number that was not measured.
        choice: System, setting and figure; for a best one, only those in which it differs
            from the others.
    """

    values: list[float]
    run: str = ""
    choice: tuple[str, ...] = ()

    @cached_property
    def median(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.values)

    @cached_property
    def quartiles(self) -> tuple[float, float]:
        """The first and the third quartile; with only one round, both are its value."""
        if len(self.values) < 2:
            return self.values[0], self.values[0]
        first, _, third = statistics.quantiles(self.values, n=4, method="inclusive")
        return first, third

    @property
    def spread(self) -> float:
        """The distance of the quartiles, as a share of the median."""
        return (self.quartiles[1] - self.quartiles[0]) / abs(self.median or 1)

    def with_other(self, action: Callable[[float, float], float], other: Series) -> Series:
        """Applies an operation round by round, or to the medians of two different sessions."""
        left, right, run = self.values, other.values, self.run or other.run
        if self.run and other.run and self.run != other.run:
            left, right, run = [self.median], [other.median], _SEVERAL
        elif not (self.run and other.run):
            # A number that was not measured is the same in all rounds.
            left, right = (
                (left if self.run else left * len(right)),
                (right if other.run else right * len(left)),
            )
        values = [action(*pair) for pair in zip(left, right, strict=False)]
        return Series(values, run, self.choice or other.choice)


def flat(metrics: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float | str]]:
    """Numbers by their path, and those of lists by their place.

    Texts are included only below ``told``.
    """
    for name, value in metrics.items():
        if isinstance(value, list):
            value = {str(place): one for place, one in enumerate(value)}
        if isinstance(value, dict):
            # Only the level of the figures has no name.
            yield from flat(value, prefix if name == "figures" else f"{prefix}{name}/")
        elif (isinstance(value, int | float) and not isinstance(value, bool)) or prefix.startswith(
            "told/"
        ):
            yield f"{prefix}{name}", value


def by_figure(rounds: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The values of each figure, round by round."""
    flats = [dict(flat(one)) for one in rounds]
    return {
        name: [one[name] for one in flats if name in one] for name in (flats[0] if flats else ())
    }


def entry_spread(rounds: Sequence[Mapping[str, Any]]) -> float:
    """The spread of an entry.

    It is the median over its rates, or the spread of the whole process if it has none.
    """
    found = by_figure(rounds)
    rates = [name for name in found if name.endswith("per_s")] or ["process_seconds"]
    return statistics.median(Series(found[name]).spread for name in rates) if found else 0.0
