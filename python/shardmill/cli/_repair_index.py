"""The command ``shardmill repair-index``."""

from __future__ import annotations

import click

from shardmill._terminal import counted
from shardmill.cli._messages import tell
from shardmill.cli._options import PATH, limit_option, storage_option


@click.command(name="repair-index")
@click.argument("path", type=PATH, metavar="PATH")
@limit_option
@storage_option
def command(path: str) -> int:
    """Rebuild index.json of a directory of MDS shards. PATH is the directory, or its index.json.

    Every shard is read completely. If a shard is damaged, it is reported and nothing is written.

    \b
    Example:
      shardmill repair-index train/
    """
    from shardmill.data._mds_index import rebuild_index

    shards, samples = rebuild_index(_directory_of(path))
    tell(f"{counted(shards, 'shard')}, {counted(samples, 'sample')}")
    return 0


def _directory_of(path: str) -> str:
    """Return the directory of a path that may be its index."""
    parent, _, name = path.rpartition("/")
    return path if name != "index.json" else parent or ("/" if path.startswith("/") else ".")
