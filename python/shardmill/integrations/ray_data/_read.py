"""A data set of Ray Data over files that shardmill reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import ray.data
from ray.data import DataContext, Datasource, ReadTask
from ray.data.block import BlockAccessor, BlockMetadata
from ray.data.expressions import Expr

from shardmill._native import plan as native_plan
from shardmill._native.load import RowPlan
from shardmill.data._dataset import Dataset, opened_files
from shardmill.data._own_methods import refuse_own_rows
from shardmill.errors import Error, OptionError
from shardmill.expressions import expression_of
from shardmill.expressions._conditions import combined
from shardmill.integrations.ray_data._journal import (
    READ_WITH,
    DoneIds,
    checkpoint_directory,
    record_input,
)
from shardmill.integrations.ray_data._nodes import check_nodes
from shardmill.integrations.ray_data._parts import File, Part, divided
from shardmill.integrations.ray_data._rows import RowReader
from shardmill.storage._paths import PathLike, absolute, is_remote

#: Formats with statistics: a filter of theirs reads less. Rows of others are filtered by Ray.
_WITH_STATISTICS = ("parquet", "orc")


def read(
    data: Dataset | PathLike | Sequence[PathLike],
    *,
    ids: str | None = None,
    checkpoint: PathLike | None = None,
    ray_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> ray.data.Dataset:
    """Read files of any format of ``shardmill.Dataset`` into a data set of Ray Data.

    Rows keep their order, from file to file, unless an operator changes it. Their number and size
    come from the metadata of the files; no file is sampled. ``select_columns`` and ``filter`` with
    an expression decide what is read. Each task opens only its own files. Large files are divided
    among tasks, except CSV, JSONL and compressed files, and files that are filtered.

    Args:
        data: a ``shardmill.Dataset``, or its ``path`` argument.
        ids: name of a column of int64 to add. An id is the index of the file, times 2^40, plus the
            number of the row in the file. Ids do not change if files are added whose paths come
            after the others. Not with ``filter``; filter the Ray data set instead.
        checkpoint: the directory that ``write(…, checkpoint=…)`` gets too. Rows whose tasks have
            finished in earlier runs are left out. Needs ``ids``. It is made, and records the input.
        ray_options: options of ``ray.data.read_datasource``, such as ``override_num_blocks``,
            ``concurrency``, ``num_cpus`` and ``memory``.
        **options: options of ``shardmill.Dataset``, if ``data`` is paths.

    Raises:
        shardmill.EngineError: If a node of the cluster lacks shardmill.
        shardmill.StorageError: If a node does not see the files.
        shardmill.CheckpointMismatchError: If the checkpoint is that of another input.
        ValueError: If an option is not valid; for paths, also as for ``shardmill.Dataset``.

    Examples:
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> pq.write_table(pa.table({"x": [1, 2, 3]}), "numbers.parquet")
        >>> import ray
        >>> from shardmill.integrations.ray import read
        >>> read("numbers.parquet").count()  # doctest: +SKIP
        3
    """
    if isinstance(data, Dataset):
        if options:
            raise OptionError(
                f"{next(iter(options))} is an option of shardmill.Dataset\n"
                "hint: pass it where the Dataset is created"
            )
        dataset = data
    else:
        dataset = Dataset(data, **options)
    refuse_own_rows(dataset, "ray.read")
    opened_files(dataset).refuse_bits(dataset.columns)
    if ids is not None:
        _check_ids(ids, dataset)
    # Workers have another working directory.
    files = [
        File(absolute(path), size, rows)
        for path, _, size, rows in opened_files(dataset).native.files
    ]
    directory = None
    if checkpoint is not None:
        if ids is None:
            raise OptionError('a checkpoint needs ids, such as read(…, ids="_row", checkpoint=…)')
        directory = checkpoint_directory(checkpoint)
        record_input(directory, ids, dataset.schema, [_version(file) for file in files])
    check_nodes(sorted({file.path for file in (*files[:1], *files[-1:])}))
    source = ShardmillDatasource(dataset, files, ids, directory)
    found = ray.data.read_datasource(source, **(ray_options or {}))
    if directory is not None:
        found.context.set_config(READ_WITH, (directory, ids))
    # Of this data set and those derived from it only.
    found.context.execution_options.preserve_order = True
    return found


def _version(file: File) -> list[Any]:
    changed = 0 if is_remote(file.path) else Path(file.path).stat().st_mtime_ns
    return [file.path, file.size, file.rows, changed]


def _check_ids(ids: str, dataset: Dataset) -> None:
    if not isinstance(ids, str) or not ids:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise OptionError(f'ids must be the name of a column, such as "_row", not {ids!r}')
    if ids in opened_files(dataset).native.column_names:
        raise OptionError(
            f"the files have a column {ids!r} already\nhint: choose another name for ids"
        )
    if dataset.row_filter is not None:
        raise OptionError(
            "ids are numbers of rows in files, so the Dataset must not have a filter\n"
            "hint: filter the data set that read returns"
        )


class ShardmillDatasource(Datasource):
    """The files of a data set, with what Ray pushes into the read.

    Args:
        dataset: the data set.
        files: its files.
        ids: name of the column of ids to add.
        checkpoint: directory of the ids of rows that are left out.
    """

    def __init__(
        self,
        dataset: Dataset,
        files: Sequence[File],
        ids: str | None,
        checkpoint: str | None = None,
    ) -> None:
        super().__init__()
        self._checkpoint = checkpoint
        self._projection_map: dict[str, str] | None = None
        self._dataset, self._files, self._ids = dataset, files, ids
        self._condition = dataset.row_filter
        #: Size in memory, by columns; shared by copies.
        self._sizes: dict[tuple[str, ...], int] = {}

    def get_name(self) -> str:
        """Return the name of the operator, after ``Read``."""
        return "Shardmill"

    def supports_projection_pushdown(self) -> bool:
        """Return that only selected columns are read."""
        return True

    def supports_predicate_pushdown(self) -> bool:
        """Return whether a filter reads less than all rows."""
        return self._dataset.format in _WITH_STATISTICS and self._ids is None

    def apply_predicate(self, predicate_expr: Expr) -> Datasource:
        """Return the source with a filter, or itself if Ray has to apply the filter."""
        try:
            condition = expression_of(predicate_expr.to_pyarrow())
            native_plan.check(condition.tree, self._dataset.schema)
        except (Error, TypeError):
            return self
        copied = super().apply_predicate(predicate_expr)
        assert isinstance(copied, ShardmillDatasource)
        parts = [part for part in (self._condition, condition) if part is not None]
        copied._condition = combined("and", parts)
        return copied

    def estimate_inmemory_data_size(self) -> int:
        """Return the size of the columns that are read, from metadata; a filter is ignored."""
        files, names = opened_files(self._dataset), tuple(self._names())
        if names not in self._sizes:
            plan = RowPlan(files.native)
            share = {"batch_size": 1, "world_size": 1, "rank": 0, "tail": "uneven"}
            numbers = files.numbers_of([name for name in names if name != self._ids])
            [cost] = plan.explain(0, 0, share, numbers)["ranks"]
            self._sizes[names] = cost["decoded_bytes"] + 8 * (self._ids in names) * plan.num_rows
        return self._sizes[names]

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        """Return about ``parallelism`` tasks, each with its files and rows."""
        is_filtered = self._condition is not None
        tasks = divided(self._files, parallelism, self._dataset.format, by_file=is_filtered)
        reader, schema = self._reader(), self._schema()
        all_rows = max(sum(file.rows for file in self._files), 1)
        row_bytes = self.estimate_inmemory_data_size() / all_rows if tasks else 0
        return [
            ReadTask(
                _read_function(reader, parts),
                BlockMetadata(
                    num_rows=None
                    if is_filtered or self._checkpoint
                    else sum(part.rows for part in parts),
                    size_bytes=round(row_bytes * sum(part.rows for part in parts)),
                    input_files=tuple(file.path for part in parts for file in part.files),
                    exec_stats=None,
                ),
                schema=schema,
                per_task_row_limit=per_task_row_limit,
            )
            for parts in tasks
        ]

    def _names(self) -> list[str]:
        names = [*self._dataset.columns, *([] if self._ids is None else [self._ids])]
        pushed = self.get_projection_map()
        return names if pushed is None else list(pushed)

    def _schema(self) -> pa.Schema:
        schema = self._dataset.schema
        if self._ids is not None:
            schema = schema.append(pa.field(self._ids, pa.int64()))
        return pa.schema([schema.field(name) for name in self._names()])

    def _all_columns(self) -> pa.Schema:
        """Return the schema of all columns of the files, which a filter may use."""
        native = opened_files(self._dataset).native
        return pa.schema(native.schema(native.column_numbers(native.column_names)))

    def _reader(self) -> RowReader:
        # As pickle would take it apart: secrets are left out.
        reopen, (kind, arguments), *_ = self._dataset.__reduce__()
        delivered, every = self._schema(), self._all_columns()
        own = {"path": None, "columns": None, "filter": None, "threads": 1}
        is_computed = any(arguments[name] for name in ("tokenize", "images", "partitioning"))
        if self._dataset.format in ("csv", "jsonl") and not is_computed:
            # Types are those of all files, and are not inferred again.
            own["schema"] = arguments["schema"] or every
        others = [field for field in every if field.name not in delivered.names]
        return RowReader(
            reopen,
            kind,
            arguments | own,
            delivered,
            condition=self._condition,
            with_condition=pa.schema([*delivered, *others]),
            ids=self._ids if self._ids in delivered.names else None,
            # Asked for by each execution, so those of a write leave out what it does not write.
            done=DoneIds.of(self._checkpoint, self._ids)
            if self._checkpoint and self._ids
            else None,
        )


def _read_function(reader: RowReader, parts: list[Part]) -> Any:
    def read_shardmill() -> Iterable[pa.Table]:
        tables = reader.tables(parts)
        if len(reader.delivered):
            return tables
        # Without columns, Ray keeps the number of rows in a column of its own.
        return (BlockAccessor.for_block(table).select([]) for table in tables)

    return read_shardmill
