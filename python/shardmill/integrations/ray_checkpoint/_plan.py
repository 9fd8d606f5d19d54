"""What this checkpoint changes in a plan of Ray Data: checks of ids and directories, the filter.

* Input files are checked before the job starts, rows when they are read, and rows before they are
  written.
* Ray plans the filter as a pool of actors. Each holds a CPU for the whole job, so a job on two CPUs
  with one callable class of its own has none left for reading, and all columns of all rows are sent
  to the actors and back. Here the filter becomes a step of the read tasks. A plan with another
  structure keeps the actors.

This is the only module that uses private names of Ray. ``CheckpointConfig`` accepts classes for the
filter and for the manager, but Ray has no public place for checks, and none for a filter outside of
actors. It was run on Ray 2.60.0.
Invariant: a plan that does not filter with this checkpoint is not modified.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pyarrow as pa
from pyarrow.fs import LocalFileSystem
from ray.data import DataContext
from ray.data._internal.datasource.parquet_datasource import ParquetDatasource
from ray.data._internal.datasource_v2.common.listing_utils import _build_pruners
from ray.data._internal.execution.execution_callback import ExecutionCallback
from ray.data._internal.execution.operators.map_operator import MapOperator
from ray.data._internal.logical.interfaces import Rule
from ray.data._internal.logical.operators import ListFiles, Read, ReadFiles, Write
from ray.data._internal.logical.optimizers import get_physical_ruleset
from ray.data.block import Block, BlockAccessor
from ray.data.checkpoint import CheckpointManager
from ray.data.datasource.file_datasink import _FileDatasink

from shardmill.errors import Error, StorageError
from shardmill.integrations._landmark import Landmark, located, planted
from shardmill.integrations.ray_checkpoint import _run as run
from shardmill.integrations.ray_checkpoint._filter import ShardmillCheckpointFilter
from shardmill.integrations.ray_checkpoint._ids import IdCheck
from shardmill.integrations.ray_checkpoint._load import SEEN_TYPE

logger = logging.getLogger(__name__)

_EXECUTION = "shardmill.checkpoint_execution"
_FILTER_NAME = "CheckpointFilter"
_PLANNER = "ray.data._internal.planner.checkpoint.plan_write_op"
_RULES_OF_RAY = list(get_physical_ruleset())


def register() -> None:
    """Add the rule to Ray's set, and the callback to the context that data sets copy."""
    get_physical_ruleset().add(CheckpointSteps)
    DataContext.get_current().custom_execution_callback_classes.append(EndOfExecution)


class CheckpointSteps(Rule):
    """Add the checks to a plan that writes with this checkpoint, and filter in its read tasks."""

    @classmethod
    def dependents(cls) -> list[type[Rule]]:
        """Return the rules that expect the operators that this one leaves, or replace them."""
        return _RULES_OF_RAY

    def apply(self, plan: Any) -> Any:
        """Check the input files, and return the plan with its new steps.

        Raises:
            shardmill.IdTypeError: If the ids of a file have a type that this job cannot use.
            shardmill.FormatError: If a row of a file has no id.
        """
        config, write = plan.context.checkpoint_config, plan.dag
        if config is None or not issubclass(
            config.checkpoint_filter_cls or object, ShardmillCheckpointFilter
        ):
            return plan
        if getattr(config, "in_read_tasks", True):
            for operator in list(write.post_order_iter()):
                inputs = operator.input_dependencies
                # The fusion rule, which runs after this one, sets the links in the other direction.
                operator._input_dependencies = [
                    _without_filter(before, plan.op_map) for before in inputs
                ]
        # Ray does not keep a checkpoint of other plans.
        if isinstance(plan.op_map.get(write), Write) and any(
            step._fn.__module__ == _PLANNER
            for step in write.get_map_transformer().get_transform_fns()
        ):
            _add_checks(plan)
        return plan


def _without_filter(operator: Any, op_map: dict[Any, Any]) -> Any:
    if operator.name != _FILTER_NAME or not isinstance(
        read := operator.input_dependencies[0], MapOperator
    ):
        return operator
    (step,) = operator.get_map_transformer().get_transform_fns()
    step._fn = partial(_filtered, step._fn)
    read.get_map_transformer().add_transform_fns([step])
    op_map.pop(operator, None)
    logger.info("The checkpoint is filtered in the tasks of %s", read.name)
    return read


def _filtered(function: Any, blocks: Iterable[Block], *context: Any) -> Iterable[Block]:
    # Actors do this once. In a task it costs nothing if the index is already mapped.
    function.init_checkpoint_filter()
    return function(blocks, *context)


class _Execution(ExitStack):
    """Files that the driver created for an execution and removes at its end."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Contexts are sent to the workers, but an execution ends on the driver.
        return type(None), ()


class EndOfExecution(ExecutionCallback):
    """Ends an execution, whether it succeeds or fails."""

    def after_execution_succeeds(self, executor: Any) -> None:
        """End the execution of this executor, if it has one."""
        execution: _Execution | None = executor._data_context.get_config(_EXECUTION)
        if execution is not None:
            execution.close()

    def after_execution_fails(self, executor: Any, error: Exception) -> None:
        """End it as after a success."""
        self.after_execution_succeeds(executor)


def _add_checks(plan: Any) -> None:
    context, config = plan.context, plan.context.checkpoint_config
    directory = CheckpointManager(config, context).checkpoint_path_unwrapped
    with _Execution() as checked:
        check = checked.enter_context(run.execution(config, directory))
        if (id_type := context.get_config(SEEN_TYPE)) is not None:
            context.remove_config(SEEN_TYPE)
            check.seed(id_type)
        for operator in plan.dag.post_order_iter():
            source = plan.op_map.get(operator)
            # Ray's own input of a read, and a filter in actors, belong to the same source.
            is_read = isinstance(operator, MapOperator) and operator.name != _FILTER_NAME
            if is_read and isinstance(source, Read | ReadFiles):
                _check_input(check, source)
                step = operator.get_map_transformer().get_transform_fns()[0]
                step._fn = partial(_checked_read, check, step._fn)
        execution = checked.pop_all()
    context.set_config(_EXECUTION, execution)
    _check_writes(plan, check, execution)


def _check_input(check: IdCheck, source: Read | ReadFiles) -> None:
    """Check the files of a Parquet read; other files are checked while they are read."""
    reads_all_rows = source.get_current_predicate() is None
    if isinstance(source, Read) and isinstance(source.datasource, ParquetDatasource):
        filesystem, files = source.datasource._filesystem, source.datasource._pq_paths
    elif isinstance(source, ReadFiles) and isinstance(
        listing := source.input_dependencies[0], ListFiles
    ):
        if (filesystem := listing.filesystem) is None:
            return
        pruners = _build_pruners(
            listing.file_extensions, listing.partition_filter, listing.partition_pruner
        )
        found = listing.file_indexer.list_file_infos(
            pa.array(listing.paths), filesystem=filesystem, pruners=pruners
        )
        files = [file.path for file in found]
        reads_all_rows = (
            reads_all_rows and listing.limit is None and listing.partition_pruner is None
        )
    else:
        return
    run.check_files(check, filesystem, files, reads_all_rows=reads_all_rows)


def _checked_read(
    check: IdCheck, read: Any, inputs: Iterable[Any], *context: Any
) -> Iterator[Block]:
    """Check the blocks of a read while their files are known."""
    for one in inputs:
        place, row = _place(one), 0
        for block in read([one], *context):
            _check_block(check, block, place, row)
            row += BlockAccessor.for_block(block).num_rows()
            yield block


def _check_block(check: IdCheck, block: Block, place: str, first_row: int = 0) -> None:
    accessor = BlockAccessor.for_block(block)
    if accessor.num_rows() == 0:
        return
    if check.column in accessor.schema().names:
        # Only the ids of a block of pandas are converted.
        accessor = BlockAccessor.for_block(accessor.select([check.column]))
    check.check(accessor.to_arrow(), place, first_row)


def _place(one: Any) -> str:
    """Return the files of a read task, or of a list of files, for messages."""
    if (metadata := getattr(one, "metadata", None)) is not None:
        files = metadata.input_files or []
    else:
        files = BlockAccessor.for_block(one).to_arrow()["__path"].to_pylist()
    files = list(dict.fromkeys(files))
    if not files:
        return "a block that was read"
    shown = ", ".join(f"`{file}`" for file in files[:3])
    more = f" and {len(files) - 3} more files" if len(files) > 3 else ""
    return shown if len(files) == 1 else f"the rows of {shown}{more}"


def _check_writes(plan: Any, check: IdCheck, execution: _Execution) -> None:
    write, sink = plan.dag, plan.op_map[plan.dag].datasink_or_legacy_datasource
    is_file_sink = isinstance(sink, _FileDatasink)
    landmarks: list[Landmark] = []
    # Without the callback, nothing would remove them.
    if EndOfExecution in plan.context.custom_execution_callback_classes:
        if _is_local(check.filesystem):
            landmarks.append(Landmark(str(check.directory), "checkpoint"))
        if is_file_sink and _is_local(sink.filesystem):
            start = write._on_start

            def plant(schema: Any) -> None:
                # Ray creates the directory, or empties it.
                start(schema)
                if os.path.isdir(sink.path):  # noqa: PTH112
                    landmarks.append(
                        execution.enter_context(planted(sink.path, "output directory"))
                    )

            # Tasks are pickled afterwards, with the landmarks that exist then.
            write._on_start = plant
    first, *_, last = write.get_map_transformer().get_transform_fns()
    first._fn = partial(_checked_write, check, landmarks, first._fn)
    last._fn = partial(_located_write, sink.path if is_file_sink else sink.get_name(), last._fn)


def _is_local(filesystem: Any) -> bool:
    # Ray wraps the file system of a sink.
    unwrapped = filesystem.unwrap() if hasattr(filesystem, "unwrap") else filesystem
    return isinstance(unwrapped, LocalFileSystem)


_FROM_INPUT = "_shardmill_from_input"


def _checked_write(
    check: IdCheck, landmarks: list[Landmark], step: Any, blocks: Iterable[Block], *context: Any
) -> Iterable[Block]:
    """Check all blocks of a task, which Ray consumes before it writes the record."""
    for landmark in landmarks:
        landmark.require()

    def checked() -> Iterator[Block]:
        try:
            for block in blocks:
                _check_block(check, block, "a block to be written")
                yield block
        except OSError as error:
            error.__dict__[_FROM_INPUT] = True
            raise

    return step(checked(), *context)


def _located_write(
    output: str, step: Any, blocks: Iterable[Block], *context: Any
) -> Iterator[Block]:
    """Add the node to an error of any step of a write."""
    try:
        yield from step(blocks, *context)
    except Error:
        raise
    except OSError as error:
        if error.__dict__.get(_FROM_INPUT):
            raise
        raise located(StorageError(f"Failed to write to `{output}`: {error}")) from error
