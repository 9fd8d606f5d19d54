"""The command ``shardmill inspect``."""

from __future__ import annotations

import json
from typing import Any

import click

from shardmill.cli._options import FROM_0, limit_option, progress_option, sample_options, storage_option, threads_option


@click.command(name="inspect")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--texts", "first", **FROM_0, default=3, help="First texts, images or records.")
@sample_options
@threads_option
@progress_option
@click.option("--json", "as_json", is_flag=True, help="Write everything as JSON to stdout.")
@limit_option
@storage_option
def command(paths: tuple[str, ...], as_json: bool, **options: Any) -> int:
    """Describe the contents of a data file of any format, an image or a directory.

    One file is shown as a page, several as a summary. Images are measured by their headers; no pixels are decoded. The exit code is 1 if
    damage is found. `verify` checks files completely.

    \b
    Example:
      shardmill inspect shards/00000.tar --texts 5
      shardmill inspect train.array_record
      shardmill inspect curated/ --json
    """
    from shardmill.curate._inspection import inspect

    inspection = inspect(paths, **options)
    if as_json:
        click.echo(json.dumps(inspection.to_dict(), indent=2, ensure_ascii=False))
    else:
        click.echo(str(inspection))
    return 1 if any(file.damage for file in inspection.files) else 0
