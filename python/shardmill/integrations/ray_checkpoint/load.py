"""The side of the driver: recovery, and the index that the filters will open."""

from __future__ import annotations

import logging
import pickle
from typing import Any

import ray
from pyarrow.fs import FileSystem
from ray.data import DataContext
from ray.data.checkpoint import CheckpointConfig, CheckpointManager
from ray.data.datasource.path_util import _unwrap_protocol

from shardmill.integrations.ray_checkpoint.index_file import IndexSpec, opened
from shardmill.integrations.ray_checkpoint.recovery import committed_files, undo_uncommitted

logger = logging.getLogger(__name__)

_DEFAULT_MEMORY_BYTES = 1 << 30
# For the check of ids, in the context of a plan: the type of those that are done.
SEEN_TYPE = "shardmill.checkpoint_id_type"


class ShardmillCheckpointManager(CheckpointManager):
    """Recovers after a crash and loads the ids that are done. Ray makes one whenever it plans a read of a job that writes.

    Args:
        checkpoint_config: of :func:`checkpoint_config`, or Ray's own with our two classes in it.
        data_context: of the data set that is planned.
    """

    def __init__(self, checkpoint_config: CheckpointConfig, data_context: DataContext) -> None:
        super().__init__(checkpoint_config=checkpoint_config, data_context=data_context)
        self._config = checkpoint_config
        # Ray has refused a configuration without one.
        self._column = str(checkpoint_config.id_column)
        self._context = data_context

    def load_checkpoint(
        self, data_file_dir: str | None = None, data_file_filesystem: FileSystem | None = None
    ) -> tuple[Any, int]:
        """Undoes what was not committed, then builds the index on this node.

        Args:
            data_file_dir: where the job writes its rows; nothing is undone without it.
            data_file_filesystem: of that folder; that of the checkpoint if nothing is said.

        Returns:
            A reference to a few kilobytes that say what the index holds, and their size: memory for it is reserved by the actors, and an
            index is mapped by all of them at once. ``(None, 0)`` if nothing is done yet.
        """
        if data_file_dir is not None:
            data_filesystem = data_file_filesystem or self.filesystem
            folder = _unwrap_protocol(data_file_dir)
            undo_uncommitted(self.filesystem, self.checkpoint_path_unwrapped, data_filesystem, folder)
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
        from shardmill.integrations.ray_checkpoint import placement
    except ImportError as missing:
        # The rule stands on parts of Ray that other versions may have elsewhere; all else here does not.
        logger.warning("The checkpoint is filtered in actors, because Ray %s has no %s", ray.__version__, missing.name)
        return
    placement.request(context, reference)
