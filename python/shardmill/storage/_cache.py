"""The local cache of fetched objects: listing and clearing."""

from __future__ import annotations

import os
from pathlib import Path

from shardmill._native import storage as _native
from shardmill.errors import NotFoundError, OptionError
from shardmill.storage._options import cache_path
from shardmill.storage._paths import PathLike


def cache_directory(directory: PathLike | None = None) -> str:
    """Return the given cache directory, or that of ``SHARDMILL_CACHE_DIR``.

    Raises:
        ValueError: If there is neither.
    """
    named = os.environ.get("SHARDMILL_CACHE_DIR") if directory is None else directory
    if not named:
        raise OptionError("there is no cache directory\nhint: pass one, or set SHARDMILL_CACHE_DIR")
    return cache_path(named)


def user_directory(name: str) -> Path:
    """Return the directory in which data of this user is kept for later runs."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "shardmill" / name


def _existing(directory: PathLike | None) -> str:
    """Return ``cache_directory``, and check that an existing directory is a cache, or empty.

    Raises:
        FileNotFoundError: If it is not.
    """
    path = cache_directory(directory)
    if Path(path).is_dir() and not (Path(path) / "objects").is_dir() and not _is_empty(path):
        raise NotFoundError(
            f"the directory {path!r} is not a cache: it has no directory `objects`"
            "\nhint: check the path; a new cache gets it with the first object"
        )
    return path


def _is_empty(path: str) -> bool:
    """Return whether this is a directory in which no cache was made yet."""
    return Path(path).is_dir() and next(Path(path).iterdir(), None) is None


def cache_entries(directory: PathLike | None = None) -> list[tuple[str, int, int, float]]:
    """List the objects in a cache directory, most recently used first.

    Returns:
        For each object: its path, its bytes on disk, its full size, and the time of last use, in seconds since 1970.
    """
    path = _existing(directory)
    return [] if _is_empty(path) else _native.cache_entries(path)


def clear_cache(directory: PathLike | None = None) -> int:
    """Clear a cache directory and return the number of bytes removed. Running processes continue, and fetch what they need again."""
    path = _existing(directory)
    return 0 if _is_empty(path) else _native.clear_cache(path)
