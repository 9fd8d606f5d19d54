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
    return chosen_directory(directory, hint="pass one")


def chosen_directory(directory: PathLike | None, *, hint: str) -> str:
    """Return ``cache_directory``. ``hint`` tells the user how to give one."""
    named = os.environ.get("SHARDMILL_CACHE_DIR") if directory is None else directory
    if not named:
        raise OptionError(f"there is no cache directory\nhint: {hint}, or set SHARDMILL_CACHE_DIR")
    return cache_path(named)


def user_directory(name: str) -> Path:
    """Return the directory in which data of this user is kept for later runs."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else _home() / ".cache") / "shardmill" / name


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        # As container engines do for a user that the system does not know. What keeps data there
        # warns that it cannot be written.
        return Path("/")


def _existing(directory: PathLike | None) -> str | None:
    """Return ``cache_directory``, and check that an existing directory is a cache.

    It is ``None`` if the directory is empty.

    Raises:
        FileNotFoundError: If it is not.
    """
    path = cache_directory(directory)
    if not Path(path).is_dir() or (Path(path) / "objects").is_dir():
        return path
    if next(Path(path).iterdir(), None) is None:
        return None
    raise NotFoundError(
        f"the directory {path!r} is not a cache: it has no directory `objects`"
        "\nhint: check the path; a new cache gets it with the first object"
    )


def cache_entries(directory: PathLike | None = None) -> list[tuple[str, int, int, float]]:
    """List the objects in a cache directory, most recently used first.

    Returns:
        For each object: its path, its bytes on disk, its full size, and the time of last use, in
            seconds since 1970.
    """
    path = _existing(directory)
    return [] if path is None else _native.cache_entries(path)


def clear_cache(directory: PathLike | None = None) -> int:
    """Clear a cache directory and return the number of bytes removed.

    Running processes continue, and fetch what they need again.
    """
    path = _existing(directory)
    return 0 if path is None else _native.clear_cache(path)
