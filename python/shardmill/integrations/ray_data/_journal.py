"""Finished tasks of a write, which outlive their run, each with the ids of its rows.

A checkpoint is a directory::

    input.json, output.json      which job this is
    run-<id>/<task>-<id>/        shards of an attempt of a task
    run-<id>/done/<task>/        shards of a finished task, with `ids.parquet` and `record.json`
    closed-<id>/done/<task>/     those of a run that has ended
    published-<id>.json          manifest of visible files; it names their runs

A task commits by one rename of the directory of its attempt, so its shards and the ids of their
rows exist together. The rename fails if another attempt of the task has committed, or if a later
run has closed this one, which is a rename too. Invariant: no id is in two records.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem

from shardmill._digests import digest
from shardmill._native.write import publish_bytes
from shardmill.errors import (
    CheckpointDamagedError,
    CheckpointMismatchError,
    FormatError,
    IdTypeError,
    OptionError,
    StorageError,
)
from shardmill.integrations._landmark import Landmark
from shardmill.integrations.ray_checkpoint._index_file import (
    IndexSpec,
    done_in,
    opened,
    rows_left,
)
from shardmill.integrations.ray_data._place import joined, names_in
from shardmill.resume import IdIndex
from shardmill.storage._paths import PathLike, absolute, is_remote

#: Key in the context of a data set that was read with a checkpoint: its directory and its ids.
READ_WITH = "shardmill.read_checkpoint"
_IDS, _RECORD, _DONE, _OUTPUT = "ids.parquet", "record.json", "done", "output.json"
_INDEX_MEMORY_BYTES = 1 << 30


@dataclass(frozen=True)
class WrittenShards:
    """What a write task returns.

    Attributes:
        task: index of the task.
        files: its files, in row order.
        schema: the columns of its rows; ``None`` without rows, or if options give the types.
    """

    task: int
    files: list[str]
    schema: pa.Schema | None


@dataclass(frozen=True)
class DoneIds:
    """Ids of the rows that runs have finished; sent to the workers.

    Attributes:
        directory: the checkpoint.
        column: the column of ids.
        runs: names of the closed runs.
        version: changes with the files of ids.
    """

    directory: str
    column: str
    runs: tuple[str, ...]
    version: str

    @classmethod
    def of(cls, directory: str, column: str) -> DoneIds:
        """The ids of all closed runs."""
        runs = tuple(sorted(path.name for path in Path(directory).glob("closed-*")))
        return cls(directory, column, runs, digest(_files(directory, runs)))

    def index(self) -> IdIndex | None:
        """Return their index on this node, if there are any."""
        return _index(self)

    def contain(self, ids: pa.Array | pa.ChunkedArray) -> pa.BooleanArray:
        """Return which of the ids are done."""
        index = self.index()
        if index is None:
            return pa.repeat(pa.scalar(False), len(ids))
        return done_in(index, ids)

    def left(self, table: pa.Table, ids: pa.Array | pa.ChunkedArray) -> pa.Table:
        """Return the rows that are not done."""
        return rows_left(table, self.contain(ids))


def _files(directory: str, runs: Iterable[str]) -> list[str]:
    done = [Path(directory, run, _DONE) for run in runs]
    return sorted(str(path) for one in done for path in one.glob(f"*/{_IDS}"))


@lru_cache(maxsize=4)
def _index(done: DoneIds) -> IdIndex | None:
    files = _files(done.directory, done.runs)
    if not files:
        return None
    system = LocalFileSystem()
    spec = IndexSpec.of(
        done.directory, done.column, system.get_file_info(files), _INDEX_MEMORY_BYTES
    )
    return opened(spec, system)


@dataclass(frozen=True)
class TaskLog:
    """What a task needs to commit; sent to the workers.

    Attributes:
        run: directory of the run.
        done: the ids of earlier runs.
    """

    run: str
    done: DoneIds

    def new_rows(self, table: pa.Table) -> tuple[pa.Table, pa.ChunkedArray]:
        """Return the rows that no earlier run has finished, and their ids.

        Raises:
            shardmill.IdTypeError: If the ids are not those that ``read`` made.
        """
        ids = table[self.done.column]
        if not pa.types.is_int64(ids.type) or ids.null_count:
            nulls = f" with {ids.null_count} nulls" if ids.null_count else ""
            raise IdTypeError(
                f"the ids in column {self.done.column!r} are {ids.type}{nulls}, "
                "but read made int64 without nulls\n"
                "hint: let every operator return the column of ids as it was"
            )
        table = self.done.left(table, ids)
        return table, table[self.done.column]

    def commit(self, attempt: Path, shards: WrittenShards, ids: list[pa.ChunkedArray]) -> None:
        """Make the shards of an attempt those of the task.

        Raises:
            shardmill.FormatError: If two rows have the same id, or another attempt of the task
                has committed other rows.
            shardmill.StorageError: If a later run has started.
        """
        column = pa.chunked_array([chunk for one in ids for chunk in one.chunks], pa.int64())
        found = np.sort(column.to_numpy())
        repeated = found[1:][found[1:] == found[:-1]]
        if len(repeated):
            raise FormatError(_twice(self.done.column, f"id {repeated[0]}"))
        pq.write_table(pa.table({self.done.column: column}), attempt / _IDS)
        record = {
            "files": [[Path(file).name, Path(file).stat().st_size] for file in shards.files],
            "schema": None
            if shards.schema is None
            else shards.schema.serialize().to_pybytes().hex(),
            "first": int(found[0]),
        }
        (attempt / _RECORD).write_text(json.dumps(record))
        for path in (attempt / _IDS, attempt / _RECORD, attempt):
            sync(path)
        target = Path(self.run, _DONE, f"{shards.task:06}")
        try:
            attempt.rename(target)
        except OSError as error:
            if not target.is_dir():
                raise StorageError(
                    f"task {shards.task} could not commit to {self.run!r}: {error.strerror}\n"
                    "hint: a later run may have started; if not, run the job again"
                ) from error
            other = np.sort(pq.read_table(target / _IDS)[self.done.column].to_numpy())
            if not np.array_equal(other, found):
                raise FormatError(
                    f"task {shards.task} has other rows than when it ran first\n"
                    "hint: run the job again; operators that choose rows at random need a seed"
                ) from error
            shutil.rmtree(attempt, ignore_errors=True)
            return
        sync(target.parent)


def _twice(column: str, what: str) -> str:
    return (
        f"{what} in column {column!r} is that of two rows, so a checkpoint cannot tell them apart\n"
        "hint: one row of the input can become one row or none; make more rows of it "
        "after the write, as from flat_map, or write without a checkpoint"
    )


@dataclass(frozen=True)
class _Finished:
    """A committed task whose files are not visible yet."""

    directory: Path
    files: list[tuple[str, int]]
    schema: pa.Schema | None
    first: int

    @classmethod
    def of(cls, directory: Path) -> _Finished:
        record = json.loads((directory / _RECORD).read_bytes())
        kind = record["schema"]
        schema = None if kind is None else pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(kind)))
        return cls(directory, record["files"], schema, record["first"])

    def check(self) -> None:
        for name, size in self.files:
            path = self.directory / name
            if not path.exists() or path.stat().st_size != size:
                raise CheckpointDamagedError(
                    f"{str(path)!r}, which a finished task wrote, is missing or changed\n"
                    f"hint: remove {str(self.directory)!r}; the next run writes its rows again"
                )


class Journal:
    """The checkpoint of a write, on the driver.

    Args:
        directory: the checkpoint.
        ids: the column of ids.
        output: the output, and the options of the write.
    """

    def __init__(self, directory: str, ids: str, output: Mapping[str, Any]) -> None:
        self.ids, self.directory, self._output = ids, Path(directory), output
        self._run = f"-{uuid.uuid4().hex}"
        self._published: set[str] = set()

    @property
    def run(self) -> Path:
        """Directory of this run."""
        return self.directory / f"run{self._run}"

    @property
    def is_published(self) -> bool:
        """Whether rows of earlier runs are visible."""
        return bool(self._published)

    def task_log(self) -> TaskLog:
        """Return what tasks need."""
        return TaskLog(str(self.run), DoneIds.of(str(self.directory), self.ids))

    def recover(self, out: str, root: str) -> None:
        """Check that the job is the same, and close the runs that did not end.

        Args:
            out: the output, which belongs to this run.
            root: where the manifest of the output is.

        Raises:
            shardmill.CheckpointMismatchError: If the checkpoint belongs to another write.
            shardmill.CheckpointDamagedError: If files of finished tasks are missing.
            shardmill.OptionError: If files cannot be moved to the output.
        """
        if not is_remote(out):
            self._check_moves(out, Path(root))
        if (self.directory / _OUTPUT).exists():
            self.record()
        visible = names_in(out)
        for manifest in self.directory.glob("published-*.json"):
            found = json.loads(manifest.read_bytes())
            self._published.update(found["runs"])
            if lost := [name for _, name in found["files"] if name not in visible]:
                raise CheckpointDamagedError(
                    f"{joined(out, lost[0])!r} is missing, but the checkpoint "
                    f"{str(self.directory)!r} has its rows as done\n"
                    "hint: remove the checkpoint and the output to process all rows again"
                )
        for path in self.directory.glob("run-*"):
            self._close(path)
        for path in self.directory.glob("closed-*"):
            self._clean(path)
        sync(self.directory)
        for one in self._finished():
            one.check()

    def _check_moves(self, out: str, root: Path) -> None:
        probe = self.directory / f".probe{self._run}"
        probe.touch()
        try:
            probe.rename(root / probe.name)
        except OSError as error:
            probe.unlink()
            raise OptionError(
                f"files of the checkpoint {str(self.directory)!r} cannot be moved to "
                f"{out!r}: {error.strerror}\n"
                "hint: put the checkpoint on the file system of the output"
            ) from error
        (root / probe.name).unlink()

    def record(self) -> None:
        """Record which write this is, or compare it with the recorded one."""
        _agree(self.directory, _OUTPUT, self._output)

    def begin(self) -> Landmark:
        """Create the directory of this run, and return what tasks check before they write."""
        (self.run / _DONE).mkdir(parents=True)
        sync(self.run)
        sync(self.directory)
        return Landmark(str(self.run), "checkpoint")

    def close(self) -> list[WrittenShards]:
        """End this run, and return the shards of all runs that are not visible, in row order.

        Raises:
            shardmill.FormatError: If two tasks have rows with the same id.
            shardmill.StorageError: If another run has closed this one.
        """
        closed = self.directory / f"closed{self._run}"
        try:
            self.run.rename(closed)
        except OSError as error:
            raise StorageError(
                f"another run has taken over the checkpoint {str(self.directory)!r}\n"
                "hint: let one run at a time use it"
            ) from error
        sync(self.directory)
        self._clean(closed)
        index = DoneIds.of(str(self.directory), self.ids).index()
        if index is not None and (found := index.info())["ids"] != found["rows"]:
            raise FormatError(
                _twice(self.ids, f"an id of {found['rows'] - found['ids']} rows")
                + f"; then remove {str(self.directory)!r}"
            )
        shards: list[WrittenShards] = []
        for number, one in enumerate(sorted(self._finished(), key=lambda one: one.first)):
            one.check()
            files = [str(one.directory / name) for name, _ in one.files]
            shards.append(WrittenShards(number, files, one.schema))
        return shards

    def unpublished(self) -> list[str]:
        """Return the closed runs whose files are not visible."""
        names = {path.name for path in self.directory.glob("closed-*")}
        return sorted(names - self._published)

    def _finished(self) -> Iterable[_Finished]:
        for run in self.unpublished():
            yield from map(_Finished.of, sorted((self.directory / run / _DONE).iterdir()))

    def _close(self, run: Path) -> None:
        closed = run.with_name("closed" + run.name.removeprefix("run"))
        if closed.exists():
            # An attempt has made its directory again after the run was closed.
            shutil.rmtree(run, ignore_errors=True)
        else:
            run.rename(closed)

    def _clean(self, closed: Path) -> None:
        """Remove attempts that did not commit, and a run without commits."""
        for path in closed.iterdir():
            if path.name != _DONE:
                shutil.rmtree(path, ignore_errors=True)
        if not any(closed.glob(f"{_DONE}/*")):
            shutil.rmtree(closed, ignore_errors=True)


def checkpoint_directory(checkpoint: PathLike) -> str:
    """Return the absolute path of a checkpoint.

    Raises:
        shardmill.OptionError: If it is in a store.
    """
    if is_remote(checkpoint):
        raise OptionError(
            f"checkpoint must be a directory on a file system that all nodes share, "
            f"not {os.fspath(checkpoint)!r}\n"
            "hint: an object store cannot rename directories, which is how tasks commit"
        )
    return absolute(checkpoint)


def record_input(directory: str, ids: str, columns: pa.Schema, files: list[list[Any]]) -> None:
    """Record the input of a job, or compare it with the recorded one.

    Files may have been added after the others.

    Args:
        directory: the checkpoint.
        ids: the column of ids.
        columns: the columns that are read.
        files: path, size, rows and time of change of each file.

    Raises:
        shardmill.CheckpointMismatchError: If the input is another one.
    """
    Path(directory).mkdir(parents=True, exist_ok=True)
    now = {"ids": ids, "columns": {field.name: str(field.type) for field in columns}}
    _agree(Path(directory), "input.json", now, files)


def _agree(
    directory: Path, name: str, now: Mapping[str, Any], files: list[list[Any]] | None = None
) -> None:
    """Compare a part of the identity of a job with the recorded one, or record it."""
    path = directory / name
    new = json.dumps({**now, "files": files}, indent=1).encode()
    if not path.exists():
        # Of two jobs that begin at once, one sees the values of the other.
        with suppress(FileExistsError):
            publish_bytes(str(path), new, False)
            return
    was = json.loads(path.read_bytes())
    known = was.pop("files") or []
    both = {key: (was.get(key), now.get(key)) for key in {**was, **now}}
    both |= {
        f"file {number} (path, bytes, rows, time)": (one, after)
        for number, (one, after) in enumerate(zip_longest(known, (files or [])[: len(known)]))
    }
    for key, (before, after) in both.items():
        if before != after:
            raise CheckpointMismatchError(
                f"the checkpoint {str(directory)!r} belongs to another job: "
                f"{key} was {_shown(before)} and is {_shown(after)}\n"
                "hint: continue a job with its own input and options, "
                "or use another directory for another job"
            )
    if files is not None and len(files) > len(known):
        publish_bytes(str(path), new, True)


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def sync(path: Path) -> None:
    """Make a file, or the names in a directory, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
