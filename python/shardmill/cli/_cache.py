"""The command ``shardmill cache``."""

from __future__ import annotations

import os
import time

import click

from shardmill._terminal import counted, escape

_directory = click.option(
    "--dir", "cache_dir", metavar="PATH", help="The cache directory; default: SHARDMILL_CACHE_DIR."
)


def _named(cache_dir: str | None) -> str:
    """Return the directory that is given by the option or the environment."""
    from shardmill.errors import OptionError

    if named := cache_dir or os.environ.get("SHARDMILL_CACHE_DIR"):
        return named
    raise OptionError("there is no cache directory\nhint: pass --dir, or set SHARDMILL_CACHE_DIR")


@click.group(name="cache")
def command() -> None:
    """Manage objects fetched from object stores and cached on this machine."""


@command.command(name="info")
@_directory
def info(cache_dir: str | None) -> int:
    """List the cached objects, most recently used first: bytes on disk, full size, minutes since last use, path.

    \b
    Example:
      shardmill cache info --dir /scratch/cache
    """
    from shardmill.storage._cache import cache_entries

    entries = cache_entries(_named(cache_dir))
    now = time.time()
    for path, kept, size, used in entries:
        click.echo(f"{kept}\t{size}\t{max(now - used, 0) / 60:.0f}\t{escape(path)}")
    click.echo(f"{counted(len(entries), 'object')}, {counted(sum(kept for _, kept, *_ in entries), 'byte')}", err=True)
    return 0


@command.command(name="clear")
@_directory
def clear(cache_dir: str | None) -> int:
    """Remove all cached objects. Running processes continue, and fetch what they need again.

    \b
    Example:
      shardmill cache clear --dir /scratch/cache
    """
    from shardmill.storage._cache import clear_cache

    click.echo(f"{counted(clear_cache(_named(cache_dir)), 'byte')} removed", err=True)
    return 0
