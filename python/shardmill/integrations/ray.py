"""The plug-in for Ray Data, under the name where its users look for it."""

from shardmill.integrations.ray_checkpoint import checkpoint_config

__all__ = ["checkpoint_config"]
