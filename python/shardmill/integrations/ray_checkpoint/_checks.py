"""Checks in a job with this checkpoint: input files before it starts, rows when they are read, and rows before they are written.

A rule in Ray's physical rule set adds them to the plan. Invariant: a plan that does not write with this checkpoint is not modified.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem, PyFileSystem
from ray.data import DataContext
from ray.data._internal.datasource.parquet_datasource import ParquetDatasource
from ray.data._internal.execution.execution_callback import ExecutionCallback
from ray.data._internal.execution.interfaces import PhysicalOperator, TaskContext
from ray.data._internal.execution.operators.map_operator import MapOperator
from ray.data._internal.execution.operators.map_transformer import BlockMapTransformFn
from ray.data._internal.logical.interfaces import PhysicalPlan, Rule
from ray.data._internal.logical.operators import ListFiles, Read, ReadFiles, Write
from ray.data._internal.logical.optimizers import get_physical_ruleset
from ray.data._internal.table_block import TableBlockAccessor
from ray.data._internal.util import RetryingPyFileSystem
from ray.data.block import Block, BlockAccessor
from ray.data.datasource.file_datasink import _FileDatasink

from shardmill.errors import Error, StorageError
from shardmill.integrations._landmark import Landmark, located, planted
from shardmill.integrations.ray_checkpoint import _run as run
from shardmill.integrations.ray_checkpoint._filter import ShardmillCheckpointFilter
from shardmill.integrations.ray_checkpoint._ids import IdCheck
from shardmill.integrations.ray_checkpoint._load import SEEN_TYPE
from shardmill.integrations.ray_checkpoint._placement import FILTER_NAME, FilterInReadTasks

logger = logging.getLogger(__name__)

_EXECUTION = "shardmill.checkpoint_execution"
_PLANNER = "ray.data._internal.planner.checkpoint.plan_write_op"


def register() -> None:
    """Add the rule to Ray's set, and the callback to the context of this process, which data sets copy."""
    rules = get_physical_ruleset()
    if CheckIds not in set(rules):
        rules.add(CheckIds)
    callbacks = DataContext.get_current().custom_execution_callback_classes
    if EndOfExecution not in callbacks:
        callbacks.append(EndOfExecution)


class CheckIds(Rule):
    """Add the checks to a plan that writes with this checkpoint."""

    @classmethod
    def dependents(cls) -> list[type[Rule]]:
        """Return the rules that must run after this one: they expect the operators that it leaves, or replace them."""
        return [FilterInReadTasks, *FilterInReadTasks.dependents()]

    def apply(self, plan: PhysicalPlan) -> PhysicalPlan:  # pyright: ignore[reportIncompatibleMethodOverride] - as Ray's own
        """Check the input files, and return the plan with its new steps.

        Raises:
            shardmill.IdTypeError: If the ids of a file have a type that this job cannot use.
            shardmill.FormatError: If a row of a file has no id.
        """
        write, config = plan.dag, plan.context.checkpoint_config
        logical = plan.op_map.get(write)
        if config is None or not isinstance(logical, Write) or not isinstance(write, MapOperator):
            return plan
        filter_class, steps = config.checkpoint_filter_cls, write.get_map_transformer().get_transform_fns()
        if filter_class is None or not issubclass(filter_class, ShardmillCheckpointFilter):
            return plan
        if not any(step._fn.__module__ == _PLANNER for step in steps):
            # Ray does not keep a checkpoint of such a plan.
            return plan
        check = run.begin(config)
        execution = _Execution(check, EndOfExecution in plan.context.custom_execution_callback_classes)
        plan.context.set_config(_EXECUTION, execution)
        try:
            if (id_type := plan.context.get_config(SEEN_TYPE)) is not None:
                plan.context.remove_config(SEEN_TYPE)
                check.seed(id_type)
            for operator in plan.dag.post_order_iter():
                source = plan.op_map.get(operator)
                if isinstance(source, Read | ReadFiles):
                    _check_input(check, source)
                    _check_reads(check, operator)
        except BaseException:
            execution.end()
            raise
        _check_writes(execution, write, logical)
        return plan


class _Execution:
    """Files that the driver created for an execution and removes at its end."""

    def __init__(self, check: IdCheck, has_end: bool) -> None:
        self.check = check
        self.has_end = has_end
        self.stack = ExitStack()

    def end(self) -> None:
        self.stack.close()
        assert self.check.filesystem is not None
        assert self.check.directory is not None
        run.end(self.check.filesystem, self.check.directory)

    def __reduce__(self) -> tuple[Any, ...]:
        # Contexts are sent to the workers, but an execution ends on the driver.
        return type(None), ()


class EndOfExecution(ExecutionCallback):
    """Ends an execution, whether it succeeds or fails."""

    def after_execution_succeeds(self, executor: Any) -> None:
        """End the execution of this executor, if it has one."""
        context: DataContext = executor._data_context
        execution: _Execution | None = context.get_config(_EXECUTION)
        if execution is not None:
            context.remove_config(_EXECUTION)
            execution.end()

    def after_execution_fails(self, executor: Any, error: Exception) -> None:
        """End it as after a success."""
        self.after_execution_succeeds(executor)


def _check_input(check: IdCheck, source: Read | ReadFiles) -> None:
    """Check the files of a Parquet read; other files are checked while they are read."""
    reads_all_rows = source.get_current_predicate() is None
    if isinstance(source, Read) and isinstance(source.datasource, ParquetDatasource):
        files = source.datasource._pq_paths
        run.check_files(check, source.datasource._filesystem, files, reads_all_rows=reads_all_rows)
    elif isinstance(source, ReadFiles) and isinstance(listing := source.input_dependencies[0], ListFiles):
        filesystem = listing.filesystem or LocalFileSystem()
        files = [file for path in listing.paths for file in _files(filesystem, path, listing.file_extensions)]
        if listing.partition_filter is not None:
            files = listing.partition_filter(files)
        reads_all_rows = reads_all_rows and listing.limit is None and listing.partition_pruner is None
        run.check_files(check, filesystem, files, reads_all_rows=reads_all_rows)


def _files(filesystem: FileSystem, path: str, extensions: list[str] | None) -> list[str]:
    if filesystem.get_file_info(path).type != FileType.Directory:
        return [path]
    found = filesystem.get_file_info(FileSelector(path, recursive=True))
    endings = tuple(f".{extension}" for extension in extensions or ("parquet",))
    return sorted(
        info.path
        for info in found
        if info.type == FileType.File and info.path.endswith(endings) and not info.base_name.startswith((".", "_"))
    )


def _check_reads(check: IdCheck, operator: PhysicalOperator) -> None:
    read = operator.input_dependencies[0] if operator.name == FILTER_NAME else operator
    if isinstance(read, MapOperator):
        first = read.get_map_transformer().get_transform_fns()[0]
        first._fn = _CheckedRead(first._fn, check)


class _CheckedRead:
    """A read that checks its blocks while their files are known."""

    def __init__(self, read: Any, check: IdCheck) -> None:
        self._read = read
        self._check = check

    def __call__(self, inputs: Iterable[Any], *context: Any) -> Iterator[Block]:
        for one in inputs:
            place, row = _place(one), 0
            for block in self._read([one], *context):
                _check_block(self._check, block, place, row)
                row += BlockAccessor.for_block(block).num_rows()
                yield block


def _check_block(check: IdCheck, block: Block, place: str, first_row: int = 0) -> None:
    accessor = BlockAccessor.for_block(block)
    if accessor.num_rows() == 0:
        return
    has_ids = isinstance(accessor, TableBlockAccessor) and check.column in accessor.column_names()
    # Only the ids of a block of pandas are converted.
    ids = BlockAccessor.for_block(accessor.select([check.column])).to_arrow() if has_ids else accessor.to_arrow()
    check.check(ids, place, first_row)


def _place(one: Any) -> str:
    """Return the files of a read task, or of a list of files that a task reads, for messages."""
    metadata = getattr(one, "metadata", None)
    if metadata is not None:
        files = metadata.input_files or []
    else:
        files = one["__path"].to_pylist() if isinstance(one, pa.Table) else list(one["__path"])
    files = list(dict.fromkeys(files))
    if not files:
        return "a block that was read"
    shown = ", ".join(f"`{file}`" for file in files[:3])
    more = f" and {len(files) - 3} more files" if len(files) > 3 else ""
    return shown if len(files) == 1 else f"the rows of {shown}{more}"


def _check_writes(execution: _Execution, write: MapOperator, logical: Write) -> None:
    sink = logical.datasink_or_legacy_datasource
    is_file_sink = isinstance(sink, _FileDatasink)
    landmarks: list[Landmark] = []
    if execution.has_end and _is_local(execution.check.filesystem):
        landmarks.append(Landmark(str(execution.check.directory), "checkpoint"))
    if is_file_sink and execution.has_end and _is_local(sink.filesystem):
        start = write._on_start

        def plant(schema: Any) -> None:
            # Ray creates the directory, or empties it.
            if start is not None:
                start(schema)
            if os.path.isdir(sink.path):  # noqa: PTH112
                landmarks.append(execution.stack.enter_context(planted(sink.path, "output directory")))

        # Tasks are pickled afterwards, with the landmarks that exist then.
        write._on_start = plant
    output = sink.path if is_file_sink else sink.get_name()
    step = _block_step(_CheckedWrite(execution.check, landmarks))
    fns = write.get_map_transformer().get_transform_fns()
    fns[:] = [step, *fns, _block_step(_Located(output))]


def _is_local(filesystem: Any) -> bool:
    if isinstance(filesystem, PyFileSystem) and isinstance(filesystem, RetryingPyFileSystem):
        filesystem = filesystem.unwrap()
    return isinstance(filesystem, LocalFileSystem)


def _block_step(function: Any) -> BlockMapTransformFn:
    return BlockMapTransformFn(function, disable_block_shaping=True)


class _CheckedWrite:
    """The first step of a write: Ray consumes all blocks of the task before it writes the record."""

    def __init__(self, check: IdCheck, landmarks: list[Landmark]) -> None:
        self._check = check
        self._landmarks = landmarks

    def __call__(self, blocks: Iterable[Block], _context: TaskContext) -> Iterator[Block]:
        for landmark in self._landmarks:
            landmark.require()
        try:
            for block in blocks:
                _check_block(self._check, block, "a block to be written")
                yield block
        except OSError as error:
            error.__dict__[_FROM_INPUT] = True
            raise


_FROM_INPUT = "_shardmill_from_input"


class _Located:
    """The last step of a write: adds the node to an error."""

    def __init__(self, output: str) -> None:
        self._output = output

    def __call__(self, blocks: Iterable[Block], _context: TaskContext) -> Iterator[Block]:
        try:
            yield from blocks
        except Error:
            raise
        except OSError as error:
            if error.__dict__.get(_FROM_INPUT):
                raise
            raise located(StorageError(f"Failed to write to `{self._output}`: {error}")) from error
