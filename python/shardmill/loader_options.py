"""Checks of what a loader is told."""

from __future__ import annotations

import operator
from typing import Any

from shardmill.errors import OptionError

#: Numbers cross into native code as 64 bits.
_MOST = 2**63 - 1

#: A state may bring so many lanes. Each of them has a window in memory, and runs have as many as ranks, or some times that.
MOST_LANES = 2**20


def tail_of(asked: str | None, world_size: int) -> str:
    """What ends an epoch, where nobody asked for anything."""
    return asked or ("uneven" if world_size == 1 else "pad")


def at_least(name: str, value: Any, least: int) -> int:
    """``value`` as a whole number.

    Raises:
        ValueError: when it is none, or below ``least``.
    """
    try:
        # Also NumPy's integers.
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or number < least:
        raise OptionError(f"{name} is a whole number of at least {least}, not {value!r}")
    if number > _MOST:
        counted = " that counts passes over the data" if name == "epoch" else ""
        raise OptionError(
            f"{name} is at most 2^63 - 1, not {number}\nhint: give {name} as a number of 63 bits{counted}"
        )
    return number
