"""Ray Data with the readers, the writers and the id index of shardmill."""

from shardmill.integrations.ray_checkpoint import checkpoint_config
from shardmill.integrations.ray_data._read import read
from shardmill.integrations.ray_data._write import write

__all__ = ["checkpoint_config", "read", "write"]
