"""Warnings about files that were found but are not read."""

from __future__ import annotations

from collections.abc import Sequence

from shardmill._warnings import warn_caller

#: Number of files shown in a warning, and of characters of each path.
_NAMES_SHOWN = 5
_NAME_SHOWN = 200


def warn_of_left_out(
    paths: Sequence[str],
    *,
    outcome: str,
    hint: str = "a file given as an explicit path is always read",
) -> None:
    """Issue one warning of bounded length about files that were found but are not read."""
    if not paths:
        return
    shown = ", ".join(
        repr(path if len(path) <= _NAME_SHOWN else f"…{path[-_NAME_SHOWN:]}")
        for path in paths[:_NAMES_SHOWN]
    )
    more = f" and {len(paths) - _NAMES_SHOWN:,} more" if len(paths) > _NAMES_SHOWN else ""
    warn_caller(
        f"{len(paths):,} {'file is' if len(paths) == 1 else 'files are'} {outcome}: {shown}{more}\n"
        f"hint: {hint}"
    )
