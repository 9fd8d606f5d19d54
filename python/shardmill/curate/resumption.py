"""One run of a job that has a checkpoint: takes the journal, finds out what is left, and ends it.

The invariant: nothing of the output is touched before the journal has agreed that this is its job, and that nobody else is at work on it.
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardmill._native import journal as native
from shardmill._native import storage
from shardmill.curate.sources import absolute, real
from shardmill.errors import CheckpointMismatchError, Error, FormatError, OptionError
from shardmill.sizes import byte_count
from shardmill.storage import is_remote

if TYPE_CHECKING:
    from shardmill.curate.pipeline import Pipeline
    from shardmill.curate.report import Report
    from shardmill.resume import Checkpoint

_log = logging.getLogger("shardmill.resume")


@dataclass(frozen=True)
class CommitPlan:
    """What a worker needs to commit splits; travels to other machines.

    Attributes:
        target: where records go, as JSON.
        id_columns: what makes an id; empty when the job knows splits only.
        null_ids: what becomes of rows without one.
        done: by segment of the plan, files with the ids that were done before it.
        memory_bytes: for building an index of them.
    """

    target: str
    id_columns: tuple[str, ...] = ()
    null_ids: str = "error"
    done: dict[int, tuple[str, ...]] = field(default_factory=dict)
    memory_bytes: int = 1 << 30
    progress: bool = False

    def options(self) -> str:
        """The checkpoint as the native pipeline takes it, with an index on this machine for each segment that needs one."""
        indexes = {
            str(segment): _index(_versions(files), self.id_columns, self.memory_bytes, self.progress)
            for segment, files in self.done.items()
            if files
        }
        return json.dumps(
            {
                "target": json.loads(self.target),
                "id_columns": list(self.id_columns),
                "null_ids": self.null_ids,
                "indexes": indexes,
            }
        )


@lru_cache(maxsize=64)
def _index(files: tuple[_Version, ...], columns: tuple[str, ...], memory_bytes: int, progress: bool) -> str:
    """The path of an index of the ids in ``files``, built once a machine."""
    from shardmill.resume import IdIndex

    return IdIndex.build([file[0] for file in files], columns, memory_bytes=memory_bytes, progress=progress).path


# Path, size and time of change.
_Version = tuple[str, int, int]


def _versions(files: tuple[str, ...]) -> tuple[_Version, ...]:
    """A list of ids that somebody has written anew is another list."""
    return tuple(map(_version, files))


def _version(file: str) -> _Version:
    if is_remote(file):
        # What a job put into a store has a name of its own and stays as it is.
        return (file, storage.size(file) or 0, 0)
    status = Path(file).stat()
    return (file, status.st_size, status.st_mtime_ns)


class Resumption:
    """A with-block around one run.

    Attributes:
        splits: what is left to be done, each as JSON.
        plan: for the workers.
        committed: splits that earlier runs committed.
        load_s: seconds that it took to have an index of the ids that are done.
    """

    def __init__(self, pipeline: Pipeline, checkpoint: Checkpoint, progress: bool) -> None:
        self._pipeline = pipeline
        self._checkpoint = checkpoint
        self._progress = progress
        self._memory_bytes = byte_count(checkpoint.memory_bytes, "memory_bytes")
        self._path, single = _state_folder(checkpoint)
        self._output = absolute(pipeline.sink.path)
        _keep_apart(self._path, pipeline, self._output)
        imports = [*([single] if single else []), *checkpoint.done_paths]
        self._imports = [real(path) for path in imports]
        self._journal: native.Journal | None = None
        self.splits: list[str] = []
        self.plan = CommitPlan(target="")
        self.committed = 0
        self.load_s = 0.0

    def __enter__(self) -> Resumption:
        start = time.perf_counter()
        done = self._done_files()
        self.load_s = time.perf_counter() - start
        # Emptying the output would take away the rows that the checkpoint says are done.
        is_overwriting = self._pipeline.sink.mode == "overwrite"
        if is_overwriting and done:
            raise self._not_overwritten()
        self._journal = native.Journal(json.dumps(self._options()))
        try:
            if is_overwriting and self._journal.committed():
                raise self._not_overwritten()
            self._open(done)
        except BaseException:
            self._journal.release()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._journal is not None:
            self._journal.release()

    def _open(self, done: list[str]) -> None:
        journal = self._journal
        assert journal is not None
        for warning in journal.warnings():
            _log.warning("%s", warning)
        self.committed = journal.committed()
        checkpoint, native_pipeline = self._checkpoint, self._pipeline.native(may_replace=False)
        mode = self._pipeline.sink.mode
        if mode == "error" and not journal.is_resumed() and _exists(self._output):
            # Before anything is planned: the next run would take a plan for one that was begun.
            native_pipeline.prepare([], is_resumed=False)
        new = journal.new_files(native_pipeline)
        if new and checkpoint.duplicate_ids == "strict":
            self._refuse_duplicates([json.loads(file)["path"] for file in new])
        self.splits = journal.plan(native_pipeline, new)
        # A run that overwrites has nothing committed before it; but one that died may have planned and not emptied the folder.
        native_pipeline.prepare(self.splits, is_resumed=mode != "overwrite")
        segments = sorted({json.loads(split)["unit"]["segment"] for split in self.splits})
        columns = tuple(checkpoint.id_columns)
        self.plan = CommitPlan(
            target=journal.target(),
            id_columns=columns,
            null_ids=checkpoint.null_ids,
            done={segment: (*done, *journal.done_ids(segment)) for segment in segments} if columns else {},
            memory_bytes=self._memory_bytes,
            progress=self._progress,
        )
        start = time.perf_counter()
        self.plan.options()
        self.load_s += time.perf_counter() - start
        if self.committed:
            _log.info("%d splits are committed, %d are left", self.committed, len(self.splits))

    def finish(self, report: Report) -> None:
        """Ends a job of which every split is committed. With a quarantined item the checkpoint is kept in any case."""
        journal, self._journal = self._journal, None
        assert journal is not None
        deletes = self._checkpoint.delete_on_success and not report.quarantined
        if deletes:
            # Earlier runs may have left something out too.
            deletes = json.loads(native.snapshot(self._path, verifies=False))["quarantined"] == 0
        if warning := journal.finish(deletes):
            _log.warning("%s", warning)

    def _options(self) -> dict[str, Any]:
        return {
            "path": self._path,
            "fingerprint": fingerprint(self._pipeline, self._checkpoint, self._imports, self._output),
            "output": self._output,
            "reprocesses_changed": self._checkpoint.changed_input == "reprocess",
        }

    def _not_overwritten(self) -> CheckpointMismatchError:
        return CheckpointMismatchError(
            f'mode="overwrite" would remove the outputs that the checkpoint `{self._path}` says are done\n'
            'hint: use mode="ignore" to resume, or another checkpoint path to begin anew'
        )

    def _done_files(self) -> list[str]:
        """Files with ids that are done, which other tools have written. Those that cannot be read are told, and count for nothing."""
        columns = self._checkpoint.id_columns
        if not columns:
            return []
        beside = _parquet_in(self._path)
        files = [path for path in beside if not path.endswith(".pending.parquet")]
        named = [file for path in self._imports for file in _files_of(path)]
        if not files and not named:
            return []
        try:
            # Mostly all of them can be read; the first part of the plan needs this very index.
            _index(_versions((*files, *named)), tuple(columns), self._memory_bytes, self._progress)
        except Error:
            return [
                *(path for path in files if _holds(path, columns, is_named=False)),
                *(path for path in named if _holds(path, columns, is_named=True)),
            ]
        return [*files, *named]

    def _refuse_duplicates(self, files: list[str]) -> None:
        from shardmill.resume import IdIndex

        checkpoint = self._checkpoint
        index = IdIndex.build(
            files,
            checkpoint.id_columns,
            memory_bytes=self._memory_bytes,
            progress=self._progress,
        )
        info = index.info()
        Path(index.path).unlink(missing_ok=True)
        if info["rows"] > len(index):
            named = _first_duplicate(files, checkpoint.id_columns)
            example = "" if named is None else f", such as {named!r}"
            raise CheckpointMismatchError(
                f"{info['rows'] - len(index)} rows of the input have an id that another row has{example}\n"
                'hint: duplicate_ids="count" processes them all'
            )


# A message need not cost more memory than the job.
_MAX_SEARCHED = 5_000_000


def _first_duplicate(files: list[str], columns: list[str]) -> Any:
    """An id that two rows have, or None when it is not among the first rows."""
    from shardmill.dataset import Dataset

    seen = set()
    for file in files:
        for row in Dataset(file, columns=columns):
            id = tuple(row[column] for column in columns)
            if None in id:
                continue
            if id in seen:
                return id if len(columns) > 1 else id[0]
            if len(seen) == _MAX_SEARCHED:
                return None
            seen.add(id)
    return None


def _state_folder(checkpoint: Checkpoint) -> tuple[str, str | None]:
    """The folder for the journal, and the file with ids that are done when the path is one."""
    path = real(checkpoint.path)
    if _is_file(path):
        if not checkpoint.id_columns:
            raise OptionError(f"`{path}` is a file; the path of a Checkpoint without an `id_column` is a folder")
        return f"{path}.resume", path
    return path, None


def _keep_apart(path: str, pipeline: Pipeline, output: str) -> None:
    """Refuses a checkpoint or an output whose files would be read as input, and a checkpoint that would be emptied with the output."""
    inputs = [real(source) for source in pipeline.source.paths()]
    place = real(output)
    if Path(path).is_relative_to(place):
        raise OptionError(f"The checkpoint `{path}` lies in the output `{place}`\nhint: give it a folder of its own")
    for what, folder in (("checkpoint", path), ("output", place)):
        for source in inputs:
            if Path(folder).is_relative_to(source) or _is_reached(folder, source):
                raise OptionError(
                    f"The {what} `{folder}` lies in the input `{source}`\nhint: give it a folder of its own"
                )


def _is_reached(path: str, pattern: str) -> bool:
    """Whether a glob finds files in the folder ``path``: folders that match are searched recursively."""
    fixed, star, rest = pattern.partition("*")
    if "**" in star + rest and Path(path).is_relative_to(Path(fixed + "x").parent):
        return True
    depth = len(Path(pattern).parts)
    # A star matches within one part of a path.
    return len(Path(path).parts) >= depth and all(map(fnmatchcase, Path(path).parts[:depth], Path(pattern).parts))


def _files_of(path: str) -> list[str]:
    if not _exists(path):
        raise OptionError(f"`done` names `{path}`, which does not exist")
    if _is_file(path):
        return [path]
    below = storage.files(path) if is_remote(path) else [str(file) for file in Path(path).rglob("*") if file.is_file()]
    return [
        file
        for file in sorted(below)
        if not file.endswith(".pending.parquet") and not Path(file).name.startswith((".", "_"))
    ]


def _exists(path: str) -> bool:
    return storage.size(path) is not None if is_remote(path) else Path(path).exists()


def _is_file(path: str) -> bool:
    """In a store, a path may be an object and a folder at once; a folder is not taken for a file then."""
    if not is_remote(path):
        return Path(path).is_file()
    return path.endswith(".parquet") and storage.size(path) is not None and not storage.names(path)


def _parquet_in(folder: str) -> list[str]:
    if is_remote(folder):
        return [f"{folder}/{name}" for name in storage.names(folder) if name.endswith(".parquet")]
    return [str(path) for path in sorted(Path(folder).glob("*.parquet"))] if Path(folder).is_dir() else []


def _holds(path: str, columns: list[str], *, is_named: bool) -> bool:
    """Whether a file can be read and has the columns."""
    from shardmill.dataset import Dataset

    try:
        names = Dataset(path).schema.names
    except (FormatError, OSError, ValueError) as error:
        _log.warning("`%s` is ignored, its ids do not count as done: %s", path, str(error).split("\n")[0])
        return False
    missing = [column for column in columns if column not in names]
    if missing:
        _log.log(
            logging.WARNING if is_named else logging.INFO, "`%s` is ignored: it has no column `%s`", path, missing[0]
        )
    return not missing


def fingerprint(pipeline: Pipeline, checkpoint: Checkpoint, done: list[str], output: str) -> dict[str, Any]:
    """What must be the same for a checkpoint to be this job's, by name."""
    spec = pipeline.spec()
    sink = {
        name: value
        for name, value in spec["sink"].items()
        if name in ("format", "on_materialize_error", "materialize_on_write")
    }
    return {
        "input": sorted(real(path) for path in pipeline.source.paths()),
        "source": {pipeline.source.kind: pipeline.source.options()},
        "stages": [_stage(stage, options) for stage, options in zip(pipeline.stages, spec["stages"], strict=True)],
        "output": real(output),
        "sink": sink,
        "id_column": checkpoint.id_columns,
        "done": done,
        "version": checkpoint.version,
    }


def _stage(stage: Any, options: dict[str, Any]) -> Any:
    """A stage by what it does. A function is known by its name alone; its code is what ``version`` is for."""
    if "foreign" not in options:
        return options
    values: dict[str, Any] = {"stage": type(stage).__qualname__}
    for name, value in vars(stage).items():
        if value is None or isinstance(value, bool | int | float | str):
            values[name] = value
        elif callable(value):
            values[name] = getattr(value, "__qualname__", type(value).__qualname__)
        else:
            values[name] = type(value).__qualname__
    values.pop("batch_size", None)
    return values
