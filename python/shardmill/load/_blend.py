"""Weights, repeats and counts of the sources of a mixture, as exact numbers."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from numbers import Integral, Rational, Real
from typing import Any

from shardmill._option_values import whole
from shardmill.errors import OptionError

#: Denominator of the weights passed to native code.
_PARTS = 2**40

_MOST_ROWS = 2**62

_MOST_SIMILAR = 5

#: The weights of a stage apply from its row on, counted over all epochs of a run.
Stage = tuple[int, tuple[Fraction, ...]]


@dataclass(frozen=True, kw_only=True)
class Blend:
    """Rows of an epoch, and the share of each source, which may change from stage to stage."""

    mode: str
    rows: int
    #: The shares of a stage add up to one.
    stages: tuple[Stage, ...]
    interpolate: str | None = None
    #: Rows of each source, if fixed.
    counts: tuple[int, ...] | None = None

    @property
    def native_stages(self) -> list[tuple[int, list[int]]]:
        """Return the stages as integers.

        If there is only one stage, its integers are row counts or in the ratio of the row counts.
        """
        if self.counts is not None:
            return [(0, list(self.counts))]
        return [(row, native_weights(parts)) for row, parts in self.stages]

    def is_drawn(self, source: int) -> bool:
        """Return whether a source has any weight."""
        return any(parts[source] for _, parts in self.stages)


def native_weights(numbers: Sequence[Fraction | float]) -> list[int]:
    """Return weights as integers."""
    return [round(part * _PARTS) for part in shares([exact(number) for number in numbers])]


def fixed(mode: str, counts: Sequence[int]) -> Blend:
    """Return a blend with the same counts in every epoch."""
    rows = sum(counts)
    if rows > _MOST_ROWS:
        raise OptionError(f"an epoch has at most 2^62 rows, not {rows}")
    return Blend(mode=mode, rows=rows, stages=((0, shares(counts)),), counts=tuple(counts))


def weighted(names: Sequence[str], weights: Any, rows: int, interpolate: str | None) -> Blend:
    """Return a blend of constant weights, or of a list of ``(row, weights)``."""
    if interpolate not in (None, "linear"):
        raise OptionError(f"interpolate must be None or 'linear', not {interpolate!r}")
    is_staged = (
        isinstance(weights, Sequence) and len(weights) > 0 and isinstance(weights[0], tuple | list)
    )
    if interpolate and not is_staged:
        raise OptionError("interpolate requires weights that change: pass a list of (row, weights)")
    given = [_stage(stage) for stage in weights] if is_staged else [(0, weights)]
    starts = [row for row, _ in given]
    if starts[0] != 0 or any(after <= before for before, after in pairwise(starts)):
        raise OptionError(f"the rows of weights must start at 0 and ascend, not {starts}")
    stages = []
    for row, of_stage in given:
        numbers = [
            _number("weights", name, value) for name, value in by_name("weights", of_stage, names)
        ]
        if not any(numbers):
            raise OptionError(f"the weights{f' from row {row} on' if is_staged else ''} are all 0")
        stages.append((row, shares(numbers)))
    return Blend(mode="weights", rows=rows, stages=tuple(stages), interpolate=interpolate)


def repeated(names: Sequence[str], repeat: Any, rows: Sequence[int]) -> list[int]:
    """Return the rows of each source: ``repeat`` times its number of rows."""
    if isinstance(repeat, Real):
        repeat = dict.fromkeys(names, repeat)
    numbers = [_number("repeat", name, value) for name, value in by_name("repeat", repeat, names)]
    return [
        math.floor(number * count + Fraction(1, 2))
        for number, count in zip(numbers, rows, strict=True)
    ]


def chosen(names: Sequence[str], choose: Any) -> list[int]:
    """Return the rows of each source, as given."""
    return [
        whole(f"choose[{name!r}]", value, 0) for name, value in by_name("choose", choose, names)
    ]


def nested(outer: Blend, inner: Sequence[Blend | None]) -> Blend:
    """Return the blend of all leaf sources, with nested mixtures replaced by their sources."""
    changing = [blend for blend in (outer, *inner) if blend is not None and len(blend.stages) > 1]
    if outer.counts is not None:
        if changing:
            raise OptionError(
                "a mixture whose weights change can only be a source of a mixture with weights\n"
                "hint: give the outer mixture weights in place of repeats or counts"
            )
        counts: list[int] = []
        for count, blend in zip(outer.counts, inner, strict=True):
            counts += [count] if blend is None else apportioned(count, blend.stages[0][1])
        return fixed(outer.mode, counts)
    interpolate = next((blend.interpolate for blend in changing if blend.interpolate), None)
    if interpolate and len(changing) > 1:
        raise OptionError(
            "interpolate is for one of several mixtures within each other: "
            "weights of the others stay as they are"
        )
    rows = sorted({row for blend in changing for row, _ in blend.stages} | {0})
    stages = []
    for row in rows:
        parts: list[Fraction] = []
        for part, blend in zip(_parts_at(outer, row), inner, strict=True):
            parts += [part] if blend is None else [part * own for own in _parts_at(blend, row)]
        stages.append((row, tuple(parts)))
    return Blend(mode=outer.mode, rows=outer.rows, stages=tuple(stages), interpolate=interpolate)


def apportioned(total: int, parts: Sequence[Fraction]) -> list[int]:
    """Split ``total`` by the largest-remainder method; ties go to the earlier part."""
    exact = [total * part for part in parts]
    counts = [math.floor(part) for part in exact]
    by_rest = sorted(range(len(parts)), key=lambda source: (counts[source] - exact[source], source))
    for source in by_rest[: total - sum(counts)]:
        counts[source] += 1
    return counts


def shares(numbers: Sequence[Fraction | int]) -> tuple[Fraction, ...]:
    """Normalize to shares that add up to one; all zero if the numbers are all zero."""
    total = sum(numbers)
    return tuple(Fraction(number) / total if total else Fraction(0) for number in numbers)


def by_name(option: str, values: Any, names: Sequence[str]) -> list[tuple[str, Any]]:
    """Return a value for each source, from a mapping by name or a sequence in source order."""
    if isinstance(values, Mapping):
        for name in values:
            if name not in names:
                raise OptionError(
                    f"{option} names {name!r}, which is not a source; "
                    f"the sources are {', '.join(names)}{_similar(name, names)}"
                )
        missing = [name for name in names if name not in values]
        if missing:
            raise OptionError(
                f"{option} has no value for {missing[0]!r}\nhint: 0 leaves a source out"
            )
        return [(name, values[name]) for name in names]
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise OptionError(f"{option} must be a number for each source, by name, not {values!r}")
    if len(values) != len(names):
        raise OptionError(f"{option} has {len(values)} numbers for {len(names)} sources")
    return list(zip(names, values, strict=True))


def _similar(name: Any, names: Sequence[str]) -> str:
    from difflib import get_close_matches

    name = str(name)
    inner = [one for one in names if one.startswith(f"{name}/") or one.endswith(f"/{name}")]
    close = list(dict.fromkeys([*inner, *get_close_matches(name, names)]))[:_MOST_SIMILAR]
    return f"\nhint: did you mean {' or '.join(map(repr, close))}?" if close else ""


def _parts_at(blend: Blend, row: int) -> tuple[Fraction, ...]:
    return next(parts for start, parts in reversed(blend.stages) if start <= row)


def _stage(stage: Any) -> tuple[int, Any]:
    try:
        row, weights = stage
        row = operator.index(row)
    except (TypeError, ValueError):
        raise OptionError(
            f"weights that change must be a list of (row, weights); {stage!r} is not such a pair"
        ) from None
    if not 0 <= row < 2**62:
        raise OptionError(f"the rows of weights are from 0 up to 2^62, not {row}")
    return row, weights


def exact(number: Any) -> Fraction:
    """Return the decimal value of a number: 0.1 is one tenth, not the closest binary number."""
    if isinstance(number, Integral):
        # Numbers of NumPy overflow.
        return Fraction(int(number))
    return Fraction(number if isinstance(number, Rational) else repr(float(number)))


def _number(option: str, name: str, value: Any) -> Fraction:
    try:
        number = Fraction(-1) if isinstance(value, bool | str) else exact(value)
    except (TypeError, ValueError, OverflowError):
        number = Fraction(-1)
    if number < 0:
        raise OptionError(f"{option}[{name!r}] must be a number of at least 0, not {value!r}")
    return number
