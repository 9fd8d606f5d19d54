"""Directories of MDS shards."""

from __future__ import annotations

import os

from shardmill._native import load as _native
from shardmill._threads import checked_threads
from shardmill.storage._paths import served_path


def rebuild_index(path: str | os.PathLike[str], *, threads: int | None = None) -> tuple[int, int]:
    """Rebuild ``index.json`` of a directory from its ``shard.*.mds*`` files.

    The shards are in the order of their numbers. Every shard is read completely, and the hashes
    named in its header are recomputed. The index is replaced atomically; on failure, the old one
    is kept.

    Args:
        path: the directory.
        threads: number of reading threads; the number of cores by default.

    Returns:
        The number of shards and the number of samples in the index.

    Raises:
        ValueError: If a shard is damaged (the message names it), or shards have different columns.
        FileNotFoundError: If the directory does not exist, or has no shard.

    Examples:
        >>> import shardmill as sm
        >>> sm.rebuild_index("train/")  # doctest: +SKIP
        (12, 60000)
    """
    return _native.rebuild_mds_index(served_path(path), threads=max(checked_threads(threads), 1))
