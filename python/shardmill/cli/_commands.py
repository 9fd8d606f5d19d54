"""The list of commands, each imported when it is called, and error handling."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from io import StringIO

import click
from click.exceptions import NoArgsIsHelpError
from click.shell_completion import shell_complete

from shardmill._native import __version__
from shardmill._native.storage import redacted
from shardmill._terminal import Escaping, escape
from shardmill.cli._messages import with_quiet
from shardmill.cli._options import with_options
from shardmill.errors import Error, OptionError
from shardmill.storage._paths import refuse_surrogates

#: The variable that the completion script of a shell sets.
_COMPLETION = "_SHARDMILL_COMPLETE"

_COMMANDS = {
    "cache": "List or clear objects fetched from object stores and cached on this machine.",
    "checkpoint": "Inspect, verify, repair, move or compact the checkpoint of a job.",
    "count": "Count what a model gets of documents: tokens, images, patches, packs.",
    "convert": "Write rows of any table format as Parquet, MDS, WebDataset, JSONL or ArrayRecord.",
    "curate": "Filter interleaved documents and write them as Parquet or WebDataset.",
    "explain": "Show which rows a rank gets in one step, and why.",
    "head": "Show the first rows of Parquet, ORC, CSV, JSONL, ArrayRecord, "
    "MDS or WebDataset files.",
    "help": "Show the help of a command, or the list of commands.",
    "inspect": "Describe the contents of data files of any format and of images.",
    "merge": "Merge parts of a data set, or Megatron-LM pairs, that were written separately.",
    "repair-index": "Rebuild the index of a directory of MDS shards.",
    "tokenize": "Tokenize texts or chat messages and write Parquet, or count their tokens.",
    "verify": "Check files completely: rows, checksums, order, structure, image headers.",
    "view": "Browse samples in a web browser: texts, images, columns, filters.",
}


class LazyGroup(click.Group):
    """A command group whose commands are modules of this package."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names, sorted."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command with this name, imported now."""
        if cmd_name not in _COMMANDS:
            return None
        return with_quiet(import_module(f"shardmill.cli._{cmd_name.replace('-', '_')}").command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments name.

        An unknown name raises an error with a similar one.
        """
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if close := get_close_matches(args[0], _COMMANDS, n=1):
                raise click.UsageError(
                    f"{error.message}\nhint: did you mean `{close[0]}`?", ctx
                ) from error
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


def _keep_verbose(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    ctx.meta[parameter.name or ""] = value


def _show_version(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    """Print the version and end."""
    if not value or ctx.resilient_parsing:
        return
    click.echo(f"shardmill {__version__}")
    if ctx.meta["verbose"]:
        click.echo("\n".join(_build_details()))
    ctx.exit()


def _build_details() -> list[str]:
    """Return lines about the native module and the machine."""
    import platform

    from shardmill._native.pixels import build_info

    version, has_simd, resize = build_info()
    simd = {
        True: "with SIMD",
        False: "scalar, built without an assembler such as nasm",
        None: "SIMD unknown",
    }[has_simd]
    return [
        f"JPEG: libjpeg-turbo {version}, {simd}",
        f"resize: {resize}",
        f"Python: {platform.python_version()}, module for abi3 of 3.11",
        f"platform: {platform.platform()}",
    ]


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version; with -v, details of the build.",
)
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_keep_verbose,
    help="With --version: show what decodes images.",
)
def shardmill() -> None:
    """Curate, verify and inspect AI training data.

    \b
    Example:
      shardmill inspect shards/
      shardmill curate shards/ curated/ --to parquet --aspect-ratio 1:2
      shardmill verify curated/
      shardmill head data/ --rows 5
      shardmill convert data/ train.array_record --column text
      shardmill tokenize data/ tokens/ --tokenizer model/
      shardmill explain data/ --step 3 --rank 1 --world-size 4
      shardmill view data/
      shardmill help curate
    """


with_quiet(shardmill)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    if instruction := os.environ.get(_COMPLETION):
        # A shell asks for completions. The answer is bytes, and contains no values of a data set.
        return shell_complete(shardmill, {}, "shardmill", _COMPLETION, instruction)
    # Python has no stream for one that the shell closed, by >&- or 2>&-.
    stdout, stderr = sys.stdout, sys.stderr if sys.stderr is not None else StringIO()
    # A last line of defense: escaping names and strings of the data is not left to each command.
    with (
        redirect_stdout(Escaping(stdout)),
        redirect_stderr(Escaping(stderr)),
        warnings.catch_warnings(),
    ):
        try:
            _refuse_bytes(arguments)
        except OptionError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        command = _command_of(arguments)
        warnings.showwarning = partial(_show_warning, command)
        try:
            return _run(arguments, command)
        except BrokenPipeError:
            # The reader of stdout is gone. Python flushes again at exit, which must not fail too.
            if stdout is not None:
                os.dup2(os.open(os.devnull, os.O_WRONLY), stdout.fileno())
            return 1


def _refuse_bytes(arguments: Sequence[str]) -> None:
    """Check that all arguments are UTF-8.

    Raises:
        ValueError: If one is not.
    """
    for number, argument in enumerate(arguments, 1):
        refuse_surrogates(f"argument {number}", argument)


def _command_of(arguments: Sequence[str]) -> click.Command:
    """Return the command that the arguments name; a group if they name none of its commands."""
    command: click.Command = shardmill
    for name in (argument for argument in arguments if not argument.startswith("-")):
        found = (
            command.get_command(click.Context(command), name)
            if isinstance(command, click.Group)
            else None
        )
        if found is None:
            break
        command = found
    return command


def _show_warning(command: click.Command, message: Warning | str, *_place: object) -> None:
    """Print a warning without the line of code that raised it.

    That line means nothing on a command line.
    """
    # The one line break that does not come from names or data.
    told = "\nhint: ".join(map(escape, with_options(str(message), command).split("\nhint: ")))
    print(f"warning: {told}", file=sys.stderr)


def _run(arguments: Sequence[str], command: click.Command) -> int:
    try:
        result = shardmill.main(args=list(arguments), prog_name="shardmill", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort as stop:
        raise KeyboardInterrupt from stop
    except click.ClickException as error:
        # A value that is not valid is quoted in the message, as it was typed. A group without a
        # command shows its help.
        if isinstance(error, click.UsageError) and not isinstance(
            error, (click.BadParameter, NoArgsIsHelpError)
        ):
            error = click.UsageError(with_options(error.format_message(), command), error.ctx)
        error.show()
        return error.exit_code
    except BrokenPipeError:
        raise
    except (Error, ImportError, OSError) as error:
        print(f"error: {with_options(str(error), command)}", file=sys.stderr)
        return 1
    except Exception:
        # Here, and not at interpreter exit, where nothing is escaped.
        print(redacted(traceback.format_exc()), file=sys.stderr, end="")
        return 1
    return result if isinstance(result, int) else 0
