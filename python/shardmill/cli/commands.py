"""The list of commands, each loaded when it is called, and what becomes of errors."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module

import click

from shardmill._native.storage import redacted
from shardmill.terminal import Escaping

_COMMANDS = {
    "cache": "Look at what was fetched from object stores and is kept on this machine, or remove it.",
    "checkpoint": "Inspect, verify, repair, move or compact the checkpoint of a job.",
    "convert": "Write rows of any table format as Parquet, MDS, WebDataset, JSONL or ArrayRecord.",
    "curate": "Filter interleaved documents and write them as Parquet or WebDataset.",
    "explain": "Tell which rows a rank gets in one step, and why.",
    "head": "Show the first rows of Parquet, ORC, CSV, JSONL, ArrayRecord or MDS files.",
    "inspect": "Describe the contents of data files of any format and of images.",
    "repair-index": "Make the index of a folder of MDS shards anew.",
    "verify": "Check files completely: rows, checksums, order, structure, image headers.",
    "view": "Page through samples in the browser: texts, images, columns, filters.",
}


class LazyGroup(click.Group):
    """A group whose commands are modules of this package."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, sorted."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now."""
        if cmd_name not in _COMMANDS:
            return None
        return import_module(f"shardmill.cli.{cmd_name.replace('-', '_')}").command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


def _show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from shardmill import __version__

        click.echo(f"shardmill {__version__}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="Show the version."
)
def shardmill() -> None:
    """Curate, check and look into AI training data.

    \b
    Example:
      shardmill inspect shards/
      shardmill curate shards/ curated/ --to parquet --aspect-ratio 1:2
      shardmill verify curated/
      shardmill head data/ --rows 5
      shardmill convert data/ train.array_record --column text
      shardmill explain data/ --step 3 --rank 1 --world-size 4
      shardmill view data/
    """


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and gives its exit code."""
    # A last resort: what names and texts of data do to a terminal is not left to each command.
    with redirect_stdout(Escaping(sys.stdout)), redirect_stderr(Escaping(sys.stderr)):
        return _run(arguments)


def _run(arguments: Sequence[str]) -> int:
    from shardmill.errors import Error

    try:
        result = shardmill.main(args=list(arguments), prog_name="shardmill", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort as stop:
        raise KeyboardInterrupt from stop
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except BrokenPipeError:
        # Whoever read stdout went away. Python flushes once more at its end, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (Error, ImportError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except Exception:
        # Here, and not at the end of the interpreter, where nothing is escaped.
        print(redacted(traceback.format_exc()), file=sys.stderr, end="")
        return 1
    return result if isinstance(result, int) else 0
