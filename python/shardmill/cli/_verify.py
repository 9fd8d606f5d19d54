"""The command ``shardmill verify``."""

from __future__ import annotations

from typing import Any, get_args

import click

from shardmill._terminal import counted
from shardmill.cli._messages import is_quiet, tell
from shardmill.cli._options import (
    FROM_1,
    json_option,
    limit_option,
    one_of,
    paths_argument,
    progress_option,
    sample_options,
    storage_option,
    threads_option,
    write_json,
)
from shardmill.data._token_files import TokenDtype


@click.command(name="verify")
@paths_argument("PATH...")
@click.option(
    "--layout",
    **one_of("auto", "source", "written"),
    help="Rules for tars: of any source, or of those that `curate` wrote.",
)
@click.option(
    "--renumbered", is_flag=True, help="Positions must be exactly 0 to n-1, as filters write them."
)
@click.option(
    "--max-problems", **FROM_1, default=100, help="Maximum number of problems shown per file."
)
@click.option(
    "--vocab-size", **FROM_1, help="Number of ids of the vocabulary, to check those of token files."
)
@click.option(
    "--dtype",
    type=click.Choice(get_args(TokenDtype)),
    help="How token files without a header store an id.",
)
@sample_options
@threads_option
@progress_option
@json_option
@limit_option
@storage_option
def command(paths: tuple[str, ...], renumbered: bool, as_json: bool, **options: Any) -> int:
    """Check files completely. PATH is a file, a directory or a glob.

    Reads all rows of Parquet, ORC, CSV, JSONL, ArrayRecord, MDS, WebDataset and token files, and
    compares every checksum. Interleaved documents are also checked for order, structure and image
    headers. A directory may hold several formats. Each problem is one line. The exit code is 1 if a
    file has a problem.

    \b
    Example:
      shardmill verify curated/ train.array_record table.parquet
      shardmill verify curated/*.tar --layout written --json > checks.json
      shardmill verify tokens/ --vocab-size 50257
    """
    from shardmill.curate._verification import problem_table, verify

    checks = verify(paths, is_renumbered=renumbered, **options)
    bad = [check for check in checks if not check.is_valid]
    if as_json:
        write_json([check.to_dict() for check in checks])
    elif bad:
        click.echo(problem_table(bad))
    notes = [f"note: {check.path}: {note}" for check in checks for note in check.notes]
    if notes and not as_json:
        click.echo("\n".join(notes))
    samples, rows = (
        sum(check.samples for check in checks),
        sum(sum(check.rows.values()) for check in checks),
    )
    problems = sum(check.problem_count for check in checks)
    outcome = (
        f"{counted(problems, 'problem')} in {counted(len(bad), 'file')}" if bad else "no problems"
    )
    counts = f"{counted(len(checks), 'file')}, {counted(samples, 'sample')}, {counted(rows, 'row')}"
    if as_json:
        tell(f"{counts}: {outcome}")
    elif not is_quiet():
        click.echo(f"{counts}: {outcome}")
    return 1 if bad else 0
