"""The command ``shardmill cache``."""

from __future__ import annotations

import time

import click

from shardmill._terminal import escape

_directory = click.option(
    "--dir", "directory", metavar="PATH", help="The cache directory; default: SHARDMILL_CACHE_DIR."
)


@click.group(name="cache")
def command() -> None:
    """Manage objects fetched from object stores and cached on this machine."""


@command.command(name="info")
@_directory
def info(directory: str | None) -> int:
    """List the cached objects, most recently used first: bytes on disk, full size, minutes since last use, path.

    \b
    Example:
      shardmill cache info --dir /scratch/cache
    """
    from shardmill.storage._cache import cache_entries

    entries = cache_entries(directory)
    now = time.time()
    for path, kept, size, used in entries:
        click.echo(f"{kept}\t{size}\t{max(now - used, 0) / 60:.0f}\t{escape(path)}")
    click.echo(f"{len(entries):,} objects, {sum(kept for _, kept, *_ in entries):,} bytes", err=True)
    return 0


@command.command(name="clear")
@_directory
def clear(directory: str | None) -> int:
    """Remove all cached objects. Running processes continue, and fetch what they need again.

    \b
    Example:
      shardmill cache clear --dir /scratch/cache
    """
    from shardmill.storage._cache import clear_cache

    click.echo(f"{clear_cache(directory):,} bytes removed", err=True)
    return 0
