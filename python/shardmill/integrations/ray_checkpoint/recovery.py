"""What a crash left behind: uncommitted writes are undone, committed ones are kept.

Ray writes the ids of a task to ``{base}.pending.parquet``, then its rows to files that are named after the base, then renames the first to
``{base}.parquet``. The invariant: a file of rows is removed only if its own base is pending and not committed. Names are taken apart and
compared as a whole, never by how they begin: the base of task 1000000 begins with that of task 100000.
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
# What Ray's sinks put between the base and the extension: nothing, the number of a file, or those of a block and a row.
_NUMBERS = re.compile(r"(?:-\d+|_\d{6,}_\d{6,})$")


def committed_files(
    filesystem: FileSystem, folder: str, keep: Callable[[list[str]], Iterable[str]] | None = None
) -> list[FileInfo]:
    """The records of committed writes, in the order of their paths.

    Args:
        filesystem: of the checkpoint.
        folder: of the checkpoint; it may be missing.
        keep: chooses among the paths. With it, records are looked for in subfolders too.
    """
    records = {
        info.path: info
        for info in _files(filesystem, folder, recursive=keep is not None)
        if (name := posixpath.basename(info.path)).endswith(_RECORD)
        and not name.endswith(_PENDING)
        and not name.startswith((".", "_"))
    }
    chosen = records if keep is None else set(keep(sorted(records)))
    return [records[path] for path in sorted(chosen)]


def undo_uncommitted(
    filesystem: FileSystem, folder: str, data_filesystem: FileSystem, data_folder: str
) -> tuple[int, int]:
    """Removes the rows of writes that were not committed, then all pending files.

    Args:
        filesystem: of the checkpoint.
        folder: of the checkpoint.
        data_filesystem: of the output.
        data_folder: where the job writes its rows.

    Returns:
        How many pending files, and how many files of rows are gone.
    """
    records = {posixpath.basename(info.path): info.path for info in _files(filesystem, folder, recursive=False)}
    pending = {name.removesuffix(_PENDING): path for name, path in records.items() if name.endswith(_PENDING)}
    if not pending:
        return 0, 0
    uncommitted = {base for base in pending if base + _RECORD not in records}
    removed = 0
    for info in _files(data_filesystem, data_folder, recursive=True) if uncommitted else ():
        bases = _bases(posixpath.basename(info.path))
        is_committed = any(base + _RECORD in records for base in bases)
        if not is_committed and not uncommitted.isdisjoint(bases):
            _remove(data_filesystem, info.path)
            removed += 1
    # Only now: whoever is killed before this line finds them again.
    for path in pending.values():
        _remove(filesystem, path)
    logger.info("Undid %d uncommitted writes in %s: %d files removed", len(uncommitted), data_folder, removed)
    return len(pending), removed


def _bases(name: str) -> set[str]:
    """The bases that a file of this name can have. Ray, too, takes what follows the last dot for the extension."""
    stem = name.rpartition(".")[0] or name
    return {stem, _NUMBERS.sub("", stem)}


def _files(filesystem: FileSystem, folder: str, *, recursive: bool) -> list[FileInfo]:
    found = filesystem.get_file_info(FileSelector(folder, recursive=recursive, allow_not_found=True))
    return [info for info in found if info.type == FileType.File]


def _remove(filesystem: FileSystem, path: str) -> None:
    with suppress(FileNotFoundError):
        filesystem.delete_file(path)
