"""Checks of what a loader is told."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from shardmill.dataset import Dataset, PathLike
from shardmill.errors import OptionError
from shardmill.mixture import Mixture

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


def dataset_of(
    path: Dataset | Mixture | PathLike | Sequence[PathLike],
    *,
    columns: Sequence[str] | None,
    threads: int | None,
    options: dict[str, Any],
    bad_lines: str,
    on_bad_file: str,
    pickles: str,
) -> Dataset | Mixture:
    """``path`` itself when it is a data set, else the one that is made of it.

    Raises:
        ValueError: for options of a data set that is there already.
    """
    if isinstance(path, Dataset | Mixture):
        given = [name for name, value in options.items() if value is not None]
        if given or (bad_lines, on_bad_file, pickles) != ("error", "error", "error"):
            names = ", ".join([*options, "bad_lines, on_bad_file and pickles"])
            owner = "Dataset" if isinstance(path, Dataset) else "sources of the Mixture, each a sm.Dataset"
            raise OptionError(f"{names} belong to the {owner}; give them there")
        return path
    return Dataset(
        path,
        **options,
        bad_lines=bad_lines,
        on_bad_file=on_bad_file,
        # Which columns are delivered is known further down.
        pickles="bytes" if columns is not None and pickles == "error" else pickles,
        threads=threads,
    )
