"""Folders of MDS shards."""

from __future__ import annotations

import os

from shardmill._native import load as _native
from shardmill.storage import served_path
from shardmill.threads import checked_threads


def rebuild_index(path: str | os.PathLike[str], *, threads: int | None = None) -> tuple[int, int]:
    """Makes ``index.json`` of a folder anew from the files ``shard.*.mds*`` in it.

    Every shard is read completely, and the hashes that its own head names are computed again. The index appears whole, or
    the old one stays.

    Args:
        path: the folder.
        threads: that read shards; as many as there are cores when ``None``.

    Returns:
        How many shards and how many samples the index lists.

    Raises:
        ValueError: for a shard that is damaged, which is named, and for shards of different columns.
        FileNotFoundError: when there is no such folder.

    Example:
        >>> import shardmill as sm
        >>> sm.rebuild_index("train/")  # doctest: +SKIP
        (12, 60000)
    """
    return _native.rebuild_mds_index(served_path(path), threads=max(checked_threads(threads), 1))
