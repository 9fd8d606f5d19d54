"""Checks that a job does not write where it reads."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from shardmill.errors import OptionError


def refuse_inside_input(what: str, directory: str, inputs: Sequence[str]) -> None:
    """Check that files in ``directory`` would not be read as input by the next run.

    Args:
        what: what the directory is for, for the message.
        directory: the canonical path.
        inputs: canonical paths of the source; they may be globs.

    Raises:
        ValueError: If they would.
    """
    for source in inputs:
        if Path(directory).is_relative_to(source) or _is_reached(directory, source):
            raise OptionError(
                f"The {what} `{directory}` is inside the input `{source}`\n"
                "hint: use a separate directory"
            )


def _is_reached(path: str, pattern: str) -> bool:
    """Return whether a glob finds files in the directory ``path``.

    Directories that match are searched recursively.
    """
    fixed, star, rest = pattern.partition("*")
    if "**" in star + rest and Path(path).is_relative_to(Path(fixed + "x").parent):
        return True
    depth = len(Path(pattern).parts)
    # A star matches within one path component.
    return len(Path(path).parts) >= depth and all(
        map(fnmatchcase, Path(path).parts[:depth], Path(pattern).parts)
    )
