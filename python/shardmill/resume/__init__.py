"""What is already done: exact sets of ids."""

from shardmill.resume.id_index import IdIndex

__all__ = ["IdIndex"]
