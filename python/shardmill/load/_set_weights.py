"""The weights of a mixture that were set during a run, in a plan and in a state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from shardmill.errors import CheckpointMismatchError
from shardmill.load._blend import native_weights, weighted

#: Pack, pass, row and token of a lane.
Mark = tuple[int, int, int, int]

_MOST = 2**63


@dataclass(frozen=True, kw_only=True)
class SetWeights:
    """Weights by epoch, for the epochs that a loader still needs.

    With endless lanes, passes take the place of epochs.

    Attributes:
        stages: for each stage, its first epoch and the weights of the sources.
        drawn: rows of each source before the first stage.
        known_from: the first epoch whose weights are known. Known epochs before the first stage
            have the weights with which the mixture was created.
        marks: with endless lanes, a position of each lane; earlier packs are not known.
    """

    stages: tuple[tuple[int, tuple[float, ...]], ...]
    drawn: tuple[int, ...]
    known_from: int
    marks: tuple[Mark, ...] = ()

    @property
    def start(self) -> int:
        """The epoch from which the last weights apply."""
        return self.stages[-1][0]

    @property
    def native_stages(self) -> list[tuple[int, list[int]]]:
        """Return the stages with integer weights."""
        return [(epoch, native_weights(weights)) for epoch, weights in self.stages]

    def state(self) -> dict[str, Any]:
        """Return plain JSON values, which ``parsed`` reads."""
        stages = [[epoch, list(weights)] for epoch, weights in self.stages]
        marks = {"marks": [list(mark) for mark in self.marks]} if self.marks else {}
        known = {"drawn": list(self.drawn), "known_from": self.known_from}
        return {"stages": stages, **known, **marks}

    @classmethod
    def parsed(
        cls, saved: Any, sources: Sequence[str], *, rows: int, lanes: int | None
    ) -> SetWeights:
        """Return the weights of a state.

        Args:
            saved: what ``state`` returned.
            sources: names of the sources.
            rows: rows of an epoch.
            lanes: the number of lanes, if they are endless.

        Raises:
            ValueError: If the state is damaged.
        """
        try:
            found = cls(
                stages=tuple((epoch, tuple(weights)) for epoch, weights in saved["stages"]),
                drawn=tuple(saved["drawn"]),
                known_from=saved["known_from"],
                marks=tuple((pack, at, row, token) for pack, at, row, token in saved["marks"])
                if lanes
                else (),
            )
            numbers = [epoch for epoch, _ in found.stages]
            for _, weights in found.stages:
                weighted(sources, weights, rows, None)
            places = [
                found.known_from,
                *numbers,
                *(number for mark in found.marks for number in mark),
            ]
            is_valid = (
                all(type(number) is int and 0 <= number < _MOST for number in places)
                and all(before < after for before, after in pairwise(numbers))
                and all(mark[3] < 2**32 for mark in found.marks)
                and len(found.marks) == (lanes or 0)
                and all(type(count) is int and count >= 0 for count in found.drawn)
                and (len(found.drawn), sum(found.drawn)) == (len(sources), numbers[0] * rows)
            )
        except (LookupError, TypeError, ValueError):
            is_valid, found = False, None
        if found is not None and is_valid:
            return found
        raise CheckpointMismatchError(
            f"the state is damaged: set_weights is {saved!r}\n"
            "hint: load the state exactly as state_dict() returned it"
        )
