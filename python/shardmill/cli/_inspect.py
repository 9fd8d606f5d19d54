"""The command ``shardmill inspect``."""

from __future__ import annotations

from typing import Any

import click

from shardmill._terminal import aligned, escape
from shardmill.cli._options import (
    FROM_0,
    json_option,
    limit_option,
    paths_argument,
    progress_option,
    sample_options,
    storage_option,
    threads_option,
    write_json,
)


@click.command(name="inspect")
@paths_argument("PATH...")
@click.option("--texts", "first", **FROM_0, default=3, help="First texts, images or records.")
@click.option(
    "--token",
    **FROM_0,
    help="Show the source of token N of token files that `tokenize` wrote: file, row and offset.",
)
@sample_options
@threads_option
@progress_option
@json_option
@limit_option
@storage_option
def command(paths: tuple[str, ...], as_json: bool, token: int | None, **options: Any) -> int:
    """Describe the contents of a data file of any format, an image or a directory.

    One file is shown as a page, several as a summary. Images are measured by their headers; no
    pixels are decoded. The exit code is 1 if damage is found. `verify` checks files completely.

    \b
    Example:
      shardmill inspect shards/00000.tar --texts 5
      shardmill inspect train.array_record
      shardmill inspect curated/ --json
      shardmill inspect corpus --token 1000000
    """
    if token is not None:
        return _show_source(paths, token, as_json=as_json)
    from shardmill.curate._inspection import inspect

    inspection = inspect(paths, **options)
    if as_json:
        write_json(inspection.to_dict())
    else:
        click.echo(str(inspection))
    return 1 if any(file.damage for file in inspection.files) else 0


def _show_source(paths: tuple[str, ...], token: int, *, as_json: bool) -> int:
    """Print the source of a token; the exit code is 0."""
    from shardmill import Provenance

    path, *others = paths
    if others:
        raise click.UsageError("--token takes one PATH, that of the token files")
    source = Provenance(path).source(token)
    if as_json:
        write_json(source._asdict())
        return 0
    shown = [(name, str(value)) for name, value in source._asdict().items()]
    click.echo("\n".join(map(escape, aligned(shown, to_the_right=[False, False]))))
    return 0
