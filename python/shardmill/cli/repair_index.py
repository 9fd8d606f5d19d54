"""The command ``shardmill repair-index``."""

from __future__ import annotations

import click

from shardmill.cli.options import limit_option, storage_option


@click.command(name="repair-index")
@click.argument("path", metavar="PATH")
@limit_option
@storage_option
def command(path: str) -> int:
    """Make index.json of a folder of MDS shards anew. PATH is the folder.

    Every shard is read completely. A damaged one is named, and nothing is written.

    \b
    Example:
      shardmill repair-index train/
    """
    from shardmill.mds import rebuild_index

    shards, samples = rebuild_index(path)
    click.echo(f"{shards:,} shards, {samples:,} samples", err=True)
    return 0
