"""What ``storage_options`` may be, brought to one shape: a mapping, a store of obstore, or a file system of fsspec."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from shardmill._native.storage import is_local, resolved_path
from shardmill.errors import OptionError
from shardmill.sizes import byte_count

_HINT = "settings of botocore or of an fsspec file system have names of their own here, see sm.storage.configure"


@dataclass(frozen=True)
class StorageOptions:
    """Options as the native side takes them.

    Args:
        texts: options by name.
        credentials: an object whose ``fetch()`` gives keys by name, and when they end, in seconds since 1970.
        files: a file system that serves the paths, as :class:`shardmill.file_systems.Files`.
    """

    texts: dict[str, str]
    credentials: Any = None
    files: Any = None


def texts_of(options: Mapping[str, Any], hint: str = _HINT) -> dict[str, str]:
    """Options as texts; those that are ``None`` are left out."""
    texts = {}
    for name, value in options.items():
        if not isinstance(name, str):
            raise OptionError(f"names of storage options are texts, not {name!r}")
        if name == "cache_bytes" and value is not None:
            is_number = not isinstance(value, str) or value.isdecimal()
            texts[name] = str(int(value) if is_number else byte_count(value, name))
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
                f"the storage option {name!r} is a text or a number, not {type(value).__name__}\nhint: {hint}"
            )
    return texts


def cache_path(folder: Any) -> str:
    """A cache folder as it was meant: ``~`` is the user's own.

    Raises:
        ValueError: for what is no folder of this machine.
    """
    text = os.fspath(folder) if isinstance(folder, str | os.PathLike) else folder
    if isinstance(text, str) and is_local(text):
        text = resolved_path(text)
    if not isinstance(text, str) or not text or not is_local(text):
        raise OptionError(f"the storage option 'cache_dir' is a folder of this machine, not {folder!r}")
    return os.path.expanduser(text)  # noqa: PTH111 - a text stays as it is otherwise
