"""The output location of a writer: existing files, and locking against other writers."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from shardmill._native import storage
from shardmill._terminal import counted
from shardmill.data._token_files import PROVENANCE
from shardmill.errors import OptionError, OutputExistsError, StorageError

Mode = Literal["error", "overwrite", "append"]

_READ_ONLY = ("hf", "http", "https")

#: Shards and tables, and the index. Other JSON files, such as ``config.json`` or
#: ``tokenizer.json``, describe the data.
_DATA_FILE = re.compile(
    r"^index\.json$"
    r"|^part-\d+\.bin$"
    r"|\.(parquet|pq|orc|csv|(jsonl|ndjson|tar)(\.\w+)?|tgz|mds(\.\w+)?"
    r"|(array_record|arrayrecord|arecord)(-\d+-of-\d+)?)$",
    re.IGNORECASE,
)


class OutputDirectory:
    """The output location of one writer, from opening until its files have been renamed.

    Args:
        out: the file or directory.
        is_file: whether ``out`` is a file.
        mode: what happens to existing files.
        prefix: prefix of the shard names.
        names: pattern of the names of data files; by default, that of all formats.

    Raises:
        FileExistsError: If files exist and must not be replaced.
    """

    def __init__(
        self,
        out: str,
        *,
        is_file: bool,
        mode: Mode,
        prefix: str,
        names: re.Pattern[str] | None = None,
    ) -> None:
        self._out, self._is_file, self._mode, self._names = out, is_file, mode, names
        self._shard = re.compile(re.escape(prefix) + r"(\d+)\.[\w.]+")
        path = Path(out)
        exists = path.exists() or path.is_symlink()
        if is_file:
            if path.is_dir():
                raise OutputExistsError(f"{out!r} is a directory, but its name is that of a file")
            if mode == "error" and exists:
                raise OutputExistsError(
                    f'{out!r} already exists\nhint: mode="overwrite" replaces it'
                )
        elif exists and not path.is_dir():
            raise OutputExistsError(f"{out!r} is a file, but shards are written to a directory")
        #: Directories that the first file of the writer creates, the innermost first.
        self._made = _missing(path.parent if is_file else path)
        self._seen = self.data_files()
        if mode == "error" and self._seen:
            self._refuse("already")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the directory against other writers while files are renamed.

        File systems without locks do not block other writers. No file of another writer is replaced
        there either, but a conflict may be found late.
        """
        directory = Path(self._out).parent if self._is_file else self._out
        descriptor: int | None = None
        with suppress(OSError):
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if descriptor is not None:
                with suppress(OSError):
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            if descriptor is not None:
                # Closing is not enough: a child forked in the meantime holds the descriptor too.
                with suppress(OSError):
                    fcntl.flock(descriptor, fcntl.LOCK_UN)
                os.close(descriptor)

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """Wrap the steps that rename files."""
        yield

    def first_number(self) -> int:
        """Return the number of the first shard, under the lock.

        Raises:
            FileExistsError: If another writer has written conflicting files in the meantime.
        """
        if self._is_file:
            return 0
        now = self.data_files()
        if self._mode == "append":
            numbers = [
                int(match[1]) + 1
                for path in now
                if (match := self._shard.fullmatch(Path(path).name))
            ]
            return max(numbers, default=0)
        if now != self._seen:
            self._refuse("since another writer wrote them in the meantime")
        return 0

    @property
    def replaces(self) -> bool:
        """Whether new files may replace existing ones."""
        return self._mode == "overwrite"

    def remove(self, files: list[str]) -> None:
        """Remove published files, as far as possible."""
        for path in files:
            with suppress(OSError):
                storage.remove(path)

    def remove_replaced(self, written: list[str]) -> None:
        """Remove the files that the new files replace."""
        if self._mode == "overwrite":
            kept = {os.path.realpath(path) for path in written}
            for path in self._seen:
                if os.path.realpath(path) not in kept:
                    storage.remove(path)

    def remove_if_made(self) -> None:
        """Remove directories that were created for files which then were not published.

        Those that are no longer empty stay.
        """
        for directory in self._made:
            try:
                directory.rmdir()
            except OSError:
                return

    def data_files(self) -> dict[str, tuple[int, int | str]]:
        """Return the data files of the directory, each with what identifies its version."""
        if self._is_file or not Path(self._out).is_dir():
            return {}
        entries = sorted(
            (
                entry
                for entry in os.scandir(self._out)
                if self._is_data(entry.name) and not entry.is_dir()
            ),
            key=lambda entry: entry.name,
        )
        return {
            entry.path: (entry.inode(), entry.stat(follow_symlinks=False).st_mtime_ns)
            for entry in entries
        }

    def _refuse(self, when: str) -> None:
        found = self.data_files() or self._seen
        first = Path(min(found, default="")).name
        raise OutputExistsError(
            f"the directory {self._out!r} has {counted(len(found), 'data file')} {when}, "
            f"such as {first!r}\n"
            'hint: mode="overwrite" replaces them'
            + ("" if self._names else ', mode="append" adds shards')
        )

    def _is_data(self, name: str) -> bool:
        if self._names is not None:
            return self._names.fullmatch(name) is not None
        is_side_car = name.startswith((".", "_")) or name.endswith(PROVENANCE)
        return not is_side_car and _DATA_FILE.search(name) is not None


class OutputBucket(OutputDirectory):
    """See ``OutputDirectory``, for a path in an object store.

    A store has no locks: of two writers, it rejects one.

    Raises:
        FileExistsError: If objects exist and must not be replaced.
    """

    def __init__(
        self,
        out: str,
        *,
        is_file: bool,
        mode: Mode,
        prefix: str,
        names: re.Pattern[str] | None = None,
    ) -> None:
        self._out, self._is_file, self._mode = out.rstrip("/"), is_file, mode
        self._names = names
        self._shard = re.compile(re.escape(prefix) + r"(\d+)\.[\w.]+")
        self._made = []
        if is_file and mode == "error" and storage.size(out) is not None:
            raise OutputExistsError(f'{out!r} already exists\nhint: mode="overwrite" replaces it')
        self._seen = self.data_files()
        if mode == "error" and self._seen:
            self._refuse("already")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Stores have no locks; names and indexes are written with conditional puts."""
        yield

    def remove_replaced(self, written: list[str]) -> None:
        """Remove the objects that the new ones replace."""
        if self._mode == "overwrite":
            for path in self._seen.keys() - set(written):
                storage.remove(path)

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """Add a hint to the error if another writer was faster."""
        try:
            yield
        except FileExistsError as error:
            if self._mode != "append":
                raise
            what = str(error).partition("\n")[0]
            raise OutputExistsError(
                f"{what}: another writer added shards in the meantime, "
                "and nothing of this writer was kept\n"
                "hint: write again, or use a separate path for each writer and call sm.merge"
            ) from error

    def data_files(self) -> dict[str, tuple[int, int | str]]:
        """Return the data files directly below the path, each with what identifies its version."""
        if self._is_file:
            return {}
        return {
            f"{self._out}/{name}": (size, mark)
            for name, size, mark in storage.versions(self._out)
            if self._is_data(name)
        }


@contextmanager
def exists_hint(hint: str) -> Iterator[None]:
    """Replace the hint of the error for an output that exists."""
    try:
        yield
    except OutputExistsError as error:
        problem = str(error).partition("\n")[0]
        raise OutputExistsError(f"{problem}\nhint: {hint}") from error


def check_target(
    out: str, *, is_file: bool, mode: Mode, shard_bytes: object, index: object
) -> None:
    """Check the mode, and that options of a directory are not given for a file.

    Raises:
        ValueError: If they are.
    """
    if mode not in ("error", "overwrite", "append"):
        raise OptionError(f"mode must be 'error', 'overwrite' or 'append', not {mode!r}")
    for option, is_given in (
        ("mode='append'", mode == "append"),
        ("shard_bytes", shard_bytes is not None),
        ("index", index is not None),
    ):
        if is_file and is_given:
            raise OptionError(
                f"{option} requires a directory, but {out!r} is a file\nhint: pass a directory"
            )


def output_of(
    out: str, *, is_file: bool, mode: Mode, prefix: str, names: re.Pattern[str] | None = None
) -> OutputDirectory:
    """Return the output location of a writer, local or remote.

    Raises:
        OSError: If the store is not writable.
    """
    scheme = out.partition("://")[0].lower()
    if scheme in _READ_ONLY and storage.is_remote(out):
        raise StorageError(
            f"cannot write to {out!r}: {scheme} is read only\n"
            "hint: write to a local directory or a bucket"
        )
    kind = OutputBucket if storage.is_remote(out) else OutputDirectory
    return kind(out, is_file=is_file, mode=mode, prefix=prefix, names=names)


def _missing(directory: Path) -> list[Path]:
    """Return the directory and its parents that do not exist yet."""
    missing: list[Path] = []
    while not directory.exists() and directory != directory.parent:
        missing.append(directory)
        directory = directory.parent
    return missing
