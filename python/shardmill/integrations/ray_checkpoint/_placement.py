"""Where the filter runs: in the read tasks instead of in actors after them.

Ray plans the filter as a pool of actors. Each holds a CPU for the whole job, so a job on two CPUs with one callable class of its own has
none left for reading, and all columns of all rows are sent to the actors and back. A rule in Ray's physical rule set, which is an extension
point, moves the filter to where its input is produced. Invariant: a plan without this filter is not modified, and a plan with an
unexpected structure stays as Ray made it; then the actors filter.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any

from ray.data import DataContext
from ray.data._internal.execution.interfaces import PhysicalOperator, TaskContext
from ray.data._internal.execution.operators.actor_pool_map_operator import ActorPoolMapOperator
from ray.data._internal.execution.operators.map_transformer import BlockMapTransformFn
from ray.data._internal.execution.operators.task_pool_map_operator import TaskPoolMapOperator
from ray.data._internal.logical.interfaces import PhysicalPlan, Rule
from ray.data._internal.logical.optimizers import get_physical_ruleset
from ray.data._internal.logical.rules import FuseOperators, InheritTargetMaxBlockSizeRule, SetReadParallelismRule
from ray.data._internal.output_buffer import OutputBlockSizeOption
from ray.data.block import Block
from ray.data.checkpoint import CheckpointConfig

from shardmill.integrations.ray_checkpoint._filter import ShardmillCheckpointFilter

logger = logging.getLogger(__name__)

_REQUEST = "shardmill.checkpoint_filter_in_read_tasks"
FILTER_NAME = "CheckpointFilter"


def request(context: DataContext, reference: Any) -> None:
    """Request filtering in the read tasks of the plan of ``context``, by a filter that is created from ``reference``."""
    if FilterInReadTasks not in set(get_physical_ruleset()):
        get_physical_ruleset().add(FilterInReadTasks)
    context.set_config(_REQUEST, reference)


class FilterInReadTasks(Rule):
    """Fuse the filter into the operator before it."""

    @classmethod
    def dependents(cls) -> list[type[Rule]]:
        """Return the rules that must see the final plan."""
        return [InheritTargetMaxBlockSizeRule, SetReadParallelismRule, FuseOperators]

    def apply(self, plan: PhysicalPlan) -> PhysicalPlan:  # pyright: ignore[reportIncompatibleMethodOverride] - as Ray's own
        """Return the plan without the filter actors."""
        reference = plan.context.get_config(_REQUEST)
        if reference is None:
            return plan
        op_map = dict(plan.op_map)
        for operator in list(plan.dag.post_order_iter()):
            operator._input_dependencies = [
                _merged(before, plan.context, reference, op_map) for before in operator.input_dependencies
            ]
        plan.context.remove_config(_REQUEST)
        return PhysicalPlan(plan.dag, op_map, plan.context)


def _merged(
    operator: PhysicalOperator, context: DataContext, reference: Any, op_map: dict[PhysicalOperator, Any]
) -> PhysicalOperator:
    if not isinstance(operator, ActorPoolMapOperator) or operator.name != FILTER_NAME:
        return operator
    (read,), config = operator.input_dependencies, context.checkpoint_config
    if not isinstance(read, TaskPoolMapOperator) or config is None:
        return operator
    shape = OutputBlockSizeOption.of(target_max_block_size=context.target_max_block_size)
    step = BlockMapTransformFn(_FilterStep(config, reference), output_block_size_option=shape)
    read.get_map_transformer().add_transform_fns([step])
    # Same as in Ray's own rules; the fusion rule, which runs after this one, sets the links in the other direction.
    op_map.pop(operator, None)
    logger.info("The checkpoint is filtered in the tasks of %s", read.name)
    return read


class _FilterStep:
    """A step of a task. Its filter is created in the task: opening an index that is already mapped costs nothing."""

    def __init__(self, config: CheckpointConfig, reference: Any) -> None:
        self._config = config
        self._reference = reference

    def __call__(self, blocks: Iterable[Block], _context: TaskContext) -> Iterator[Block]:
        filter_class = self._config.checkpoint_filter_cls or ShardmillCheckpointFilter
        done = filter_class(self._config, self._reference)
        for block in blocks:
            left = done.filter_rows_for_block(block)
            if left.num_rows > 0:
                yield left
