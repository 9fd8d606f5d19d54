"""Calls `verify` or `inspect` of the native module with all files at or below paths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shardmill._native.check import checkable_files
from shardmill._progress import Progress
from shardmill._threads import thread_count
from shardmill.data._left_out import warn_of_left_out
from shardmill.storage._paths import Paths, path_list


def walk(
    paths: Paths,
    check: Callable[..., object],
    result: Callable[..., Any],
    *,
    left_out_as: str,
    threads: int | None,
    progress: bool,
    **options: Any,
) -> list[Any]:
    """Return the result for each file, sorted by path."""
    files, left_out = checkable_files(path_list(paths), options.get("dtype") is not None)
    warn_of_left_out(left_out, outcome=f"of an unknown format and not {left_out_as}")
    found: list[Any] = []
    with Progress(total=len(files), is_shown=progress, noun="files") as bar:

        def on_file(values: dict[str, Any]) -> None:
            found.append(result(**values))
            bar.count(samples=found[-1].samples, size=found[-1].bytes)

        check(files, options, thread_count(threads), on_file)
    return found
