"""What is already done: exact sets of ids, and what a job remembers between runs."""

from shardmill.resume.checkpoint import Checkpoint
from shardmill.resume.id_index import IdIndex

__all__ = ["Checkpoint", "IdIndex"]
