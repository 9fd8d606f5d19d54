"""The side of the workers: rows whose id is done are left out of a block."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import ray
from ray.data.block import Block, BlockAccessor
from ray.data.checkpoint import CheckpointConfig, CheckpointFilter

from shardmill.integrations.ray_checkpoint.ids import IdCheck
from shardmill.integrations.ray_checkpoint.index_file import opened


class ShardmillCheckpointFilter(CheckpointFilter):
    """Leaves out rows whose id is in the index of the checkpoint.

    Args:
        config: of :func:`checkpoint_config`, or Ray's own with our two classes in it.
        checkpoint_ref: what :class:`ShardmillCheckpointManager` returned.
    """

    def __init__(self, config: CheckpointConfig, checkpoint_ref: Any) -> None:
        super().__init__(config, checkpoint_ref)
        self._index = opened(ray.get(checkpoint_ref), config.filesystem)
        allows_nulls = getattr(config, "null_ids", "error") == "always_process"
        self._check = IdCheck(str(config.id_column), allows_nulls)

    def filter_rows_for_block(self, block: Block) -> pa.Table:
        """The rows that are still to do.

        Only the column of ids is looked at, and as Arrow holds it: an id that stands beside a null stays the integer that it is.

        Args:
            block: a table of Arrow or of pandas.

        Returns:
            The block itself, if it has no row that is done.

        Raises:
            MissingColumnError: the block has no column of this name.
            FormatError: a row has no id, and ``null_ids`` is ``"error"``.
            TypeError: the ids have another type than those of the checkpoint.
        """
        table = block if isinstance(block, pa.Table) else BlockAccessor.for_block(block).to_arrow()
        if table.num_rows == 0:
            return table
        is_done = self._is_done(table)
        done = is_done.true_count
        if done == 0:
            return table
        return table.slice(0, 0) if done == table.num_rows else table.filter(pc.call_function("invert", [is_done]))

    def _is_done(self, table: pa.Table) -> pa.BooleanArray:
        self._check.check(table, "a block")
        ids = table[str(self.id_column)]
        if ids.null_count == len(ids):
            return pa.repeat(pa.scalar(False), len(ids))
        found = self._index.contains(ids)
        return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
