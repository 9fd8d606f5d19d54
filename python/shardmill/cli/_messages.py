"""Messages to stderr that ``--quiet`` leaves out."""

from __future__ import annotations

import click

from shardmill._terminal import escape

_QUIET = "shardmill.quiet"


def is_quiet() -> bool:
    """Tell whether the command line has ``-q``."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_QUIET))


def tell(text: str) -> None:
    """Print a summary or a note to stderr, unless the command line has ``-q``."""
    if not is_quiet():
        click.echo(escape(text, keep="\n"), err=True)


def with_quiet(command: click.Command) -> click.Command:
    """Add ``-q`` to a command and to its own commands."""
    if all(option.name != "quiet" for option in command.params):
        command.params.append(_quiet_option())
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        with_quiet(below)
    return command


def _quiet_option() -> click.Option:
    return click.Option(
        ["-q", "--quiet"],
        is_flag=True,
        # Before the other options: it decides whether a bar is shown.
        is_eager=True,
        expose_value=False,
        callback=_keep_quiet,
        help="Print only results, warnings and errors: no summaries, notes or progress.",
    )


def _keep_quiet(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    # It may come before the name of a command, or after it.
    ctx.meta[_QUIET] = value or ctx.meta.get(_QUIET, False)
