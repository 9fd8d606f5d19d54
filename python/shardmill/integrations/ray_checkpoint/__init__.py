"""A plug-in for ``ray.data.checkpoint`` of Ray 2.60.

Ray Data jobs resume with the id index of shardmill. ``checkpoint_config`` returns the value to set
on a ``DataContext``. Ray still writes the checkpoint, with the guarantees of its protocol.
shardmill loads the ids, recovers after a crash, and filters in the tasks that read. Invariant: a
row is skipped only if a committed file of the checkpoint has its id, and a file is removed only if
its write was certainly not committed.
"""

try:
    # Not in older versions.
    from ray.data.checkpoint import CheckpointManager as _CheckpointManager  # noqa: F401
except ImportError as missing:
    raise ImportError(
        "a checkpoint needs Ray Data 2.60 or newer\nhint: pip install 'ray[data]>=2.60'"
    ) from missing

import logging

from shardmill.integrations.ray_checkpoint._config import (
    ShardmillCheckpointConfig,
    checkpoint_config,
)
from shardmill.integrations.ray_checkpoint._filter import ShardmillCheckpointFilter
from shardmill.integrations.ray_checkpoint._load import ShardmillCheckpointManager

try:
    from shardmill.integrations.ray_checkpoint import _plan as plan
except ImportError as missing:
    # It depends on Ray internals that other versions may have moved; the rest does not.
    logging.getLogger(__name__).warning(
        "Ids are checked only when a job is resumed, and the checkpoint is filtered in actors: %s",
        missing,
    )
else:
    plan.register()

__all__ = [
    "ShardmillCheckpointConfig",
    "ShardmillCheckpointFilter",
    "ShardmillCheckpointManager",
    "checkpoint_config",
]
