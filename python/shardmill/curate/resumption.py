"""One run of a job that has a checkpoint: takes the journal, finds out what is left, and ends it.

The invariant: nothing of the output is touched before the journal has agreed that this is its job, and that nobody else is at work on it.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardmill._native import journal as native
from shardmill._native import storage
from shardmill.errors import CheckpointBusyError, CheckpointMismatchError, Error, FormatError, OptionError
from shardmill.sizes import byte_count
from shardmill.storage import absolute, is_remote, real

if TYPE_CHECKING:
    from shardmill._native.resume import IdIndex
    from shardmill.curate.pipeline import Pipeline
    from shardmill.curate.report import Report
    from shardmill.resume import Checkpoint
    from shardmill.resume.index_cache import Source

_log = logging.getLogger("shardmill.resume")


@dataclass(frozen=True)
class CommitPlan:
    """What a worker needs to commit splits; travels to other machines.

    Attributes:
        target: where records go, as JSON.
        id_columns: what makes an id; empty when the job knows splits only.
        null_ids: what becomes of rows without one.
        imports: files, written by other tools, with ids that are done.
        done: for each segment of the plan, the files of this job with the ids that were done before it, and their recorded hashes.
        memory_bytes: for building an index of them.
    """

    target: str
    id_columns: tuple[str, ...] = ()
    null_ids: str = "error"
    imports: tuple[str, ...] = ()
    done: dict[int, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    memory_bytes: int = 1 << 30
    progress: bool = False

    @property
    def root(self) -> str:
        """The directory of the job within the checkpoint; its name is unique."""
        target = json.loads(self.target)
        return target.get("places", target)["root"]

    def options(self) -> str:
        """The checkpoint as the native pipeline expects it, with local indexes for each segment that needs them."""
        imported = self._indexes(_sources((path, "") for path in self.imports), ())
        indexes: dict[str, list[str]] = {}
        named: tuple[str, ...] = ()
        for segment, files in sorted(self.done.items()):
            # What an earlier part of the plan uses must not become part of an index that holds more.
            own = self._indexes(_sources(files), named)
            named = (*named, *own)
            if imported or own:
                indexes[str(segment)] = [*imported, *own]
        return json.dumps(
            {
                "target": json.loads(self.target),
                "id_columns": list(self.id_columns),
                "null_ids": self.null_ids,
                "indexes": indexes,
            }
        )

    def _indexes(self, sources: tuple[Source, ...], protected: tuple[str, ...]) -> tuple[str, ...]:
        return _found_indexes(sources, self.id_columns, self.memory_bytes, self.progress, protected)


def _found_indexes(
    sources: tuple[Source, ...],
    columns: tuple[str, ...],
    memory_bytes: int,
    progress: bool,
    protected: tuple[str, ...] = (),
) -> tuple[str, ...]:
    if not sources:
        return ()
    found = _index(sources, columns, memory_bytes, progress, protected)
    if not all(map(os.path.exists, found)):
        # Another process has built them again as one.
        _index.cache_clear()
        found = _index(sources, columns, memory_bytes, progress, protected)
    return found


@lru_cache(maxsize=64)
def _index(
    sources: tuple[Source, ...], columns: tuple[str, ...], memory_bytes: int, progress: bool, protected: tuple[str, ...]
) -> tuple[str, ...]:
    """The paths of the indexes of the ids in ``sources``, built once per machine."""
    from shardmill.resume import index_cache
    from shardmill.threads import available_cores

    def build(files: list[Source], path: str) -> IdIndex:
        # Only what is read now: what an index was built from before had the recorded content then.
        native.check_content([(file.path, file.xxh3) for file in files if file.xxh3])
        return index_cache.read_index(
            [file.path for file in files],
            list(columns),
            path=path,
            format=None,
            memory_bytes=memory_bytes,
            threads=available_cores(),
            is_shown=progress,
        )

    return tuple(index_cache.levels(sources, columns, build, protected=protected))


def _sources(files: Iterable[tuple[str, str]]) -> tuple[Source, ...]:
    """The versions of lists of ids: a list that was rewritten is another version."""
    return tuple(_source(path, xxh3) for path, xxh3 in files)


def _source(path: str, xxh3: str) -> Source:
    from shardmill.resume.index_cache import Source

    if is_remote(path):
        # What a job put into a store has a name of its own and stays as it is.
        return Source(path, storage.size(path) or 0, 0, xxh3)
    status = Path(path).stat()
    return Source(path, status.st_size, status.st_mtime_ns, xxh3)


class Resumption:
    """A with-block around one run.

    Attributes:
        splits: what is left to be done, each as JSON.
        plan: for the workers.
        committed: splits that earlier runs committed.
        holds_back: some splits wait for splits whose ids were lost, and need one more run.
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
        self.holds_back = False
        self.load_s = 0.0

    def __enter__(self) -> Resumption:
        start = time.perf_counter()
        done = self._done_files()
        self.load_s = time.perf_counter() - start
        # Emptying the output would take away the rows that the checkpoint says are done.
        is_overwriting = self._pipeline.sink.mode == "overwrite"
        if is_overwriting and done:
            raise self._not_overwritten()
        if is_remote(self._path) or not _has_files(self._path):
            # Before the journal keeps the options.
            self._check_names()
        self._journal = native.Journal(json.dumps(self._options()))
        try:
            if is_overwriting and self._journal.published():
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
        added = [json.loads(file)["path"] for file in new]
        if added and checkpoint.id_columns:
            self._check_ids(added, done)
        if added and checkpoint.duplicate_ids == "strict":
            self._refuse_duplicates(added)
        self.splits = journal.plan(native_pipeline, new)
        # A run that overwrites has nothing committed before it; but one that died may have planned and not emptied the folder.
        native_pipeline.prepare(self.splits, is_resumed=mode != "overwrite")
        segments = sorted({json.loads(split)["unit"]["segment"] for split in self.splits})
        columns = tuple(checkpoint.id_columns)
        self.plan = CommitPlan(
            target=journal.target(),
            id_columns=columns,
            null_ids=checkpoint.null_ids,
            imports=tuple(done),
            done={segment: tuple(journal.done_ids(segment)) for segment in segments} if columns else {},
            memory_bytes=self._memory_bytes,
            progress=self._progress,
        )
        start = time.perf_counter()
        self.plan.options()
        self.load_s += time.perf_counter() - start
        self.holds_back = journal.holds_back()
        if self.committed:
            _log.info("%d splits are committed, %d are left", self.committed, len(self.splits))

    def _check_names(self) -> None:
        """Refuses options that name keys or columns that the input lacks. A started job has already passed this check."""
        pipeline = self._pipeline.native(may_replace=False)
        pipeline.check_names(pipeline.splits())

    def finish(self, report: Report, *, had_workers: bool) -> None:
        """Ends a run after its splits are committed. If an item is quarantined, the checkpoint is always kept.

        Args:
            report: of the run.
            had_workers: whether worker processes took part, some of which may have been lost. A lost worker may have recorded a split
                without renaming its files (the repeated split finds the record and writes nothing), and may have left staged files.
        """
        journal, self._journal = self._journal, None
        assert journal is not None
        if had_workers:
            journal.release()
            try:
                # Opening a journal settles both.
                journal = native.Journal(json.dumps(self._options()))
            except CheckpointBusyError:
                # Another run was quicker, and has settled it.
                return
        deletes = self._checkpoint.delete_on_success and not report.quarantined and not self.holds_back
        if deletes:
            # Earlier runs may have left something out too.
            deletes = json.loads(native.snapshot(self._path, verifies=False))["quarantined"] == 0
        if warning := journal.finish(deletes):
            _log.warning("%s", warning)

    def _options(self) -> dict[str, Any]:
        return {
            "path": self._path,
            "fingerprint": fingerprint(self._pipeline, self._checkpoint, self._imports),
            "inputs": [real(path) for path in self._pipeline.source.paths()],
            "output": real(self._output),
            "reprocesses_changed": self._checkpoint.changed_input == "reprocess",
            "probes_store": is_remote(self._path) and self._checkpoint.delivery == "exactly-once",
            "knows_ids": bool(self._checkpoint.id_columns),
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
            sources = _sources((file, "") for file in (*files, *named))
            _found_indexes(sources, tuple(columns), self._memory_bytes, self._progress)
        except Error:
            return [
                *(path for path in files if _holds(path, columns, is_named=False)),
                *(path for path in named if _holds(path, columns, is_named=True)),
            ]
        return [*files, *named]

    def _check_ids(self, files: list[str], done: list[str]) -> None:
        """Refuses ids that a later run could not recognise, before any id is written."""
        from shardmill.resume.id_check import check_ids

        journal, columns = self._journal, self._checkpoint.id_columns
        assert journal is not None
        known = (types for file in done if (types := check_ids([file], columns, allows_nulls=True)))
        expected = None
        if types := journal.id_types():
            expected = (types, "earlier runs of this job")
        elif types := next(known, None):
            expected = (types, "the ids that are done")
        check_ids(
            files,
            columns,
            format=self._pipeline.source.options().get("format"),
            allows_nulls=self._checkpoint.null_ids == "always_process",
            expected=expected,
        )

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


def _has_files(path: str) -> bool:
    return Path(path).is_dir() and any(Path(path).iterdir())


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


def fingerprint(pipeline: Pipeline, checkpoint: Checkpoint, done: list[str]) -> dict[str, Any]:
    """The parts that a checkpoint must share with this job, by name; inputs and output are compared separately."""
    spec = pipeline.spec()
    sink = {
        name: value
        for name, value in spec["sink"].items()
        if name in ("format", "on_materialize_error", "materialize_on_write")
    }
    return {
        "source": {pipeline.source.kind: _what_is_read(pipeline.source.options())},
        "stages": [_stage(stage, options) for stage, options in zip(pipeline.stages, spec["stages"], strict=True)],
        "sink": sink,
        "id_column": checkpoint.id_columns,
        "done": done,
        "version": checkpoint.version,
    }


def _what_is_read(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a source without the memory limit: raising the limit must not make it another job."""
    return {name: value for name, value in options.items() if name != "max_decoded_bytes"}


def _stage(stage: Any, options: dict[str, Any]) -> Any:
    """A stage by what it does. A function is known by its name alone; its code is what ``version`` is for."""
    if "user" not in options:
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
