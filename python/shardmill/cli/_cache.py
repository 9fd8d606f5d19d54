"""The command ``shardmill cache``."""

from __future__ import annotations

import time

import click

from shardmill._terminal import counted, escape
from shardmill.cli._messages import tell
from shardmill.cli._options import DIRECTORY, json_option, write_json

_directory = click.option(
    "--dir",
    "cache_dir",
    type=DIRECTORY,
    metavar="PATH",
    help="The cache directory; default: SHARDMILL_CACHE_DIR.",
)


_HINT = "pass --dir"


@click.group(name="cache")
def command() -> None:
    """Manage objects fetched from object stores and cached on this machine."""


@command.command(name="info")
@_directory
@json_option
def info(cache_dir: str | None, as_json: bool) -> int:
    """List the cached objects, most recently used first.

    The columns are bytes on disk, full size, minutes since last use, and path.

    \b
    Example:
      shardmill cache info --dir /scratch/cache
    """
    from shardmill.storage._cache import cache_entries, chosen_directory

    entries = cache_entries(chosen_directory(cache_dir, hint=_HINT))
    now = time.time()
    if as_json:
        names = ("path", "bytes_on_disk", "bytes", "seconds_since_use")
        write_json(
            [
                dict(zip(names, (*entry, max(now - used, 0)), strict=True))
                for *entry, used in entries
            ]
        )
    else:
        for path, kept, size, used in entries:
            click.echo(f"{kept}\t{size}\t{max(now - used, 0) / 60:.0f}\t{escape(path)}")
    tell(
        f"{counted(len(entries), 'object')}, "
        f"{counted(sum(kept for _, kept, *_ in entries), 'byte')}"
    )
    return 0


@command.command(name="clear")
@_directory
def clear(cache_dir: str | None) -> int:
    """Remove all cached objects. Running processes continue, and fetch what they need again.

    \b
    Example:
      shardmill cache clear --dir /scratch/cache
    """
    from shardmill.storage._cache import chosen_directory, clear_cache

    removed = clear_cache(chosen_directory(cache_dir, hint=_HINT))
    tell(f"{counted(removed, 'byte')} removed")
    return 0
