"""Puts the input files of an entry into the page cache, or out of it, so that both systems start alike."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

_CHUNK_BYTES = 16 << 20


def prepare_caches(state: str, datasets: Iterable[Path]) -> None:
    """Brings the files below the given folders into the wanted state.

    Args:
        state: ``warm`` reads every file once; ``cold`` asks the kernel to forget them, which needs no
            rights; ``unchanged`` leaves them.
        datasets: Folders or files.
    """
    # What an earlier entry wrote would otherwise go to disk in this one's time.
    os.sync()
    for path in _files(datasets):
        if state == "warm":
            with path.open("rb", buffering=0) as file:
                while file.read(_CHUNK_BYTES):
                    pass
        elif state == "cold":
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _files(datasets: Iterable[Path]) -> Iterator[Path]:
    for dataset in dict.fromkeys(datasets):
        yield from [dataset] if dataset.is_file() else sorted(path for path in dataset.rglob("*") if path.is_file())
