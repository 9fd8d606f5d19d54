"""Judges the metrics of an entry."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from benchmarks.runner.settings import Requirement


def unmet_requirements(requirements: Iterable[Requirement], metrics: dict[str, Any]) -> list[str]:
    """Returns one sentence for each requirement that the metrics do not meet."""
    return [reason for requirement in requirements if (reason := _unmet(requirement, metrics))]


def _unmet(requirement: Requirement, metrics: dict[str, Any]) -> str | None:
    name = requirement.metric
    if name not in metrics:
        return f"{name} is missing"
    value = metrics[name]
    if requirement.exact_value is not None:
        # True == 1 in Python, but a count is no claim.
        is_same = value == requirement.exact_value and isinstance(value, bool) == isinstance(
            requirement.exact_value, bool
        )
        return None if is_same else f"{name} is {value}, not exactly {requirement.exact_value}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"{name} is {value!r}, not a number"
    # Written so that NaN fails.
    if requirement.min_value is not None and not value >= requirement.min_value:
        return f"{name} is {value}, below {requirement.min_value}"
    if requirement.max_value is not None and not value <= requirement.max_value:
        return f"{name} is {value}, above {requirement.max_value}"
    return None
