"""One run of a job that has a checkpoint: opens the journal, determines what is left, and ends it.

Invariant: the output is not touched before the journal has confirmed that this is its job, and that
no other process is working on it.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardmill._native import journal as native
from shardmill._native import storage
from shardmill._native.resume import id_types, versions_of
from shardmill._progress import PLANNING, announced
from shardmill._sizes import byte_count
from shardmill._threads import available_cores
from shardmill.curate._done_files import files_of, has_ids, parquet_in
from shardmill.curate._fingerprint import fingerprint
from shardmill.curate._placement import refuse_inside_input
from shardmill.curate._spec import native_pipeline
from shardmill.errors import (
    CheckpointBusyError,
    CheckpointMismatchError,
    Error,
    OptionError,
)
from shardmill.resume._checkpoint import (
    checkpoint_of,
    done_paths,
    id_columns,
    state_directory,
)
from shardmill.storage._paths import absolute, is_remote, real, root_of

if TYPE_CHECKING:
    from shardmill._native import curate
    from shardmill._native.plan import InputFile, Split
    from shardmill._native.resume import IdIndex
    from shardmill.curate._pipeline import Pipeline
    from shardmill.curate._report import Report
    from shardmill.resume._index_cache import Source

_log = logging.getLogger("shardmill.resume")


@dataclass(frozen=True)
class CommitPlan:
    """What a worker needs to commit splits; sent to other machines.

    Attributes:
        target: destination of the records.
        id_columns: columns that form an id; empty if the job tracks splits only.
        null_ids: what happens to rows without an id.
        imports: files with completed ids, written by other tools.
        done: for each segment of the plan, the files of this job with the ids that were done before
            it, and their recorded hashes.
        memory_bytes: memory for building an index of them.
    """

    target: dict[str, Any]
    id_columns: tuple[str, ...] = ()
    null_ids: str = "raise"
    imports: tuple[str, ...] = ()
    done: dict[int, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    memory_bytes: int = 1 << 30
    progress: bool = False

    @property
    def root(self) -> str:
        """Directory of the job within the checkpoint; its name is unique."""
        root: str = self.target["places"]["root"]
        return root

    def options(self) -> dict[str, Any]:
        """Return the checkpoint options for the native pipeline.

        They have local indexes for each segment that needs them.
        """
        imported = self._indexes(_sources((path, "") for path in self.imports), ())
        indexes: dict[int, list[str]] = {}
        named: tuple[str, ...] = ()
        for segment, files in sorted(self.done.items()):
            # An index used by an earlier part of the plan must not be merged into an index that
            # holds more.
            own = self._indexes(_sources(files), named)
            named = (*named, *own)
            if imported or own:
                indexes[segment] = [*imported, *own]
        ids = {"id_columns": list(self.id_columns), "null_ids": self.null_ids}
        return {"target": self.target, **ids, "indexes": indexes}

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
        # Another process has merged them in the meantime.
        _index.cache_clear()
        found = _index(sources, columns, memory_bytes, progress, protected)
    return found


@lru_cache(maxsize=64)
def _index(
    sources: tuple[Source, ...],
    columns: tuple[str, ...],
    memory_bytes: int,
    progress: bool,
    protected: tuple[str, ...],
) -> tuple[str, ...]:
    """Return the paths of the indexes of the ids in ``sources``, built once per machine."""
    from shardmill.resume import _index_cache as index_cache

    def build(files: list[Source], path: str) -> IdIndex:
        # Verify only what is read now: earlier indexes were built from verified content.
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
    """Return the versions of lists of ids: a rewritten list is another version."""
    return tuple(_source(path, xxh3) for path, xxh3 in files)


def _source(path: str, xxh3: str) -> Source:
    from shardmill.resume._index_cache import Source

    if is_remote(path):
        if not xxh3 and (versions := versions_of([path], format=None)):
            # A list of another tool may be written anew, with the same size.
            _name, size, changed = versions[0]
            return Source(path, size, changed)
        # Objects that a job put into a store have unique names and never change.
        return Source(path, storage.size(path) or 0, 0, xxh3)
    status = Path(path).stat()
    return Source(path, status.st_size, status.st_mtime_ns, xxh3)


class Resumption:
    """A context manager for one run.

    Attributes:
        splits: the remaining splits.
        schema: the schema of the job.
        results: the columns that its functions return, as far as earlier runs have decided them.
        plan: the plan for the workers.
        left_out: files below the paths that are skipped because of their format.
        committed: number of splits committed by earlier runs.
        holds_back: whether some splits wait for splits whose ids were lost, and need one more run.
        load_s: seconds spent loading or building the index of completed ids.
        planning_s: seconds spent finding the columns of the files, and dividing them into splits.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        progress: bool,
        pass_over: Callable[[curate.Pipeline, list[InputFile] | None], None] | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._pass_over = pass_over
        self._checkpoint = checkpoint = checkpoint_of(pipeline.checkpoint)
        self._progress = progress
        self._memory_bytes = byte_count(checkpoint.memory_bytes, "memory_bytes")
        given, self._path = real(checkpoint.path), state_directory(checkpoint)
        self._id_columns = id_columns(checkpoint)
        ids = [] if given == self._path else [given]
        if ids and not self._id_columns:
            raise OptionError(
                f"`{given}` is a file; "
                "the path of a Checkpoint without an `id_column` must be a directory"
            )
        self._output = absolute(pipeline.sink.path)
        _keep_apart(self._path, pipeline, self._output)
        self._imports = [*ids, *map(real, done_paths(checkpoint))]
        self._journal: native.Journal | None = None
        self._native = native_pipeline(pipeline, may_replace=False)
        self.splits: list[Split] = []
        self.schema: str | None = None
        self.results: list[str] = []
        self.left_out: list[str] = []
        self.plan = CommitPlan(target={})
        self.committed = 0
        self.holds_back = False
        self.load_s = self.planning_s = 0.0
        self._overwrites = False

    def __enter__(self) -> Resumption:
        start = time.perf_counter()
        done = self._done_files()
        self.load_s = time.perf_counter() - start
        if (
            is_remote(self._path)
            or not Path(self._path).is_dir()
            or not any(Path(self._path).iterdir())
        ):
            # Options that name keys or columns that the input lacks, before the journal records
            # them. A started job has passed this check.
            with self._planning():
                self._decide(None)
                self._native.check_names(self._native.splits(available_cores())[0])
        self._journal = self._opened()
        try:
            is_begun = self._journal.published()
            # A job that has outputs continues in any mode.
            self._overwrites = self._pipeline.sink.mode == "overwrite" and not is_begun
            if self._overwrites and done:
                raise CheckpointMismatchError(
                    'mode="overwrite" would remove the outputs of rows '
                    f"whose ids are done according to `{self._path}`\n"
                    'hint: use mode="resume" to keep them, or another checkpoint path to start over'
                )
            self._open(done)
        except BaseException:
            self._journal.release()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._journal is not None:
            self._journal.release()

    def _decide(self, files: list[InputFile] | None) -> None:
        if self._pass_over is not None:
            self._pass_over(self._native, files)

    @contextmanager
    def _planning(self) -> Iterator[None]:
        start = time.perf_counter()
        with announced(PLANNING, is_shown=self._progress):
            yield
        self.planning_s += time.perf_counter() - start

    def _open(self, done: list[str]) -> None:
        journal = self._journal
        assert journal is not None
        for warning in journal.warnings():
            _log.warning("%s", warning)
        self.committed = journal.committed()
        checkpoint = self._checkpoint
        if (
            self._pipeline.sink.mode == "error"
            and not journal.is_resumed()
            and storage.size(self._output) is not None
        ):
            # Before anything is planned: otherwise the next run would see the plan as started.
            self._native.prepare([], is_resumed=False)
        new, self.left_out = journal.new_files(self._native)
        added = [file.path for file in new]
        if added and checkpoint.duplicate_ids == "strict":
            self._refuse_duplicates(added)
        types = self._known_id_types(done) if added and self._id_columns else None
        with self._planning():
            self._decide(new)
            self.splits = journal.plan(self._native, new, types, available_cores())
        self.schema = self._native.schema()
        self.results = journal.results()
        # A run that died before its first commit may have planned without emptying the directory.
        self._native.prepare(self.splits, is_resumed=not self._overwrites)
        segments = sorted({split.segment for split in self.splits if split.segment is not None})
        columns = tuple(self._id_columns)
        self.plan = CommitPlan(
            target=journal.target(),
            id_columns=columns,
            null_ids=checkpoint.null_ids,
            imports=tuple(done),
            done={segment: tuple(journal.done_ids(segment)) for segment in segments}
            if columns
            else {},
            memory_bytes=self._memory_bytes,
            progress=self._progress,
        )
        start = time.perf_counter()
        self.plan.options()
        self.load_s += time.perf_counter() - start
        self.holds_back = journal.holds_back()
        if self.committed:
            _log.info("%d splits are committed, %d are left", self.committed, len(self.splits))

    def finish(self, report: Report, *, had_workers: bool) -> None:
        """End a run after its splits are committed.

        If an item is quarantined, the checkpoint is always kept.

        Args:
            report: report of the run.
            had_workers: whether worker processes took part, some of which may have been lost. A
                lost worker may have recorded a split without renaming its files (the repeated split
                finds the record and writes nothing), and may have left staged files.
        """
        journal, self._journal = self._journal, None
        assert journal is not None
        if had_workers:
            journal.release()
            try:
                # Opening a journal settles both.
                journal = self._opened()
            except CheckpointBusyError:
                # Another run was faster, and has settled it.
                return
        deletes = (
            self._checkpoint.delete_on_success and not report.quarantined and not self.holds_back
        )
        if deletes:
            # Earlier runs may have quarantined items too.
            deletes = native.snapshot(self._path, verifies=False)["quarantined"] == 0
        if warning := journal.finish(deletes):
            _log.warning("%s", warning)

    def _opened(self) -> native.Journal:
        options = {
            "path": self._path,
            "fingerprint": fingerprint(
                self._pipeline, self._native, self._checkpoint, self._imports
            ),
            "inputs": [root_of(path) for path in self._pipeline.source.paths()],
            "output": real(self._output),
            "reprocesses_changed": self._checkpoint.changed_input == "reprocess",
            "knows_ids": bool(self._id_columns),
        }
        probes_store = is_remote(self._path) and self._checkpoint.delivery == "exactly-once"
        return native.Journal(options, probes_store=probes_store)

    def _done_files(self) -> list[str]:
        """Return files with completed ids that other tools have written.

        Unreadable files are logged and ignored.
        """
        columns = self._id_columns
        if not columns:
            return []
        beside = parquet_in(self._path)
        files = [path for path in beside if not path.endswith(".pending.parquet")]
        named = [file for path in self._imports for file in files_of(path)]
        if not files and not named:
            return []
        try:
            # Usually all of them can be read; the first part of the plan needs this very index.
            sources = _sources((file, "") for file in (*files, *named))
            _found_indexes(sources, tuple(columns), self._memory_bytes, self._progress)
        except Error:
            return [
                *(path for path in files if has_ids(path, columns, is_named=False)),
                *(path for path in named if has_ids(path, columns, is_named=True)),
            ]
        return [*files, *named]

    def _known_id_types(self, done: list[str]) -> tuple[Any, str] | None:
        """Return the types of the ids of earlier runs, or of done ids, and where they come from."""
        journal = self._journal
        assert journal is not None
        if types := journal.id_types():
            return types, "earlier runs of this job"
        columns, threads = self._id_columns, available_cores()
        known = (types for file in done if (types := id_types([file], columns, threads)))
        return ((types, "the ids that are done")) if (types := next(known, None)) else None

    def _refuse_duplicates(self, files: list[str]) -> None:
        from shardmill.resume import IdIndex

        columns, format = self._id_columns, getattr(self._pipeline.source, "format", None)
        index = IdIndex.build(
            files,
            columns,
            format=format,
            memory_bytes=self._memory_bytes,
            progress=self._progress,
        )
        info = index.info()
        Path(index.path).unlink(missing_ok=True)
        # A row without an id shares it with no other row.
        repeated = info["rows"] - info["nulls"] - len(index)
        if repeated:
            named = _first_duplicate(files, columns, format)
            example = "" if named is None else f", such as {named!r}"
            raise CheckpointMismatchError(
                f"{repeated} rows of the input have an id that another row has{example}\n"
                'hint: duplicate_ids="count" processes them all'
            )


# A message must not cost more memory than the job.
_MAX_SEARCHED = 5_000_000


def _first_duplicate(files: list[str], columns: list[str], format: Any) -> Any:
    """Return an id that two rows have, or None if it is not among the first rows."""
    from shardmill.data._dataset import Dataset

    seen = set()
    for file in files:
        for row in Dataset(file, columns=columns, format=format):
            id = tuple(row[column] for column in columns)
            if None in id:
                continue
            if id in seen:
                return id if len(columns) > 1 else id[0]
            if len(seen) == _MAX_SEARCHED:
                return None
            seen.add(id)
    return None


def _keep_apart(path: str, pipeline: Pipeline, output: str) -> None:
    """Reject a checkpoint or output whose files would be read as input.

    A checkpoint that would be emptied with the output is rejected as well.
    """
    inputs = [real(source) for source in pipeline.source.paths()]
    place = real(output)
    if Path(path).is_relative_to(place):
        raise OptionError(
            f"The checkpoint `{path}` is inside the output `{place}`\n"
            "hint: use a separate directory"
        )
    refuse_inside_input("checkpoint", path, inputs)
    refuse_inside_input("output", place, inputs)
