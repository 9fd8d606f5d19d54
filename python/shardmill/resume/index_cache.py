"""Indexes of files in the user's cache folder, each built once however many processes ask for it."""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from shardmill._native import resume as _native
from shardmill.curate.progress import Progress
from shardmill.errors import FormatError, NotFoundError

_logger = logging.getLogger("shardmill.resume")
_POLL_S = 0.2
_KEPT_S = 14 * 24 * 3600


def read_index(
    paths: list[str],
    columns: list[str],
    *,
    path: str,
    format: str | None,
    memory_bytes: int,
    threads: int,
    is_shown: bool,
) -> _native.IdIndex:
    """Builds the index of files at ``path``, with a bar on the terminal while it goes on."""
    more = f" and {len(paths) - 1:,} more files" if len(paths) > 1 else ""
    _logger.info("Loading checkpoint %s%s…", paths[0], more)
    counts = _native.BuildProgress()
    is_done = threading.Event()
    watcher = threading.Thread(target=_watch, args=(counts, is_done), daemon=True) if is_shown else None
    if watcher is not None:
        watcher.start()
    try:
        index = _native.IdIndex.build_files(
            paths,
            columns,
            path=path,
            format=format,
            memory_bytes=memory_bytes,
            threads=threads,
            progress=counts,
        )
    finally:
        is_done.set()
        if watcher is not None:
            watcher.join()
    _logger.info("Loaded checkpoint: %s ids, %s bytes", f"{len(index):,}", f"{index.nbytes:,}")
    return index


def _watch(counts: _native.BuildProgress, is_done: threading.Event) -> None:
    bar: Progress | None = None
    seen = (0, 0)
    while not is_done.wait(_POLL_S):
        files, done, rows = counts.counts
        if bar is None and files:
            bar = Progress(total=files, is_shown=True, noun="files")
        if bar is not None:
            for step in range(seen[0], done):
                bar.count(samples=rows - seen[1] if step == seen[0] else 0, size=0)
            seen = (done, rows)
    if bar is not None:
        bar.__exit__(None, None, None)


def cached(
    paths: list[str], columns: list[str], format: str | None, build: Callable[[str], _native.IdIndex]
) -> _native.IdIndex:
    """The index of these files as they are now: mapped if somebody built it, else built by one of those who ask."""
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True)
    name = _key(paths, columns, format)
    target = str(folder / f"{name}.ids")
    index = _opened(target)
    if index is not None:
        return index
    # The lock goes with the process that holds it, so a killed one leaves nothing that others would wait for.
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        index = _opened(target)
        if index is None:
            _forget(folder)
            index = build(target)
        return index


def _forget(folder: Path) -> None:
    """Removes indexes that nobody has asked for in two weeks. Who has one mapped keeps it."""
    for path in folder.glob("*.ids"):
        if time.time() - path.stat().st_mtime > _KEPT_S:
            path.unlink(missing_ok=True)
            path.with_suffix(".lock").unlink(missing_ok=True)


def _opened(target: str) -> _native.IdIndex | None:
    try:
        index = _native.IdIndex.open(target)
        # A cache lies about for long, and what it says decides which rows are done. This is a moment for a gigabyte.
        index.verify()
        os.utime(target)
        return index
    except NotFoundError:
        return None
    except FormatError as error:
        _logger.warning("%s; it is built again", error)
        return None


def _folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "shardmill" / "indexes"


def _key(paths: list[str], columns: list[str], format: str | None) -> str:
    """Changes with the columns, with each file's path, size and time of change, and with the layout of the index."""
    files = sorted(_native.versions_of(paths, format=format))
    content = json.dumps([_native.INDEX_VERSION, columns, format, files])
    return hashlib.sha256(content.encode()).hexdigest()[:32]
