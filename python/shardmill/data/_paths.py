"""The paths of a data set, as its user gives them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from shardmill.data._arrow import ArrowRows
from shardmill.errors import OptionError
from shardmill.storage._fsspec import is_file_system, listed_paths, located


def is_list(path: Any) -> bool:
    """Return whether several paths are given, or a list of one."""
    return isinstance(path, Iterable) and not isinstance(path, str) and not is_file_system(path)


def paths_of(path: Any, storage_options: Any) -> tuple[list[str], Any]:
    """Return the paths as strings, and the options of their store.

    Raises:
        ValueError: If there are none, or one is not a path.
    """
    if any(
        isinstance(part, ArrowRows) for part in (path if isinstance(path, list | tuple) else [path])
    ):
        raise OptionError(
            "the path must be a string, a Path, or a list of these, "
            "not a data set that is already open\n"
            "hint: pass the data set to sm.Loader, or several to sm.Mixture"
        )
    if hasattr(path, "__arrow_c_stream__") or hasattr(path, "__dataframe__"):
        raise OptionError(
            f"the path must be a string, a Path, or a list of these, not a {type(path).__name__}"
            "\nhint: write data in memory to files first: sm.Writer(path).write_batch(data)"
        )
    paths, storage_options = located(listed_paths(path), storage_options)
    if not paths:
        raise OptionError("no path was given")
    return [part if isinstance(part, str) else str(Path(part)) for part in paths], storage_options
