"""The filter in the workers: it removes rows whose id is done from a block."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import ray
from ray.data.block import Block, BlockAccessor
from ray.data.checkpoint import CheckpointConfig, CheckpointFilter

from shardmill.integrations.ray_checkpoint._ids import IdCheck
from shardmill.integrations.ray_checkpoint._index_file import done_in, opened, rows_left


class ShardmillCheckpointFilter(CheckpointFilter):
    """Remove rows whose id is in the index of the checkpoint.

    Args:
        config: the return value of ``checkpoint_config``, or Ray's own config with the two classes
            of shardmill.
        checkpoint_ref: the return value of ``ShardmillCheckpointManager``.
    """

    def __init__(self, config: CheckpointConfig, checkpoint_ref: Any) -> None:
        super().__init__(config, checkpoint_ref)
        self._index = opened(ray.get(checkpoint_ref), config.filesystem)
        self._check = IdCheck.of(config)

    def filter_rows_for_block(self, block: Block) -> pa.Table:
        """Return the rows that remain to be processed.

        Only the id column is converted, to Arrow: an integer id next to a null stays an integer.

        Args:
            block: an Arrow or pandas table.

        Returns:
            The block itself, if none of its rows is done.

        Raises:
            MissingColumnError: If the block does not have the id column.
            FormatError: If a row has no id, and ``null_ids`` is ``"raise"``.
            TypeError: If the type of the ids differs from that of the checkpoint.
        """
        table = block if isinstance(block, pa.Table) else BlockAccessor.for_block(block).to_arrow()
        if table.num_rows == 0:
            return table
        return rows_left(table, self._is_done(table))

    def _is_done(self, table: pa.Table) -> pa.BooleanArray:
        self._check.check(table, "a block")
        ids = table[self._check.column]
        if ids.null_count == len(ids):
            return pa.repeat(pa.scalar(False), len(ids))
        return done_in(self._index, ids)
