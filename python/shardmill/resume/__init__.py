"""What is already done: exact sets of ids, and what a job remembers between runs."""

from shardmill._unknown_options import explain
from shardmill.resume._checkpoint import Checkpoint
from shardmill.resume._id_index import IdIndex

__all__ = ["Checkpoint", "IdIndex"]

explain(globals(), __all__)
