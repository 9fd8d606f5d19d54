"""The command ``shardmill checkpoint``."""

from __future__ import annotations

import json
from typing import Any

import click

from shardmill.cli.options import storage_option
from shardmill.errors import CheckpointDamagedError


@click.group(name="checkpoint")
def command() -> None:
    """Look at the checkpoint of a job, check it, make it smaller.

    \b
    Example:
      shardmill checkpoint inspect state/
      shardmill checkpoint verify state/ --json > problems.json
      shardmill checkpoint compact state/
    """


_path = click.argument("path", metavar="PATH")
_json = click.option("--json", "as_json", is_flag=True, help="Write all of it as JSON to stdout.")


@command.command(name="inspect")
@_path
@_json
@storage_option
def inspect_command(path: str, as_json: bool) -> int:
    """Tell which job the checkpoint PATH belongs to, how far it is, and who works on it. Nothing is changed.

    \b
    Example:
      shardmill checkpoint inspect state/
    """
    found = _snapshot(path, verifies=False)
    if as_json:
        click.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return 0
    lines = {
        "job": found["job"],
        "running": found["holder"] or "no",
        "splits": f"{found['committed_splits']:,} of {found['splits']:,} committed",
        "rows": f"{found['rows_in']:,} in, {found['rows_done_before']:,} done before, {found['rows_out']:,} out",
        "ids": f"{found['ids']:,} recorded",
        "outputs": f"{found['output_files']:,} files, {found['output_bytes']:,} bytes in {found['output']}",
        "quarantined": f"{found['quarantined']:,}",
    }
    for name, value in (lines | _told(found["fingerprint"])).items():
        click.echo(f"{name:<12} {value}")
    for warning in found["warnings"]:
        click.echo(f"warning: {warning}", err=True)
    return 0


@command.command(name="verify")
@_path
@_json
@storage_option
def verify_command(path: str, as_json: bool) -> int:
    """Hold every output of the checkpoint PATH against its record: there, of the same length, of the same content.

    Exit code 1 tells that a file has a problem, or that the checkpoint itself is damaged.

    \b
    Example:
      shardmill checkpoint verify state/
    """
    try:
        found = _snapshot(path, verifies=True)
    except CheckpointDamagedError as error:
        found = {
            "problems": [{"path": path, "unit": "", "problem": str(error)}],
            "committed_splits": 0,
            "output_files": 0,
        }
    problems = found["problems"]
    if as_json:
        click.echo(json.dumps(problems, indent=2, ensure_ascii=False))
    else:
        for problem in problems:
            click.echo(f"{problem['path']}: {problem['problem']}")
    outcome = f"{len(problems):,} problems" if problems else "no problems"
    click.echo(f"{found['committed_splits']:,} splits, {found['output_files']:,} files: {outcome}", err=as_json)
    return 1 if problems else 0


@command.command(name="compact")
@_path
@storage_option
def compact_command(path: str) -> int:
    """Put the records of all runs of the checkpoint PATH into one file. A job that is running is refused.

    \b
    Example:
      shardmill checkpoint compact state/
    """
    from shardmill._native import journal
    from shardmill.curate.sources import real

    folder = real(path)
    journal.compact(folder)
    found = _snapshot(folder, verifies=False)
    click.echo(f"{found['committed_splits']:,} committed splits in one file", err=True)
    return 0


def _snapshot(path: str, *, verifies: bool) -> dict[str, Any]:
    from shardmill._native import journal
    from shardmill.curate.sources import real

    found = real(path)
    return json.loads(journal.snapshot(found, verifies=verifies))


def _told(fingerprint: dict[str, Any]) -> dict[str, str]:
    return {
        name: json.dumps(value, ensure_ascii=False)
        for name, value in fingerprint.items()
        if value not in ("", [], None)
    }
