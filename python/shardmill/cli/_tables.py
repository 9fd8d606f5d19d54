"""The rows and files that a command works on, and formatting of rows as lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, get_args

import click

from shardmill._terminal import aligned
from shardmill.cli._options import (
    JsonObject,
    Names,
    ignore_zeros_option,
    paths_argument,
    together,
)
from shardmill.data._token_files import TokenDtype
from shardmill.errors import NotFoundError, OptionError
from shardmill.expressions import Expression, parse_filter
from shardmill.write._output import exists_hint
from shardmill.write._token_layout import WRITTEN_TOKENS, TokenHeader

if TYPE_CHECKING:
    from shardmill import TokenFiles, TokenLayout

OVERWRITE_HINT = "--mode overwrite replaces it"


class Filter(click.ParamType):
    """A condition such as ``label = 0 and language in ('en', 'de')``."""

    name = "EXPR"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Expression:
        """Return the expression."""
        try:
            return parse_filter(value)
        except OptionError as error:
            self.fail(str(error), param, ctx)


#: How files are recognized and read.
format_options = together(
    click.option(
        "--format",
        type=click.Choice(
            [
                *("parquet", "orc", "csv", "json", "jsonl", "arrayrecord", "mds", "webdataset"),
                *("megatron", "datatrove", "bin", "npy"),
            ]
        ),
        help="Format of the files that are read; default: detected.",
    ),
    click.option("--hive", is_flag=True, help="Directories called key=value are columns."),
    ignore_zeros_option,
)

#: How ids of token files are stored.
token_layout_options = together(
    click.option(
        "--stored-dtype",
        type=click.Choice(get_args(TokenDtype)),
        help="How token files store an id; default: by the vocabulary, else as in SRC.",
    ),
    click.option(
        "--header", type=click.Choice(get_args(TokenHeader)), help="Header of --to bin; else none."
    ),
    click.option(
        "--cut-documents", is_flag=True, help="Shards of --to bin may end within a document."
    ),
)

filter_option = click.option(
    "--filter", type=Filter(), help='Only rows for which EXPR is true, such as "label = 0".'
)

token_files_option = click.option(
    "--token-files",
    type=JsonObject(),
    help='Options of TokenFiles to read token files, as JSON: \'{"dtype": "uint16", "eos": 0}\'.',
)

#: PATH and what ``shardmill.Dataset`` wants to know of it.
dataset_options = together(
    paths_argument("PATH..."),
    click.option("--columns", type=Names(), help="Only these, in this order."),
    filter_option,
    format_options,
)


def open_dataset(options: dict[str, Any], **more: Any) -> Any:
    """Open the ``shardmill.Dataset`` of the options.

    Args:
        options: those of ``dataset_options``, and ``token_files_option`` if the command has it.
        more: further options of ``Dataset``.
    """
    from shardmill import Dataset

    columns, paths = options["columns"], options["paths"]
    return Dataset(
        paths[0] if len(paths) == 1 else list(paths),
        columns=list(columns) if columns else None,
        filter=options["filter"],
        format=options["format"],
        partitioning="hive" if options["hive"] else None,
        ignore_zeros=options["ignore_zeros"],
        token_files=_token_files(options.get("token_files")),
        **more,
    )


def _token_files(given: dict[str, Any] | None) -> TokenFiles | None:
    from shardmill import TokenFiles

    try:
        return None if given is None else TokenFiles(**given)
    except (TypeError, OptionError) as error:
        raise click.UsageError(f"--token-files: {error}") from error


def open_files(options: dict[str, Any], **more: Any) -> Any:
    """Open the data set like ``open_dataset``.

    Raises:
        NotFoundError: If there are no files.
    """
    dataset = open_dataset(options, **more)
    if not dataset.files:
        raise NotFoundError(f"there are no data files at {', '.join(options['paths'])}")
    return dataset


def open_writer(out: str, **options: Any) -> Any:
    """Open the ``shardmill.Writer`` of a command whose modes refuse or replace an output."""
    from shardmill import Writer

    with exists_hint(OVERWRITE_HINT):
        return Writer(out, **options)


def token_layout_of(
    options: dict[str, Any], format: str, vocab_size: int | None = None
) -> TokenLayout | None:
    """Return the ``TokenLayout`` of the options; ``None`` if nothing is given or another format.

    Raises:
        click.UsageError: If one is given for another format.
    """
    from shardmill import TokenLayout

    layout = TokenLayout(
        dtype=options["stored_dtype"],
        vocab_size=vocab_size if format in WRITTEN_TOKENS else None,
        header=options["header"],
        cut_documents=options["cut_documents"],
    )
    return layout if format in WRITTEN_TOKENS or layout != TokenLayout() else None


def source_and_destination(paths: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """Return SRC and DST of the arguments.

    Raises:
        click.UsageError: If there is only one.
    """
    *sources, destination = paths
    if not sources:
        raise click.UsageError(f"SRC and DST are required, and there is only {destination!r}")
    return tuple(sources), destination


def refuse_input(
    sources: Sequence[str], files: Sequence[str], dst: str, *, keeps_rows: bool
) -> bool:
    """Refuse an output that conflicts with the input.

    Replacing it would delete a file that is read, or the next run would read it as input.

    Args:
        sources: files, directories and globs.
        files: the files that are read.
        dst: the output.
        keeps_rows: whether the output has all that the input has. Then one file may be its own
            output: it is replaced when it is whole.

    Returns:
        Whether the output replaces the file that is read.
    """
    from shardmill.curate._placement import refuse_inside_input
    from shardmill.storage._paths import real

    out = real(dst)
    if keeps_rows and [real(path) for path in files] == [out]:
        return True
    if inside := next((path for path in files if f"{real(path)}/".startswith(f"{out}/")), None):
        raise click.UsageError(f"{dst!r} contains the input {inside!r}; write to another directory")
    try:
        refuse_inside_input("output", out, [real(source) for source in sources])
    except OptionError as error:
        raise click.UsageError(str(error)) from error
    return False


def titled(title: str, entries: Iterable[tuple[str, str]]) -> list[str]:
    """Return lines with a title, and names with their texts below it."""
    return [title, *(f"  {line}" for line in aligned(list(entries), to_the_right=[False, False]))]
