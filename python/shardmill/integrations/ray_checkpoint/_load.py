"""The driver: recovery, and the index that the filters open."""

from __future__ import annotations

import logging
import pickle
from typing import Any

import ray
from pyarrow.fs import FileSystem
from ray.data import DataContext
from ray.data.checkpoint import CheckpointConfig, CheckpointManager
from ray.data.datasource.path_util import _unwrap_protocol

from shardmill.integrations.ray_checkpoint._index_file import IndexSpec, opened
from shardmill.integrations.ray_checkpoint._recovery import committed_files, undo_uncommitted

logger = logging.getLogger(__name__)

_DEFAULT_MEMORY_BYTES = 1 << 30
# Key in the context of a plan: the type of the ids that are done, for the id check.
SEEN_TYPE = "shardmill.checkpoint_id_type"


class ShardmillCheckpointManager(CheckpointManager):
    """Recover after a crash and load the ids that are done. Ray creates a manager whenever it plans a read of a job that writes.

    Args:
        checkpoint_config: the return value of ``checkpoint_config``, or Ray's own config with the two classes of shardmill.
        data_context: context of the planned data set.
    """

    def __init__(self, checkpoint_config: CheckpointConfig, data_context: DataContext) -> None:
        super().__init__(checkpoint_config=checkpoint_config, data_context=data_context)
        self._config = checkpoint_config
        # Ray rejects a configuration without one.
        self._column = str(checkpoint_config.id_column)
        self._context = data_context

    def load_checkpoint(
        self, data_file_dir: str | None = None, data_file_filesystem: FileSystem | None = None
    ) -> tuple[Any, int]:
        """Undo what was not committed, then build the index on this node.

        Args:
            data_file_dir: output directory of the job; without it nothing is undone.
            data_file_filesystem: file system of that directory; by default that of the checkpoint.

        Returns:
            A reference to a few kilobytes that describe the index, and their size: actors reserve memory for it, while the
            index itself is mapped by all of them at once. ``(None, 0)`` if nothing is done yet.
        """
        if data_file_dir is not None:
            data_filesystem = data_file_filesystem or self.filesystem
            directory = _unwrap_protocol(data_file_dir)
            undo_uncommitted(self.filesystem, self.checkpoint_path_unwrapped, data_filesystem, directory)
        files = committed_files(self.filesystem, self.checkpoint_path_unwrapped, self.checkpoint_path_partition_filter)
        if not files:
            return None, 0
        memory_bytes = getattr(self._config, "memory_bytes", _DEFAULT_MEMORY_BYTES)
        spec = IndexSpec.of(self.checkpoint_path, self._column, files, memory_bytes)
        self._context.set_config(SEEN_TYPE, opened(spec, self.filesystem).id_type)
        reference = ray.put(spec)
        if getattr(self._config, "in_read_tasks", True):
            _request_read_tasks(self._context, reference)
        return reference, len(pickle.dumps(spec))


def _request_read_tasks(context: DataContext, reference: Any) -> None:
    try:
        from shardmill.integrations.ray_checkpoint import _placement as placement
    except ImportError as missing:
        # The rule depends on Ray internals that other versions may have moved; the rest does not.
        logger.warning("The checkpoint is filtered in actors, because Ray %s has no %s", ray.__version__, missing.name)
        return
    placement.request(context, reference)
