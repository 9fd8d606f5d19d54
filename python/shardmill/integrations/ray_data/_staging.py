"""Files of a write that no reader sees until all tasks have succeeded.

``<out>/.shardmill-ray`` has the files of the tasks, each attempt in its own directory. When all
tasks have ended, the driver writes a manifest of the files that successful tasks returned. From
then on the write happens, whatever is killed: the driver moves the files to their final names, and
the next write does so first if the driver could not. All steps may be repeated. Before the manifest
exists, the next write removes everything.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardmill._native.write import publish_bytes
from shardmill.data._shard_index import (
    INDEX_NAME,
    basename_of,
    check_same_columns,
    index_path,
    known_shards,
    named_entry,
    read_index,
    write_index,
)
from shardmill.errors import OutputExistsError, StorageError
from shardmill.integrations.ray_data._journal import Journal, sync
from shardmill.write._output import Mode, OutputDirectory, output_of

_NAME = ".shardmill-ray"


@dataclass(frozen=True)
class Manifest:
    """A write that will happen.

    Attributes:
        run: directory of the staged files, below that of all writes; of a write with a checkpoint,
            that directory.
        files: staged path below ``run``, and final name, in row order.
        entries: what the index says of each file; none without an index.
        is_indented: how the index is formatted.
        replaced: names of the earlier files that the new ones replace.
        runs: the runs whose files they are, with a checkpoint.
    """

    run: str
    files: list[list[str]]
    entries: list[dict[str, Any]]
    is_indented: bool
    replaced: list[str]
    runs: list[str] = field(default_factory=list)


class Staging:
    """A context manager for one write to a local directory.

    Args:
        out: the directory.
        mode: what happens to files in it.
        prefix: prefix of the names of shards.
        has_index: whether shards have an index.
        journal: what tasks have finished in earlier runs.

    Raises:
        shardmill.OutputExistsError: If another write to the directory is running, or files exist
            and must not be replaced.
    """

    def __init__(
        self,
        out: str,
        *,
        mode: Mode,
        prefix: str,
        has_index: bool,
        journal: Journal | None = None,
    ) -> None:
        self.mode: Mode = mode
        self.journal = journal
        self._out, self._prefix, self._has_index = Path(out), prefix, has_index
        self._root = self._out / _NAME
        #: Where tasks write. Its name is unique, so tasks of an earlier run do not find it.
        self.run = self._root / uuid.uuid4().hex
        self._lock: int | None = None
        self.files: list[str] = []

    def __enter__(self) -> Staging:
        # Refuses a file.
        self._directory("append")
        made = not self._out.exists()
        self._lock = self._locked()
        try:
            if self._manifest.exists():
                with self._directory("append").locked():
                    self._complete()
            for path in self._root.iterdir():
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
            if self.journal is not None:
                self.journal.recover(self._out, self._root)
                if self.journal.is_published:
                    self.mode = "append"
            self.directory = self._directory(self.mode)
            self._earlier = [Path(path).name for path in self.directory.data_files()]
            if self.journal is None:
                self.run.mkdir()
            else:
                self.run = self.journal.begin()
        except BaseException:
            self._end(is_made=made)
            raise
        self._is_made = made
        return self

    def __exit__(self, *_exception: object) -> None:
        self._end(is_made=self._is_made)

    def publish(self, staged: Sequence[Path]) -> None:
        """Make the files visible, in this order.

        Raises:
            ValueError: If shards do not have the columns of the others.
            OSError: If a file cannot be moved; the next write tries again.
        """
        with self.directory.locked():
            first = self.directory.first_number()
            names = [
                re.sub(r"\d+", f"{first + number:05}", path.name, count=1)
                for number, path in enumerate(staged)
            ]
            entries = self._entries(staged, names) if self._has_index else []
            if self._has_index and self.mode == "append":
                known = known_shards(str(self._out), has_data=first > 0)
                check_same_columns([*known, *entries], "the new shards do not fit those in it")
            base = self.run if self.journal is None else self.journal.directory
            manifest = Manifest(
                run=self.run.name if self.journal is None else str(base),
                files=[
                    [str(path.relative_to(base)), name]
                    for path, name in zip(staged, names, strict=True)
                ],
                entries=entries,
                is_indented=any(entry["format"] == "parquet" for entry in entries),
                replaced=self._earlier if self.mode == "overwrite" else [],
                runs=[] if self.journal is None else self.journal.unpublished(),
            )
            for directory in (base, self._root, self._out):
                sync(directory)
            publish_bytes(str(self._manifest), json.dumps(vars(manifest)).encode(), True)
            self._complete()

    def _entries(self, staged: Sequence[Path], names: Sequence[str]) -> list[dict[str, Any]]:
        """Return the entries of the index with the final names."""
        indexes = {
            directory: {basename_of(entry): entry for entry in _entries_in(directory)}
            for directory in {path.parent for path in staged}
        }
        return [
            named_entry(indexes[path.parent][path.name], name)
            for path, name in zip(staged, names, strict=True)
        ]

    @property
    def _manifest(self) -> Path:
        return self._root / "manifest.json"

    def _complete(self) -> None:
        """Do what is left of a recorded write."""
        manifest = Manifest(**json.loads(self._manifest.read_bytes()))
        self._check_names(manifest)
        out, index = str(self._out), Path(index_path(str(self._out)))
        if INDEX_NAME in manifest.replaced:
            # It would be wrong while files are replaced.
            index.unlink(missing_ok=True)
        for staged, name in manifest.files:
            # What is not there was moved before.
            with suppress(FileNotFoundError):
                (self._root / manifest.run / staged).rename(self._out / name)
            if not (self._out / name).exists():
                raise StorageError(
                    f"the file {staged!r} of an interrupted write to {out!r} is missing\n"
                    f"hint: remove {str(self._root)!r}, and write those rows again"
                )
        written = {name for _, name in manifest.files} | {INDEX_NAME}
        for name in manifest.replaced:
            if name not in written:
                (self._out / name).unlink(missing_ok=True)
        sync(self._out)
        if manifest.entries:
            known = read_index(str(index))["shards"] if index.exists() else []
            kept = [entry for entry in known if basename_of(entry) not in _names(manifest.entries)]
            write_index(out, [*kept, *manifest.entries], is_indented=manifest.is_indented)
        self.files = [str(self._out / name) for _, name in manifest.files]
        if manifest.runs:
            # Afterwards their rows are visible, and not only done.
            with suppress(FileNotFoundError):
                self._manifest.rename(Path(manifest.run, f"published-{uuid.uuid4().hex}.json"))
                sync(Path(manifest.run))
        self._manifest.unlink(missing_ok=True)

    def _check_names(self, manifest: Manifest) -> None:
        """Check that no other writer has taken a name since the manifest was written."""
        for staged, name in manifest.files:
            is_pending = (self._root / manifest.run / staged).exists()
            if is_pending and name not in manifest.replaced and (self._out / name).exists():
                raise StorageError(
                    f"another writer has taken the name {name!r} in {str(self._out)!r}, "
                    "which an interrupted write was about to use\n"
                    "hint: move that file to another directory, and write again"
                )

    def _locked(self) -> int:
        """Return the descriptor of the lock, which ends with this process."""
        path = self._root / "lock"
        while True:
            self._root.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                os.close(descriptor)
                raise OutputExistsError(
                    f"another write to {str(self._out)!r} is running\nhint: wait until it has ended"
                ) from error
            except OSError:
                # The file system has no locks.
                return descriptor
            # The write that ended before this one may have removed the file in the meantime.
            if path.exists() and path.stat().st_ino == os.fstat(descriptor).st_ino:
                return descriptor
            os.close(descriptor)

    def _directory(self, mode: Mode) -> OutputDirectory:
        return output_of(str(self._out), is_file=False, mode=mode, prefix=self._prefix)

    def _end(self, *, is_made: bool) -> None:
        """Remove what was staged, unless the write is recorded and not yet complete."""
        if self._lock is None:
            return
        if not self._manifest.exists():
            shutil.rmtree(self._root, ignore_errors=True)
        os.close(self._lock)
        self._lock = None
        if is_made:
            with suppress(OSError):
                self._out.rmdir()


def _names(entries: Iterable[dict[str, Any]]) -> set[str]:
    return {basename_of(entry) for entry in entries}


def _entries_in(directory: Path) -> list[dict[str, Any]]:
    return read_index(index_path(str(directory)))["shards"]
