"""The driver: recovery, and the index that the filters open."""

from __future__ import annotations

import pickle
from copy import copy
from typing import Any

import ray
from pyarrow.fs import FileSystem
from ray.data import DataContext
from ray.data.checkpoint import CheckpointConfig, CheckpointManager

from shardmill.integrations.ray_checkpoint._index_file import IndexSpec, opened
from shardmill.integrations.ray_checkpoint._recovery import committed_files, undo_uncommitted

_DEFAULT_MEMORY_BYTES = 1 << 30
# Key in the context of a plan: the type of the ids that are done, for the id check.
SEEN_TYPE = "shardmill.checkpoint_id_type"


class ShardmillCheckpointManager(CheckpointManager):
    """Recover after a crash and load the ids that are done.

    Ray creates a manager whenever it plans a read of a job that writes.

    Args:
        checkpoint_config: the return value of ``checkpoint_config``, or Ray's own config with the
            two classes of shardmill.
        data_context: context of the planned data set.
    """

    def __init__(self, checkpoint_config: CheckpointConfig, data_context: DataContext) -> None:
        super().__init__(checkpoint_config=checkpoint_config, data_context=data_context)
        self._config = checkpoint_config
        self._context = data_context

    def load_checkpoint(
        self, data_file_dir: str | None = None, data_file_filesystem: FileSystem | None = None
    ) -> tuple[Any, int]:
        """Undo what was not committed, then build the index on this node.

        Args:
            data_file_dir: output directory of the job; without it nothing is undone.
            data_file_filesystem: file system of that directory; by default that of the checkpoint.

        Returns:
            A reference to a few kilobytes that describe the index, and their size: actors reserve
                memory for it, while the
            index itself is mapped by all of them at once. ``(None, 0)`` if nothing is done yet.
        """
        checkpoint = self.checkpoint_path_unwrapped
        if data_file_dir is not None:
            directory = self._path_in(data_file_dir)
            undo_uncommitted(
                self.filesystem, checkpoint, data_file_filesystem or self.filesystem, directory
            )
        files = committed_files(self.filesystem, checkpoint, self.checkpoint_path_partition_filter)
        if not files:
            return None, 0
        # Ray rejects a configuration without an id column.
        memory_bytes = getattr(self._config, "memory_bytes", _DEFAULT_MEMORY_BYTES)
        spec = IndexSpec.of(self.checkpoint_path, str(self.id_column), files, memory_bytes)
        self._context.set_config(SEEN_TYPE, opened(spec, self.filesystem).id_type)
        return ray.put(spec), len(pickle.dumps(spec))

    def _path_in(self, url: str) -> str:
        # The function of Ray that takes the path out of a URL is public only for checkpoints.
        config = copy(self._config)
        config.checkpoint_path = url
        return CheckpointManager(config, self._context).checkpoint_path_unwrapped
