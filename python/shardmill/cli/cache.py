"""The command ``shardmill cache``."""

from __future__ import annotations

import time

import click

from shardmill.terminal import escape

_folder = click.option("--dir", "folder", metavar="PATH", help="The cache folder; else that of SHARDMILL_CACHE_DIR.")


@click.group(name="cache")
def command() -> None:
    """What was fetched from object stores and is kept on this machine."""


@command.command(name="info")
@_folder
def info(folder: str | None) -> int:
    """List the objects that are kept, the latest used first: bytes on the disk, whole size, minutes since it was used, path.

    \b
    Example:
      shardmill cache info --dir /scratch/cache
    """
    from shardmill.storage import cache_entries

    entries = cache_entries(folder)
    now = time.time()
    for path, kept, size, used in entries:
        click.echo(f"{kept}\t{size}\t{max(now - used, 0) / 60:.0f}\t{escape(path)}")
    click.echo(f"{len(entries):,} objects, {sum(kept for _, kept, *_ in entries):,} bytes", err=True)
    return 0


@command.command(name="clear")
@_folder
def clear(folder: str | None) -> int:
    """Remove everything that is kept. Processes that read from it go on, and fetch what they need.

    \b
    Example:
      shardmill cache clear --dir /scratch/cache
    """
    from shardmill.storage import clear_cache

    click.echo(f"{clear_cache(folder):,} bytes removed", err=True)
    return 0
