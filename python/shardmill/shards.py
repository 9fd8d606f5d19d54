"""What lies where a writer will write, and who may write there now."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from shardmill._native import storage
from shardmill.errors import OutputExistsError, StorageError

Mode = Literal["error", "overwrite", "append"]

INDEX_NAME = "index.json"

_READ_ONLY = ("hf", "http", "https")

#: What :class:`shardmill.Dataset` would read from the folder beside the shards of a writer, and what describes it.
_DATA_FILE = re.compile(
    r"\.(parquet|pq|orc|csv|json|(jsonl|ndjson|tar)(\.\w+)?|tgz|mds(\.\w+)?|(array_record|arrayrecord|arecord)(-\d+-of-\d+)?)$",
    re.IGNORECASE,
)


class OutputFolder:
    """The place of one writer, from when it is opened until its files have their names.

    Args:
        out: the file or folder.
        is_file: which of them it is.
        mode: what becomes of what is there.
        prefix: what the names of shards begin with.

    Raises:
        FileExistsError: when there is something, and it is to stay.
    """

    def __init__(self, out: str, *, is_file: bool, mode: Mode, prefix: str) -> None:
        self._out, self._is_file, self._mode = out, is_file, mode
        self._shard = re.compile(re.escape(prefix) + r"(\d+)\.[\w.]+")
        path = Path(out)
        exists = path.exists() or path.is_symlink()
        if is_file:
            if path.is_dir():
                raise OutputExistsError(f"{out!r} is a folder, and its name is that of one file")
            if mode == "error" and exists:
                raise OutputExistsError(f'{out!r} exists already\nhint: mode="overwrite" replaces it')
        elif exists and not path.is_dir():
            raise OutputExistsError(f"{out!r} is a file, and shards are written to a folder")
        #: Folders that the first file of the writer makes, the innermost first.
        self._made = _missing(path.parent if is_file else path)
        self._seen = self.data_files()
        if mode == "error" and self._seen:
            self._refuse("already")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Holds other writers of the folder back while names are given.

        File systems without locks let them through; no file of another is replaced there either, but names may be refused late.
        """
        folder = Path(self._out).parent if self._is_file else self._out
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            yield
            return
        try:
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """Around the steps that give names."""
        yield

    def first_number(self) -> int:
        """That of the first shard, under the lock.

        Raises:
            FileExistsError: when another writer has been here meanwhile, and both cannot have their way.
        """
        if self._is_file:
            return 0
        now = self.data_files()
        if self._mode == "append":
            numbers = [int(match[1]) + 1 for path in now if (match := self._shard.fullmatch(Path(path).name))]
            return max(numbers, default=0)
        if now != self._seen:
            self._refuse("since another writer wrote them meanwhile")
        return 0

    def remove_replaced(self, written: list[str]) -> None:
        """Removes what the new files stand for."""
        if self._mode == "overwrite":
            kept = {os.path.realpath(path) for path in written}
            for path in self._seen:
                if os.path.realpath(path) not in kept:
                    storage.remove(path)

    def remove_if_made(self) -> None:
        """Removes the folders that were made for files which then got no names, as far as nobody has put something there."""
        for folder in self._made:
            try:
                folder.rmdir()
            except OSError:
                return

    def data_files(self) -> dict[str, tuple[int, int]]:
        """Data files of the folder, and what tells one from another of the same name."""
        if self._is_file or not Path(self._out).is_dir():
            return {}
        entries = sorted(
            (entry for entry in os.scandir(self._out) if _is_data(entry.name)), key=lambda entry: entry.name
        )
        return {entry.path: (entry.inode(), entry.stat(follow_symlinks=False).st_mtime_ns) for entry in entries}

    def _refuse(self, when: str) -> None:
        found = self.data_files() or self._seen
        first = Path(min(found, default="")).name
        raise OutputExistsError(
            f"the folder {self._out!r} has {len(found):,} data files {when}, such as {first!r}\n"
            'hint: mode="overwrite" replaces them, mode="append" adds shards'
        )


class OutputBucket(OutputFolder):
    """As :class:`OutputFolder`, below a path of an object store, where writers hold nobody back: of two, the store refuses one.

    Raises:
        FileExistsError: when there is something, and it is to stay.
    """

    def __init__(self, out: str, *, is_file: bool, mode: Mode, prefix: str) -> None:
        self._out, self._is_file, self._mode = out.rstrip("/"), is_file, mode
        self._shard = re.compile(re.escape(prefix) + r"(\d+)\.[\w.]+")
        self._made = []
        if is_file and mode == "error" and storage.size(out) is not None:
            raise OutputExistsError(f'{out!r} exists already\nhint: mode="overwrite" replaces it')
        self._seen = self.data_files()
        if mode == "error" and self._seen:
            self._refuse("already")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Stores know no locks; names and indexes are given on conditions."""
        yield

    def remove_replaced(self, written: list[str]) -> None:
        """Removes what the new objects stand for."""
        if self._mode == "overwrite":
            for path in self._seen.keys() - set(written):
                storage.remove(path)

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """Says what to do when another writer was faster."""
        try:
            yield
        except FileExistsError as error:
            if self._mode != "append":
                raise
            what = str(error).partition("\n")[0]
            raise OutputExistsError(
                f"{what}: another writer added shards meanwhile, and nothing of this one is left\n"
                "hint: write it again; or give each writer a path of its own and call sm.merge"
            ) from error

    def data_files(self) -> dict[str, tuple[int, int]]:
        """Data files directly below the path."""
        if self._is_file:
            return {}
        return {f"{self._out}/{name}": (0, 0) for name in storage.names(self._out) if _is_data(name)}


def output_of(out: str, *, is_file: bool, mode: Mode, prefix: str) -> OutputFolder:
    """The place of a writer, local or not.

    Raises:
        OSError: for a store that nobody writes to.
    """
    scheme = out.partition("://")[0].lower()
    if scheme in _READ_ONLY and storage.is_remote(out):
        raise StorageError(
            f"nothing can be written to {out!r}: {scheme} is read only here\nhint: write to a local folder or a bucket"
        )
    kind = OutputBucket if storage.is_remote(out) else OutputFolder
    return kind(out, is_file=is_file, mode=mode, prefix=prefix)


def _missing(folder: Path) -> list[Path]:
    """The folder and those above it that are not there yet."""
    missing: list[Path] = []
    while not folder.exists() and folder != folder.parent:
        missing.append(folder)
        folder = folder.parent
    return missing


def _is_data(name: str) -> bool:
    return not name.startswith((".", "_")) and _DATA_FILE.search(name) is not None
