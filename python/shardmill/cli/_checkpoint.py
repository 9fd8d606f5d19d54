"""The command ``shardmill checkpoint``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from shardmill._terminal import counted, escape
from shardmill.cli._messages import is_quiet, tell
from shardmill.cli._options import DIRECTORY, PATH, json_option, storage_option, write_json
from shardmill.errors import CheckpointDamagedError, NotFoundError, OptionError


@click.group(name="checkpoint")
def command() -> None:
    """Inspect, verify, repair, move or compact the checkpoint of a job.

    \b
    Example:
      shardmill checkpoint inspect state/
      shardmill checkpoint verify state/ --json > problems.json
      shardmill checkpoint repair state/
      shardmill checkpoint relocate state/ --output /mnt/new/out
      shardmill checkpoint compact state/
    """


_path = click.argument("path", type=DIRECTORY, metavar="PATH")


@command.command(name="inspect")
@_path
@json_option
@storage_option
def inspect_command(path: str, as_json: bool) -> int:
    """Show the job of the checkpoint PATH and its progress.

    Also shows who is working on it. Nothing is changed.

    \b
    Example:
      shardmill checkpoint inspect state/
    """
    found = _snapshot(path, verifies=False)
    if as_json:
        write_json(found)
        return 0
    count = found["open_splits"]
    reopened = f", {count:,} will be processed again by the next run" if count else ""
    lines = {
        "job": found["job"],
        "running": found["holder"] or "no",
        "splits": f"{found['committed_splits']:,} of {found['splits']:,} committed{reopened}",
        "rows": f"{found['rows_in']:,} in, {found['rows_done_before']:,} done before, "
        f"{found['rows_out']:,} out",
        "ids": f"{found['ids']:,} recorded",
        "outputs": f"{counted(found['output_files'], 'file')}, "
        f"{counted(found['output_bytes'], 'byte')} in {found['output']}",
        "quarantined": f"{found['quarantined']:,}",
    }
    for name, value in (lines | _told(found["fingerprint"])).items():
        click.echo(escape(f"{name:<12} {value}"))
    for warning in found["warnings"]:
        click.echo(escape(f"warning: {warning}"), err=True)
    return 0


@command.command(name="verify")
@_path
@json_option
@storage_option
def verify_command(path: str, as_json: bool) -> int:
    """Compare the outputs of the checkpoint PATH with its records.

    Outputs must exist, and have the recorded length and content. Exit code 1 means that a file has
    a problem, or that the checkpoint itself is damaged. A missing record is detected by its ids and
    by the plan.

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
        write_json(problems)
    else:
        for problem in problems:
            click.echo(escape(f"{problem['path']}: {problem['problem']}"))
    outcome = counted(len(problems), "problem") if problems else "no problems"
    counts = (
        f"{counted(found['committed_splits'], 'split')}, {counted(found['output_files'], 'file')}"
    )
    if as_json:
        tell(f"{counts}: {outcome}")
    elif not is_quiet():
        click.echo(f"{counts}: {outcome}")
    return 1 if problems else 0


@command.command(name="repair")
@_path
@click.argument("outputs", type=PATH, metavar="[OUTPUT]...", nargs=-1)
@json_option
@storage_option
def repair_command(path: str, outputs: tuple[str, ...], as_json: bool) -> int:
    """Reopen splits with missing or damaged outputs or records.

    PATH is the checkpoint. The next run of the job processes these splits again. Damaged files that
    it can recreate are removed. Files whose input is missing or changed are moved to a directory of
    the checkpoint. OUTPUT is a single output, to check only that one, or the directory of the
    outputs, if they were moved. A running job is rejected.

    \b
    Example:
      shardmill checkpoint repair state/
      shardmill checkpoint repair state/ out/a-5d41402abc4b2a76b9719d911017c592.parquet
    """
    from shardmill._native import journal
    from shardmill.storage._paths import is_remote, real

    directories = [
        output
        for output in outputs
        if not output.endswith((".parquet", ".tar")) or Path(output).is_dir()
    ]
    if len(directories) > 1:
        raise OptionError(f"{', '.join(directories)}: all outputs must be in one directory")
    names = {output.rsplit("/", 1)[-1] for output in outputs if output not in directories}
    output = real(directories[0]) if directories else None
    if output is not None and not is_remote(output) and not Path(output).is_dir():
        raise NotFoundError(f"`{output}` is not a directory of outputs")
    found = journal.repair(real(path), output=output, names=names)
    if as_json:
        write_json(found)
    else:
        for problem in found["problems"]:
            click.echo(escape(f"{problem['path']}: {problem['problem']}"))
    reopened = counted(len(found["reopened"]), "split")
    told = (
        f"{counted(len(found['problems']), 'problem')}, "
        f"{reopened} will be processed again by the next run"
    )
    tell(told if found["problems"] else "no problems")
    if found["without_input"]:
        told = f"{len(found['without_input']):,} of the splits have inputs that are gone or changed"
        click.echo(
            f"warning: {told}: rows that are not in the current input are not written again",
            err=True,
        )
    return 0


@command.command(name="relocate")
@_path
@click.option(
    "--input",
    "inputs",
    type=PATH,
    metavar="PATH",
    multiple=True,
    help="The new path of an input; repeat for each input, in order.",
)
@click.option("--output", type=DIRECTORY, metavar="DIR", help="The new directory of the outputs.")
@storage_option
def relocate_command(path: str, inputs: tuple[str, ...], output: str | None) -> int:
    """Set the new paths of inputs and outputs that were moved.

    PATH is the checkpoint. If it was moved together with them, run the job with the new paths
    instead.

    \b
    Example:
      shardmill checkpoint relocate state/ --input /mnt/new/in --output /mnt/new/out
    """
    from shardmill.resume import Checkpoint

    if not inputs and output is None:
        raise OptionError("there is nothing to change\nhint: pass --input, --output or both")
    Checkpoint(path).relocate(input=inputs or None, output=output)
    return 0


@command.command(name="compact")
@_path
@storage_option
def compact_command(path: str) -> int:
    """Merge the records of all runs into one file.

    PATH is the checkpoint. A running job is rejected.

    \b
    Example:
      shardmill checkpoint compact state/
    """
    from shardmill._native import journal
    from shardmill.storage._paths import real

    directory = real(path)
    journal.compact(directory)
    found = _snapshot(directory, verifies=False)
    tell(f"{counted(found['committed_splits'], 'committed split')} in one file")
    return 0


def _snapshot(path: str, *, verifies: bool) -> dict[str, Any]:
    from shardmill._native import journal
    from shardmill.storage._paths import real

    return journal.snapshot(real(path), verifies=verifies)


def _told(fingerprint: dict[str, Any]) -> dict[str, str]:
    return {
        name: json.dumps(value, ensure_ascii=False)
        for name, value in fingerprint.items()
        if value not in ("", [], None)
    }
