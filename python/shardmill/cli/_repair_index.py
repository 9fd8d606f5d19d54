"""The command ``shardmill repair-index``."""

from __future__ import annotations

import click

from shardmill.cli._options import limit_option, storage_option


@click.command(name="repair-index")
@click.argument("path", metavar="PATH")
@limit_option
@storage_option
def command(path: str) -> int:
    """Rebuild index.json of a directory of MDS shards. PATH is the directory.

    Every shard is read completely. If a shard is damaged, it is reported and nothing is written.

    \b
    Example:
      shardmill repair-index train/
    """
    from shardmill.data._mds_index import rebuild_index

    shards, samples = rebuild_index(path)
    click.echo(f"{shards:,} shards, {samples:,} samples", err=True)
    return 0
