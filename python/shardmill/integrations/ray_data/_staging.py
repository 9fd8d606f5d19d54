"""Files of a write that no reader sees until all tasks have succeeded.

``<out>/.shardmill-ray`` has the files of the tasks, each attempt in its own directory. When all
tasks have ended, the driver writes a manifest of the files that successful tasks returned. From
then on the write happens, whatever is killed: the driver moves the files to their final names, and
the next write does so first if the driver could not. All steps may be repeated. Before the manifest
exists, the next write removes everything. The output is a directory or a path in a store. In a
store, a move is a copy followed by a removal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardmill._digests import digest
from shardmill._native import storage
from shardmill._native.write import file_hashes, publish_bytes
from shardmill.data._shard_index import (
    INDEX_NAME,
    add_to_index,
    basename_of,
    check_same_columns,
    index_path,
    known_shards,
    named_entry,
    read_index,
    write_index,
)
from shardmill.errors import NotFoundError, StorageError
from shardmill.integrations.ray_data._journal import Journal, sync
from shardmill.integrations.ray_data._place import joined, names_in, place_of
from shardmill.storage._paths import is_remote
from shardmill.write._output import Mode, OutputDirectory, output_of


@dataclass(frozen=True)
class Manifest:
    """A write that will happen.

    Attributes:
        run: directory of the staged files.
        files: staged path below ``run``, and final name, in row order.
        entries: what the index says of each file; none without an index.
        is_indented: how the index is formatted.
        replaced: names of the earlier files that the new ones replace.
        runs: with a checkpoint, the runs that wrote the files. ``run`` is then the checkpoint.
    """

    run: str
    files: list[list[str]]
    entries: list[dict[str, Any]]
    is_indented: bool
    replaced: list[str]
    runs: list[str] = field(default_factory=list)


class Staging:
    """A context manager for one write to a directory or a path in a store.

    Args:
        out: the output.
        mode: what happens to files in it.
        prefix: prefix of the names of shards.
        has_index: whether shards have an index.
        journal: the tasks that earlier runs have finished.

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
        self._out, self._prefix, self._has_index = out, prefix, has_index
        self._place = place_of(out)
        self._is_remote = is_remote(out)
        #: The names of the files that have become visible.
        self.files: list[str] = []

    def __enter__(self) -> Staging:
        # Refuses a file, and a store that is read only.
        self._directory("append")
        try:
            while (manifest := self._place.take()) is not None:
                with self._directory("append").locked():
                    self._complete(manifest)
            self.files = []
            self._place.clean()
            if self.journal is not None:
                self.journal.recover(self._out, self._place.root)
                if self.journal.is_published:
                    self.mode = "append"
            self.directory = self._directory(self.mode)
            self._earlier = [Path(path).name for path in self.directory.data_files()]
            #: What tasks check before they write, and where they write.
            if self.journal is None:
                self.landmark, self.run = self._place.begin(), self._place.run
            else:
                self.landmark, self.run = self.journal.begin(), str(self.journal.run)
        except BaseException:
            self._place.end()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        self._place.end()

    def publish(self, staged: Sequence[str]) -> None:
        """Make the files visible, in this order.

        Raises:
            ValueError: If shards do not have the columns of the others.
            OSError: If a file cannot be moved; the next write tries again.
        """
        with self.directory.locked():
            first = self.directory.first_number()
            names = [
                re.sub(r"\d+", f"{first + number:05}", Path(path).name, count=1)
                for number, path in enumerate(staged)
            ]
            entries = self._entries(staged, names) if self._has_index else []
            if self._has_index and self.mode == "append":
                known = known_shards(self._out, has_data=first > 0)
                check_same_columns([*known, *entries], "the new shards do not fit those in it")
            base = self._place.run if self.journal is None else str(self.journal.directory)
            manifest = Manifest(
                run=base,
                files=[
                    [path.removeprefix(base).lstrip("/"), name]
                    for path, name in zip(staged, names, strict=True)
                ],
                entries=entries,
                is_indented=any(entry["format"] == "parquet" for entry in entries),
                replaced=self._earlier if self.mode == "overwrite" else [],
                runs=[] if self.journal is None else self.journal.unpublished(),
            )
            for directory in (base, self._place.root, self._out):
                if not is_remote(directory):
                    sync(Path(directory))
            content = json.dumps(vars(manifest)).encode()
            self._place.record(content)
            self._complete(content)

    def _entries(self, staged: Sequence[str], names: Sequence[str]) -> list[dict[str, Any]]:
        """Return the entries of the index with the final names."""
        indexes = {
            directory: {basename_of(entry): entry for entry in _entries_in(directory)}
            for directory in {path.rpartition("/")[0] for path in staged}
        }
        return [
            named_entry(indexes[path.rpartition("/")[0]][Path(path).name], name)
            for path, name in zip(staged, names, strict=True)
        ]

    def _complete(self, content: bytes) -> None:
        """Do what is left of a recorded write."""
        manifest = Manifest(**json.loads(content))
        self._check_names(manifest)
        index = index_path(self._out)
        if INDEX_NAME in manifest.replaced:
            # It would be wrong while files are replaced.
            storage.remove(index)
        for staged, name in manifest.files:
            # What is not there was moved before.
            with suppress(NotFoundError):
                storage.move_file(joined(manifest.run, staged), joined(self._out, name))
        self.files = [name for _, name in manifest.files]
        if not self._place.holds(content):
            # Files and an index that exist by now belong to later writes.
            return
        visible = names_in(self._out)
        for staged, name in manifest.files:
            if name not in visible:
                raise StorageError(
                    f"the file {staged!r} of an interrupted write to {self._out!r} is missing\n"
                    f"hint: remove {self._place.root!r}, and write those rows again"
                )
        written = {*self.files, INDEX_NAME}
        for name in manifest.replaced:
            if name not in written:
                storage.remove(joined(self._out, name))
        if not self._is_remote:
            sync(Path(self._out))
        self._write_index(manifest)
        if manifest.runs:
            # Afterwards their rows are visible, and not only done.
            published = f"published-{digest(manifest.files)}.json"
            publish_bytes(joined(manifest.run, published), content, True)
        self._place.complete()

    def _write_index(self, manifest: Manifest) -> None:
        if not manifest.entries:
            return
        new = {basename_of(entry) for entry in manifest.entries}
        if self._is_remote:
            is_indented = manifest.is_indented
            add_to_index(self._out, manifest.entries, is_indented=is_indented, may_list=new)
            return
        index = index_path(self._out)
        known = read_index(index)["shards"] if storage.size(index) is not None else []
        kept = [entry for entry in known if basename_of(entry) not in new]
        write_index(self._out, [*kept, *manifest.entries], is_indented=manifest.is_indented)

    def _check_names(self, manifest: Manifest) -> None:
        """Check that no other writer has taken a name since the manifest was written."""
        visible = names_in(self._out)
        for staged, name in manifest.files:
            if name not in visible or name in manifest.replaced:
                continue
            source, target = joined(manifest.run, staged), joined(self._out, name)
            size = storage.size(source)
            # A store copies a file before it removes it, so both may be there.
            if size is not None and not (
                self._is_remote
                and size == storage.size(target)
                and file_hashes(source, ["xxh64"]) == file_hashes(target, ["xxh64"])
            ):
                raise StorageError(
                    f"another writer has taken the name {name!r} in {self._out!r}, "
                    "which an interrupted write was about to use\n"
                    "hint: move that file to another directory, and write again"
                )

    def _directory(self, mode: Mode) -> OutputDirectory:
        return output_of(self._out, is_file=False, mode=mode, prefix=self._prefix)


def _entries_in(directory: str) -> Iterable[dict[str, Any]]:
    return read_index(index_path(directory))["shards"]
