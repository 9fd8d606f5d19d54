"""The configuration: Ray's own, with the classes of shardmill and their options."""

from __future__ import annotations

import inspect
import os
from typing import Any

from ray.data.checkpoint import CheckpointConfig

from shardmill._choices import check_choice
from shardmill._sizes import byte_count
from shardmill._unknown_options import check_options
from shardmill.integrations.ray_checkpoint._filter import ShardmillCheckpointFilter
from shardmill.integrations.ray_checkpoint._load import ShardmillCheckpointManager
from shardmill.resume._checkpoint import NullIds
from shardmill.storage._paths import path_of

# An actor maps a shared index and needs only a block or two besides. Ray's default is 1 GiB.
_ACTOR_MEMORY_BYTES = 64 << 20


class ShardmillCheckpointConfig(CheckpointConfig):
    """What ``checkpoint_config`` returns: Ray's configuration with three more attributes.

    Attributes:
        null_ids: what happens to rows without an id.
        memory_bytes: memory for building the index.
        in_read_tasks: whether the filter runs in the read tasks.
    """

    null_ids: NullIds
    memory_bytes: int
    in_read_tasks: bool


def checkpoint_config(
    *,
    id_column: str,
    checkpoint_path: str | os.PathLike[str],
    null_ids: NullIds = "raise",
    delete_checkpoint_on_success: bool = False,
    memory_bytes: int | str = 1 << 30,
    in_read_tasks: bool = True,
    **ray_options: Any,
) -> ShardmillCheckpointConfig:
    """Create a checkpoint configuration for Ray Data that uses the id index of shardmill.

    Args:
        id_column: a column of the input that still exists when rows are written. Its values
            identify rows.
        checkpoint_path: an absolute path or a URL that all nodes can access.
        null_ids: ``"raise"`` stops at the first row without an id; ``"always_process"`` never
            counts such rows as done.
        delete_checkpoint_on_success: whether Ray removes the checkpoint at the end. A repeated run
            then processes everything again, so the default differs from Ray's.
        memory_bytes: memory for building the index, in bytes or as ``"1GiB"``.
        in_read_tasks: whether the filter runs in the read tasks. Otherwise it runs where Ray puts
            it: in a pool of actors, each of which needs a CPU, and all columns of all rows are sent
            to and from them.
        ray_options: additional options of ``ray.data.checkpoint.CheckpointConfig``.

    Returns:
        The value for ``ray.data.DataContext.get_current().checkpoint_config``.

    Raises:
        OptionError: If an option is not valid.
        TypeError: If neither shardmill nor Ray knows an option.
        ray.data.checkpoint.interfaces.InvalidCheckpointingConfig: If Ray refuses the value of an
            option.

    Examples:
        >>> import os
        >>> from shardmill.integrations.ray_checkpoint import checkpoint_config
        >>> path = os.path.abspath("checkpoint")
        >>> config = checkpoint_config(id_column="id", checkpoint_path=path)
        >>> config.checkpoint_filter_cls.__name__, config.delete_checkpoint_on_success
        ('ShardmillCheckpointFilter', False)
    """
    options = [checkpoint_config, CheckpointConfig]
    check_options(
        "checkpoint_config",
        ray_options,
        [name for of in options for name in inspect.signature(of).parameters],
    )
    check_choice("null_ids", null_ids, NullIds)
    memory = byte_count(memory_bytes, "memory_bytes")
    classes = {
        "checkpoint_filter_cls": ShardmillCheckpointFilter,
        "checkpoint_manager_cls": ShardmillCheckpointManager,
    }
    config = ShardmillCheckpointConfig(
        id_column,
        path_of(checkpoint_path),
        delete_checkpoint_on_success=delete_checkpoint_on_success,
        **classes | ray_options,
    )
    config.null_ids = null_ids
    config.memory_bytes = memory
    config.in_read_tasks = in_read_tasks
    config.checkpoint_actor_memory_bytes = _ACTOR_MEMORY_BYTES
    return config
