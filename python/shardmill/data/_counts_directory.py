"""The directory of token counts: which one is the default, and where it must not be."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from shardmill.errors import OptionError
from shardmill.storage._cache import user_directory
from shardmill.storage._paths import absolute

_WILDCARD = re.compile(r"[*?[]")


def default_counts() -> str:
    """Return the directory of counts that is used unless another one is given."""
    cache = os.environ.get("SHARDMILL_CACHE_DIR")
    return str(Path(cache) / "counts" if cache else user_directory("counts"))


def check_counts_directory(counts: str, below: str, paths: Sequence[str]) -> None:
    """Check that files of counts do not become data when a data set is opened again.

    Args:
        counts: the directory of all counts.
        below: the name of the directory in it that has the files.
        paths: those of the data set.

    Raises:
        ValueError: If one of the paths leads to the files.
    """
    directory = _canonical(counts)
    for path in paths:
        root, pattern = _split(path)
        start = f"{_canonical(root).rstrip('/')}/"
        if not f"{directory}/".startswith(start):
            continue
        parts = [part for part in directory.removeprefix(start[:-1]).split("/") if part]
        is_hidden = any(part.startswith(("_", ".")) for part in parts)
        if not is_hidden and _leads_to(pattern, [*parts, below, "counts-0.parquet"]):
            raise OptionError(
                f"the token counts in {counts} would be read as data of {path} "
                "when it is opened again\n"
                f"hint: pass counts={root.rstrip('/') + '/_counts'!r}, which is skipped, "
                "or a directory elsewhere"
            )


def _canonical(path: str) -> str:
    plain = absolute(path)
    return str(Path(plain).resolve()) if Path(plain).is_absolute() else plain.rstrip("/")


def _split(path: str) -> tuple[str, list[str]]:
    """Return the directory before the first wildcard, and the names after it."""
    if _WILDCARD.search(path) is None or Path(path).exists():
        return path, []
    parts = path.split("/")
    first = next(place for place, part in enumerate(parts) if _WILDCARD.search(part))
    return "/".join(parts[:first]) or ("/" if first else "."), parts[first:]


def _leads_to(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    """Return whether a pattern has the file ``parts``, or a directory above it."""
    if not pattern:
        return True
    if pattern[0] == "**":
        return any(_leads_to(pattern[1:], parts[start:]) for start in range(len(parts)))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _leads_to(pattern[1:], parts[1:])
