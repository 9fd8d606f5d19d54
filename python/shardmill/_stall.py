"""Warn which stage a loader is waiting for when a batch is late."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Real
from threading import TIMEOUT_MAX
from typing import TYPE_CHECKING, Any

from shardmill.errors import OptionError

if TYPE_CHECKING:
    from concurrent.futures import Future

_SHOWN = 4

#: Seconds without a batch before a loader warns.
STALL_SECONDS = 60.0


class StallWarning(RuntimeWarning):
    """No batch has arrived for a long time."""


def checked_stall_seconds(seconds: float | None) -> float:
    """Return ``seconds`` for native code; ``None`` means never.

    Raises:
        ValueError: If it is not a positive number of seconds.
    """
    if seconds is None:
        return float("inf")
    if isinstance(seconds, bool) or not isinstance(seconds, Real) or not seconds > 0:
        raise OptionError(
            f"stall_seconds must be a positive number of seconds or None, not {seconds!r}"
        )
    # A longer time is refused by the locks of Python, and no program runs as long.
    return float("inf") if seconds > TIMEOUT_MAX else float(seconds)


def warn_of_stall(
    seconds: float, activities: Sequence[tuple[str, float, str | None, int | None]]
) -> None:
    """Warn with the activity of each thread, given as (stage, seconds, path, block)."""
    shown = [_described(*activity) for activity in activities[:_SHOWN]]
    more = len(activities) - len(shown)
    stages = "; ".join(shown) + (f"; and {more} more" if more > 0 else "")
    waited = (
        stages or "no thread is running: the machine may be overloaded, or the process was stopped"
    )
    warnings.warn(f"no batch for {_rounded(seconds)} s: {waited}", StallWarning, stacklevel=2)


def result_of(future: Future[Any], stall_seconds: float) -> Any:
    """Return the result of a transform in another process, and warn each time it is late."""
    from concurrent.futures import wait

    waited, patience = 0.0, stall_seconds
    while patience != float("inf"):
        # Do not rely on the timeout exception: a transform may raise the same class, or return just
        # at that moment.
        if wait([future], timeout=patience).done:
            break
        waited += patience
        patience = waited
        warnings.warn(
            f"no batch for {_rounded(waited)} s: the transform has not returned",
            StallWarning,
            stacklevel=2,
        )
    return future.result()


def warn_of_slow_call(seconds: float, stall_seconds: float) -> None:
    """Warn that a transform in the calling thread was late. Nothing can warn while it runs."""
    if seconds >= stall_seconds:
        warnings.warn(
            f"no batch for {_rounded(seconds)} s: the transform was running",
            StallWarning,
            stacklevel=2,
        )


def _rounded(seconds: float) -> str:
    return f"{seconds:.0f}" if seconds >= 1 else f"{seconds:.1g}"


def _described(stage: str, seconds: float, path: str | None, block: int | None) -> str:
    # A block is read while it is decoded, and native code counts both as one activity.
    what = stage if path is None else f"read or {stage} of block {block} of `{path}`"
    return f"{what} for {_rounded(seconds)} s"
