"""Writes a data set of Ray Data as files of shardmill."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import ray.data
from ray.data import Datasink
from ray.data.block import Block, BlockAccessor
from ray.data.datasource import WriteResult

from shardmill._native import storage
from shardmill.errors import (
    FormatError,
    MissingColumnError,
    OptionError,
    PlanError,
    StorageError,
)
from shardmill.integrations._landmark import Landmark
from shardmill.integrations.ray_data._journal import (
    READ_WITH,
    Journal,
    TaskLog,
    WrittenShards,
    checkpoint_directory,
)
from shardmill.integrations.ray_data._nodes import check_nodes
from shardmill.integrations.ray_data._place import Claim, joined
from shardmill.integrations.ray_data._staging import Staging
from shardmill.storage._configure import configure_all, still_needed
from shardmill.storage._fsspec import located
from shardmill.storage._paths import PathLike, absolute, is_remote, served_path
from shardmill.write._earlier_shards import COMPARED, EarlierShards
from shardmill.write._formats import WrittenFormat, format_of, is_one_file
from shardmill.write._output import Mode, check_target
from shardmill.write._writer import Writer

_TENSOR, _PICKLED = "ray.data.arrow_tensor", "ray.data.arrow_pickled_object"


def write(
    ds: ray.data.Dataset,
    path: PathLike,
    *,
    format: WrittenFormat | None = None,
    mode: Mode = "error",
    ids: str | None = None,
    checkpoint: PathLike | None = None,
    ray_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> list[str]:
    """Write a data set of Ray Data as Parquet, MDS, WebDataset, JSONL or ArrayRecord.

    Each task writes its own shards. They become visible together, after all tasks have succeeded:
    if a task fails, or the driver is killed, nothing is visible, and attempts of a task that Ray
    repeats leave nothing. If the driver is killed while files become visible, the next ``write`` to
    the directory completes that write first. In an object store, shards are uploaded under a hidden
    prefix, and the store copies them to their names.

    Args:
        ds: the rows.
        path: a directory on this machine, or on a file system that all nodes share; or a path in an
            object store, such as ``s3://bucket/train``.
        format: the format of ``shardmill.Writer``; Parquet by default.
        mode: what happens to files in the directory, as in ``shardmill.Writer``.
        ids: a column that is not written, such as that of ``read(ids=…)``.
        checkpoint: the directory that was passed to ``read(…, checkpoint=…)``, on a file system
            that all nodes share. It must be the file system of the output, unless the output is in
            a store. Shards of finished tasks are kept there, with the ids of their rows, if the run
            is killed or fails. The next run reads the other rows, and makes all shards visible
            together. When all is done, a run appends the rows of files that were added to the
            input, whatever ``mode`` says.
        ray_options: options of ``Dataset.write_datasink``, such as ``concurrency``.
        **options: options of ``shardmill.Writer``, such as ``compression``, ``shard_bytes`` and
            ``columns``. Samples of WebDataset get a unique ``__key__`` if there is none. Secrets in
            ``storage_options`` are not sent to workers, which read theirs from the environment.

    Returns:
        The paths of the files that have become visible, in row order.

    Raises:
        shardmill.EngineError: If a node of the cluster lacks shardmill.
        shardmill.StorageError: If a node does not see the directory, or another ``write`` to the
            same path in a store has begun in the meantime.
        shardmill.CheckpointMismatchError: If the checkpoint is that of another write.
        shardmill.CheckpointDamagedError: If files of the checkpoint or the output are missing.
        FileExistsError: If ``mode`` is ``"error"`` and files exist, or another ``write`` to the
            directory is running.
        ValueError: If an option is not valid, or the rows of two tasks have different columns.

    Examples:
        >>> import ray
        >>> from shardmill.integrations.ray import write
        >>> write(ray.data.range(3), "numbers", format="jsonl")  # doctest: +SKIP
        ['numbers/part-00000.jsonl', 'numbers/part-00001.jsonl', 'numbers/part-00002.jsonl']
    """
    (path,), storage_options = located([path], options.pop("storage_options", None))
    out = served_path(absolute(path))
    if is_remote(out):
        out = out.rstrip("/")
    sent = configure_all([out], storage_options)
    found = format_of(out, format)
    if is_one_file(out, found):
        raise OptionError(
            f"{out!r} is the name of a file, but each task writes its own\n"
            "hint: pass a directory, and format= if it is not Parquet"
        )
    check_target(out, is_file=False, mode=mode, shard_bytes=None, index=None)
    has_index = found == "mds" or options.get("index") is not None
    given = {f"option {name}": repr(value) for name, value in options.items()}
    journal = _journal(ds, checkpoint, ids, {"output": out, "format": found, **given})
    staging = Staging(
        out,
        mode=mode,
        prefix="shard." if has_index else "part-",
        has_index=has_index,
        journal=journal,
    )
    with staging:
        task = WriteTask(
            staging.run,
            found,
            options,
            landmark=staging.landmark,
            ids=ids if journal is None else journal.ids,
            first=staging.directory.first_number(),
            log=None if journal is None else journal.task_log(),
            storage_options=sent if is_remote(staging.run) else None,
        )
        task.check_options()
        earlier = EarlierShards(out, found, staging.mode, list(staging.directory.data_files()))
        check_nodes([staging.run], is_written=True)
        if journal is not None:
            journal.record()
        ds.write_datasink(ShardmillDatasink(task, staging, earlier), **(ray_options or {}))
        return [joined(os.fspath(path), name) for name in staging.files]


def _journal(
    ds: ray.data.Dataset,
    checkpoint: PathLike | None,
    ids: str | None,
    output: Mapping[str, Any],
) -> Journal | None:
    """Return the journal of a write, after comparing it with what the rows were read with."""
    given = None if checkpoint is None else checkpoint_directory(checkpoint)
    used, column = ds.context.get_config(READ_WITH) or (None, None)
    if given != used:
        raise OptionError(
            f"the rows were read with checkpoint={used!r}, and write has checkpoint={given!r}\n"
            "hint: pass the same checkpoint to read and to write"
        )
    if given is None:
        return None
    if ids not in (None, column):
        raise OptionError(f"ids={ids!r} of write differ from ids={column!r} of read")
    out = output["output"]
    if Path(given).is_relative_to(out):
        raise OptionError(
            f"the checkpoint {given!r} is in the output {out!r}\n"
            "hint: use a directory beside the output"
        )
    if not is_remote(out) and Path(out).is_relative_to(given):
        raise OptionError(
            f"the output {out!r} is in the checkpoint {given!r}\n"
            "hint: use a directory beside the checkpoint"
        )
    return Journal(given, str(column), output)


@dataclass(frozen=True)
class WriteTask:
    """What a task needs to write its rows.

    Attributes:
        run: directory of the files of this write.
        format: their format.
        options: options of the writer.
        landmark: what must exist before and after a task writes.
        ids: a column that is not written.
        first: number of the first shard, which makes keys of samples unique.
        log: what commits finished tasks.
        storage_options: options of the store, without secrets.
    """

    run: str
    format: WrittenFormat
    options: Mapping[str, Any]
    landmark: Landmark | Claim
    ids: str | None
    first: int
    log: TaskLog | None = None
    storage_options: dict[str, str] | None = None

    def check_options(self) -> None:
        """Make a writer that writes nothing.

        Raises:
            ValueError: If an option is not valid.
        """
        with suppress(_CheckedError), self._writer(joined(self.run, "options")):
            raise _CheckedError

    def __call__(self, blocks: Iterable[Block], task: int) -> WrittenShards:
        """Write the rows of a task."""
        configure_all([self.run], still_needed(self.run, self.storage_options))
        self.landmark.require()
        writer: Writer | None = None
        schema: pa.Schema | None = None
        rows = 0
        ids: list[pa.ChunkedArray] = []
        attempt = joined(self.run, f"{task:06}-{uuid.uuid4().hex}")
        run = f"-{self.run[-8:]}" if self.log else ""
        try:
            for block in blocks:
                table = BlockAccessor.for_block(block).to_arrow()
                if len(table) and self.log is not None:
                    self._check_has_ids(table)
                    table, new = self.log.new_rows(table)
                    ids.append(new)
                if not len(table):
                    continue
                table = self._columns(table)
                if self.format == "webdataset" and "__key__" not in table.column_names:
                    keys = range(rows, rows + len(table))
                    names = [f"{self.first:05}{run}-{task:05}-{number:08}" for number in keys]
                    table = table.append_column("__key__", pa.array(names))
                rows += len(table)
                if writer is None:
                    # An attempt does not write over the files of another one, and one of an
                    # earlier run does not make the directory of that run again.
                    if not is_remote(attempt):
                        Path(attempt).mkdir()
                    writer, schema = self._writer(attempt), self._schema(table)
                writer.write_batch(table)
        except BaseException as error:
            if writer is not None:
                writer.__exit__(type(error), error, None)
            raise
        if writer is None:
            return WrittenShards(task, [], None)
        writer.close()
        if is_remote(attempt):
            self._check_is_kept(attempt)
        shards = WrittenShards(task, writer.files, schema)
        if self.log is not None:
            self.log.commit(Path(attempt), shards, ids)
        return shards

    def _check_is_kept(self, attempt: str) -> None:
        """Remove the objects of an attempt if another write has begun, and raise its error."""
        try:
            self.landmark.require()
        except StorageError:
            storage.remove_directory(attempt)
            raise

    def _writer(self, directory: str) -> Writer:
        return Writer(directory, format=self.format, **{"threads": 0, **self.options})

    def _schema(self, table: pa.Table) -> pa.Schema | None:
        columns = self.options.get("columns")
        if self.options.get("schema") is not None or isinstance(columns, Mapping):
            return None
        selected = table if columns is None else table.select(columns)
        return selected.schema.remove_metadata()

    def _check_has_ids(self, table: pa.Table) -> None:
        if self.ids not in table.column_names:
            raise MissingColumnError(
                f"the rows have no column {self.ids!r}; "
                f"they have {', '.join(table.column_names)}\n"
                "hint: let every operator keep the column of ids, or omit ids"
            )

    def _columns(self, table: pa.Table) -> pa.Table:
        if self.ids is not None:
            self._check_has_ids(table)
            table = table.drop_columns([self.ids])
        for number, column in enumerate(table.schema):
            kind = getattr(column.type, "extension_name", "")
            if kind.startswith(_PICKLED):
                raise FormatError(
                    f"column {column.name!r} holds Python objects, which no format stores\n"
                    "hint: convert them to strings, bytes, numbers, lists or dicts"
                )
            if kind.startswith(_TENSOR):
                stored = [chunk.storage for chunk in table.column(number).chunks]
                values = pa.chunked_array(stored, column.type.storage_type)
                table = table.set_column(number, column.name, values)
        return table


class ShardmillDatasink(Datasink[WrittenShards]):
    """Writes blocks with a ``Writer``, and publishes the files of all tasks together.

    Args:
        task: what each task does.
        staging: the files of the tasks.
        earlier: the files to which they are appended.
    """

    def __init__(self, task: WriteTask, staging: Staging, earlier: EarlierShards) -> None:
        self._task = task
        self._driver: tuple[Staging, EarlierShards] | None = staging, earlier

    def __getstate__(self) -> dict[str, Any]:
        return {"_task": self._task, "_driver": None}

    def write(self, blocks: Iterable[Block], ctx: Any) -> WrittenShards:
        """Write the blocks of a task to hidden files."""
        return self._task(blocks, ctx.task_idx)

    def on_write_complete(self, write_result: WriteResult[WrittenShards]) -> None:
        """Make the files of all tasks visible."""
        assert self._driver is not None
        staging, earlier = self._driver
        journal = staging.journal
        if journal is None:
            shards = sorted(write_result.write_returns, key=lambda shards: shards.task)
        elif not (shards := journal.close()) and journal.is_published:
            return
        with_rows = [one for one in shards if one.schema is not None]
        if with_rows and self._task.format in COMPARED:
            _check_same_schema(with_rows, journal)
            earlier.check(with_rows[0])
        staging.publish([file for one in shards for file in one.files])

    def get_name(self) -> str:
        """Return the name of the operator."""
        return "Shardmill"


class _CheckedError(Exception):
    """Ends a writer that was made only to check its options."""


def _check_same_schema(shards: Sequence[WrittenShards], journal: Journal | None) -> None:
    start = "" if journal is None else "; then start with another checkpoint"
    first = shards[0].schema
    for one in shards[1:]:
        if one.schema != first:
            raise PlanError(
                f"the rows of two tasks have different columns: {_shown(first)}, and "
                f"{_shown(one.schema)}\n"
                f"hint: let functions return one type per column, or pass schema={start}"
            )


def _shown(schema: Any) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)
