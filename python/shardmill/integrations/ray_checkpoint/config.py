"""The configuration: Ray's own, with our classes in it and the options that they need."""

from __future__ import annotations

import os
from typing import Any, Literal, get_args

from ray.data.checkpoint import CheckpointConfig

from shardmill.errors import OptionError
from shardmill.integrations.ray_checkpoint.filter import ShardmillCheckpointFilter
from shardmill.integrations.ray_checkpoint.load import ShardmillCheckpointManager
from shardmill.storage import path_of

NullIds = Literal["error", "always_process"]

# An actor maps an index that all share; what it needs besides is a block or two. Ray's default is 1 GiB.
_ACTOR_MEMORY_BYTES = 64 << 20


class ShardmillCheckpointConfig(CheckpointConfig):
    """What :func:`checkpoint_config` returns: Ray's configuration with four more attributes.

    Attributes:
        null_ids: What becomes of rows without an id.
        memory_bytes: Memory that building the index may take.
        in_read_tasks: Whether the filter runs in the tasks that read.
    """

    null_ids: NullIds
    memory_bytes: int
    in_read_tasks: bool


def checkpoint_config(
    *,
    id_column: str,
    checkpoint_path: str | os.PathLike[str],
    null_ids: NullIds = "error",
    delete_checkpoint_on_success: bool = False,
    memory_bytes: int = 1 << 30,
    in_read_tasks: bool = True,
    **ray_options: Any,
) -> ShardmillCheckpointConfig:
    """A checkpoint for Ray Data whose ids are in our index.

    Args:
        id_column: a column that is in the input and is still there when rows are written. Its values tell rows apart.
        checkpoint_path: an absolute path or a URL that all nodes reach.
        null_ids: ``"error"`` stops at the first row without an id; ``"always_process"`` takes such rows as never done.
        delete_checkpoint_on_success: whether Ray removes the checkpoint at the end. A repeated run then does everything again, which is why
            the default is not Ray's.
        memory_bytes: memory that building the index may take.
        in_read_tasks: whether the filter runs in the tasks that read. Otherwise it runs where Ray puts it: in a pool of actors, each of which
            needs a CPU, and to and from which all columns of all rows travel.
        ray_options: further options of ``ray.data.checkpoint.CheckpointConfig``.

    Returns:
        The value for ``ray.data.DataContext.get_current().checkpoint_config``.

    Raises:
        OptionError: an option of ours means nothing.
        TypeError: Ray does not know an option.
        ray.data.checkpoint.interfaces.InvalidCheckpointingConfig: Ray refuses the value of an option.

    Example:
        >>> import os
        >>> from shardmill.integrations.ray_checkpoint import checkpoint_config
        >>> config = checkpoint_config(id_column="id", checkpoint_path=os.path.abspath("checkpoint"))
        >>> config.checkpoint_filter_cls.__name__, config.delete_checkpoint_on_success
        ('ShardmillCheckpointFilter', False)
    """
    if null_ids not in get_args(NullIds):
        raise OptionError(f"null_ids is {null_ids!r}\nhint: it can be {' or '.join(map(repr, get_args(NullIds)))}")
    if memory_bytes <= 0:
        raise OptionError(f"memory_bytes is {memory_bytes}\nhint: it is a number of bytes above zero")
    classes = {"checkpoint_filter_cls": ShardmillCheckpointFilter, "checkpoint_manager_cls": ShardmillCheckpointManager}
    config = ShardmillCheckpointConfig(
        id_column,
        path_of(checkpoint_path),
        delete_checkpoint_on_success=delete_checkpoint_on_success,
        **classes | ray_options,
    )
    config.null_ids = null_ids
    config.memory_bytes = memory_bytes
    config.in_read_tasks = in_read_tasks
    config.checkpoint_actor_memory_bytes = _ACTOR_MEMORY_BYTES
    return config
