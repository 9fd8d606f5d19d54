"""Ray Data resumes its jobs with our index of ids: the plug-in for ``ray.data.checkpoint`` of Ray 2.60.

:func:`checkpoint_config` is what a program sets on its ``DataContext``. Ray goes on to write the checkpoint, and its protocol is as safe as
before; ours are the loading of the ids, the recovery after a crash, and the filter, which runs in the tasks that read. The invariant: a row is
left out only if a committed file of the checkpoint holds its id, and a file is removed only if its write has certainly not been committed.
"""

try:
    from ray.data.checkpoint import CheckpointManager as _CheckpointManager  # noqa: F401 - not in older versions
except ImportError as missing:
    raise ImportError("a checkpoint needs Ray Data 2.60 or newer\nhint: pip install 'ray[data]>=2.60'") from missing

import logging

from shardmill.integrations.ray_checkpoint.config import ShardmillCheckpointConfig, checkpoint_config
from shardmill.integrations.ray_checkpoint.filter import ShardmillCheckpointFilter
from shardmill.integrations.ray_checkpoint.load import ShardmillCheckpointManager

try:
    from shardmill.integrations.ray_checkpoint import checks
except ImportError as missing:
    # The checks stand on parts of Ray that other versions may have elsewhere; the rest does not.
    logging.getLogger(__name__).warning("Ids are checked when a job is resumed, and not before: %s", missing)
else:
    checks.register()

__all__ = [
    "ShardmillCheckpointConfig",
    "ShardmillCheckpointFilter",
    "ShardmillCheckpointManager",
    "checkpoint_config",
]
