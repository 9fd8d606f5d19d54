"""Normalizes ``storage_options``: a mapping, a store of obstore, or an fsspec file system."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from shardmill._native.storage import is_local, resolved_path
from shardmill._option_values import whole
from shardmill._sizes import byte_count
from shardmill.errors import OptionError

_HINT = (
    "settings of botocore or of an fsspec file system have different names here, "
    "see sm.storage.configure"
)


@dataclass(frozen=True)
class StorageOptions:
    """Options as passed to native code.

    Args:
        texts: options by name.
        credentials: an object whose ``fetch()`` returns credentials by name and their expiry, in
            seconds since 1970.
        files: a file system that serves the paths, see ``shardmill.storage._fsspec.Files``.
    """

    texts: dict[str, str]
    credentials: Any = None
    files: Any = None


def texts_of(options: Mapping[str, Any], hint: str = _HINT) -> dict[str, str]:
    """Return options as strings; those that are ``None`` are omitted."""
    texts = {}
    for name, value in options.items():
        if not isinstance(name, str):
            raise OptionError(f"names of storage options must be strings, not {name!r}")
        if name == "cache_bytes" and value is not None:
            texts[name] = str(_cache_bytes(value))
        elif name == "cache_dir" and value is not None:
            texts[name] = cache_path(value)
        elif isinstance(value, bool):
            texts[name] = str(value).lower()
        elif isinstance(value, str | int | float):
            texts[name] = str(value)
        elif isinstance(value, timedelta):
            texts[name] = f"{round(value.total_seconds() * 1000)}ms"
        elif value is not None:
            raise OptionError(
                f"the storage option {name!r} must be a string or a number, "
                f"not {type(value).__name__}\n"
                f"hint: {hint}"
            )
    return texts


def _cache_bytes(size: Any) -> int:
    if isinstance(size, str):
        return int(size) if size.isdecimal() else byte_count(size, "cache_bytes")
    return whole(
        "cache_bytes", int(size) if isinstance(size, float) and size.is_integer() else size, 0
    )


def cache_path(directory: Any) -> str:
    """Return a cache directory with ``~`` expanded.

    Raises:
        ValueError: If it is not a local directory.
    """
    text = os.fspath(directory) if isinstance(directory, str | os.PathLike) else directory
    if isinstance(text, str) and is_local(text):
        text = resolved_path(text)
    if not isinstance(text, str) or not text or not is_local(text):
        raise OptionError(
            f"the storage option 'cache_dir' must be a local directory, not {directory!r}"
        )
    return os.path.expanduser(text)  # noqa: PTH111 - pathlib would normalize the string
