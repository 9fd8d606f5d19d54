"""Recovery after a crash: uncommitted writes are undone, committed ones are kept.

Ray writes the ids of a task to ``{base}.pending.parquet``, then its rows to files that are named
after the base, then renames the first to ``{base}.parquet``. Invariant: a file of rows is removed
only if its own base is pending and not committed. Names are parsed and compared as a whole, never
by prefix: the base of task 1000000 starts with that of task 100000.
"""

from __future__ import annotations

import logging
import posixpath
import re
from collections.abc import Callable, Iterable
from contextlib import suppress

from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType

logger = logging.getLogger(__name__)

_RECORD = ".parquet"
_PENDING = ".pending.parquet"
# What Ray's sinks put between the base and the extension: nothing, a file index, or a block index
# and a row index.
_NUMBERS = re.compile(r"(?:-\d+|_\d{6,}_\d{6,})$")


def committed_files(
    filesystem: FileSystem, directory: str, keep: Callable[[list[str]], Iterable[str]] | None = None
) -> list[FileInfo]:
    """Return the records of committed writes in a checkpoint, in path order.

    With the path filter ``keep``, subdirectories are searched too.
    """
    records = {
        info.path: info
        for info in _files(filesystem, directory, recursive=keep is not None)
        if (name := posixpath.basename(info.path)).endswith(_RECORD)
        and not name.endswith(_PENDING)
        and not name.startswith((".", "_"))
    }
    chosen = records if keep is None else set(keep(sorted(records)))
    return [records[path] for path in sorted(chosen)]


def undo_uncommitted(
    filesystem: FileSystem, directory: str, data_filesystem: FileSystem, data_directory: str
) -> tuple[int, int]:
    """Remove the rows of uncommitted writes, then all pending files of the checkpoint.

    Returns:
        The number of pending files and the number of row files that were removed.
    """
    records = {
        posixpath.basename(info.path): info.path
        for info in _files(filesystem, directory, recursive=False)
    }
    pending = {
        name.removesuffix(_PENDING): path
        for name, path in records.items()
        if name.endswith(_PENDING)
    }
    if not pending:
        return 0, 0
    uncommitted = {base for base in pending if base + _RECORD not in records}
    removed = 0
    for info in _files(data_filesystem, data_directory, recursive=True) if uncommitted else ():
        bases = _bases(posixpath.basename(info.path))
        is_committed = any(base + _RECORD in records for base in bases)
        if not is_committed and not uncommitted.isdisjoint(bases):
            _remove(data_filesystem, info.path)
            removed += 1
    # Last: if the process is killed before this line, the next run finds them again.
    for path in pending.values():
        _remove(filesystem, path)
    logger.info(
        "Undid %d uncommitted writes in %s: %d files removed",
        len(uncommitted),
        data_directory,
        removed,
    )
    return len(pending), removed


def _bases(name: str) -> set[str]:
    """Return the bases that a file with this name can have.

    Like Ray, take what follows the last dot as the extension.
    """
    stem = name.rpartition(".")[0] or name
    return {stem, _NUMBERS.sub("", stem)}


def _files(filesystem: FileSystem, directory: str, *, recursive: bool) -> list[FileInfo]:
    found = filesystem.get_file_info(
        FileSelector(directory, recursive=recursive, allow_not_found=True)
    )
    return [info for info in found if info.type == FileType.File]


def _remove(filesystem: FileSystem, path: str) -> None:
    with suppress(FileNotFoundError):
        filesystem.delete_file(path)
