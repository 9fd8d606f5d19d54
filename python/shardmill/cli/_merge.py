"""The command ``shardmill merge``."""

from __future__ import annotations

import click

from shardmill._terminal import counted
from shardmill.cli._messages import tell
from shardmill.cli._options import paths_argument, storage_option


@click.command(name="merge")
@paths_argument("OUT [PART]...")
@storage_option
def command(paths: tuple[str, ...]) -> None:
    """Merge parts that were written separately into the data set OUT.

    PARTs that are Megatron-LM pairs are copied into the pair OUT, in the given order. Other PARTs
    are directories below OUT; the default is all of them. Their files stay in place. If the PARTs
    have indexes, OUT gets an index of all shards. See sm.merge.

    \b
    Example:
      shardmill merge corpus part0 part1 part2
      shardmill merge train/
    """
    from shardmill import merge

    out, *parts = paths
    files = merge(out, parts or None)
    tell(f"{counted(len(files), 'file')} in {out}")
