"""The command ``shardmill help``."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem


def _completed(
    ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    context = ctx.find_root()
    for name in ctx.params.get("names") or ():
        command = (
            context.command.get_command(context, name)
            if isinstance(context.command, click.Group)
            else None
        )
        if command is None:
            return []
        context = click.Context(command, info_name=name, parent=context)
    group = context.command
    names = group.list_commands(context) if isinstance(group, click.Group) else []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


@click.command(name="help")
@click.argument("names", nargs=-1, metavar="[COMMAND]...", shell_complete=_completed)
def command(names: tuple[str, ...]) -> None:
    """Show the help of a command, or the list of commands.

    \b
    Example:
      shardmill help curate
      shardmill help checkpoint repair
    """
    context = click.get_current_context().find_root()
    for name in names:
        group = context.command
        if not isinstance(group, click.Group):
            raise click.UsageError(f"{context.command_path!r} has no command {name!r}")
        _, found, _ = group.resolve_command(context, [name])
        assert found is not None
        context = click.Context(found, info_name=name, parent=context)
    click.echo(context.get_help())
