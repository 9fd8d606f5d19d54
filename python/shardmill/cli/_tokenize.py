"""The command ``shardmill tokenize``."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import click

from shardmill._extras import pyarrow_for
from shardmill._terminal import aligned, counted
from shardmill.cli._batch_bar import BatchBar
from shardmill.cli._messages import tell
from shardmill.cli._options import (
    PATH,
    Names,
    Size,
    json_option,
    limit_option,
    one_of,
    paths_argument,
    progress_option,
    storage_option,
    threads_option,
    write_json,
)
from shardmill.cli._tables import (
    OVERWRITE_HINT,
    filter_option,
    format_options,
    open_dataset,
    open_writer,
    refuse_input,
    token_layout_of,
    token_layout_options,
)
from shardmill.cli._token_sources import (
    counts_option,
    source_options,
    tokenize_of,
    tokenizer_options,
)
from shardmill.errors import MissingColumnError, NotFoundError
from shardmill.write._output import exists_hint
from shardmill.write._token_layout import WRITTEN_TOKENS

if TYPE_CHECKING:
    from shardmill import Tokenize, TokenLayout
    from shardmill.write._provenance import ProvenanceWriter


@click.command(name="tokenize")
@paths_argument("SRC... [DST]")
@click.option(
    "--tokenizer",
    required=True,
    type=PATH,
    metavar="PATH",
    help="Tokenizer file, or a directory with one.",
)
@tokenizer_options
@source_options
@click.option(
    "--output",
    metavar="NAME",
    default="tokens",
    show_default=True,
    help="Name of the column of tokens.",
)
@click.option(
    "--labels-output",
    metavar="NAME",
    default="labels",
    show_default=True,
    help="Name of the column of labels.",
)
@click.option("--dtype", **one_of("int32", "int64"), help="Type of the tokens.")
@click.option("--keep", type=Names(), help="Columns of SRC to write as well.")
@filter_option
@format_options
@click.option("--to", **one_of("parquet", *WRITTEN_TOKENS), help="Output format.")
@token_layout_options
@click.option(
    "--no-provenance",
    is_flag=True,
    help="Do not write P.provenance.parquet, which says where the tokens of token files come from.",
)
@click.option(
    "--count-only", is_flag=True, help="Store and print the token counts; write no tokens."
)
@counts_option
@click.option(
    "--shard-bytes",
    type=Size(),
    help="Size of a shard, uncompressed; 256MiB by default, and no limit for --to megatron.",
)
@click.option("--mode", **one_of("error", "overwrite"), help="What to do if the output exists.")
@threads_option
@progress_option
@json_option
@limit_option
@storage_option
def command(paths: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Tokenize the rows of SRC and write them to DST, or count their tokens.

    SRC is a file, a directory or a glob, in any supported format. DST is a single file if its name
    ends in .parquet or .bin, otherwise a directory of shards; with --to megatron, it is the name of
    a pair without .bin and .idx. The rows keep their order. Beside token files P, the file
    P.provenance.parquet names the source of each document; see `inspect --token`, and
    `verify --source`. With --count-only, the counts are
    stored, and loaders with the same options, labels included, reuse them.

    \b
    Example:
      shardmill tokenize data/ tokens/ --tokenizer model/ --eos "<|endoftext|>"
      shardmill tokenize data.jsonl corpus --to megatron --tokenizer model/ --eos "<|endoftext|>"
      shardmill tokenize chat.jsonl out/ --tokenizer model/ --messages messages --labels assistant
      shardmill tokenize data/ --tokenizer model/ --count-only --counts s3://bucket/counts
    """
    *sources, last = paths
    if options["count_only"]:
        sources, last = [*sources, last], ""
    elif not sources:
        raise click.UsageError("pass SRC and DST, or --count-only")
    tokenize = tokenize_of(options)
    kept = [*(options["keep"] or ()), *tokenize.outputs]
    _refuse_twice(kept, tokenize.outputs)
    if options["to"] in WRITTEN_TOKENS and len(kept) > 1:
        raise click.UsageError(f"--to {options['to']} stores tokens, without --keep and --labels")
    given = {**options, "paths": sources, "columns": kept}
    try:
        dataset = open_dataset(given, tokenize=tokenize, threads=options["threads"])
    except MissingColumnError as error:
        if options["text_columns"] or tokenize.text != ("text",):
            raise
        raise MissingColumnError(f"{error}\nhint: --column names the column of texts") from error
    if not dataset.files:
        raise NotFoundError(f"there are no files to tokenize at {', '.join(sources)}")
    if options["count_only"]:
        _count(dataset, tokenize.counts, as_json=as_json)
    else:
        refuse_input(sources, dataset.files, last, keeps_rows=False)
        _write(dataset, tokenize, last, options, as_json=as_json)


def _refuse_twice(names: Sequence[str], outputs: Sequence[str]) -> None:
    """Check that no column would be written twice.

    Raises:
        click.UsageError: If one would.
    """
    twice = next((name for number, name in enumerate(names) if name in names[:number]), None)
    if twice is None:
        return
    if twice not in outputs:
        raise click.UsageError(f"--keep names column {twice!r} twice")
    option = "--output" if twice == outputs[0] else "--labels-output"
    raise click.UsageError(
        f"--keep names column {twice!r}, which is the name of a new column\n"
        f"hint: rename it with {option}"
    )


def _count(dataset: Any, directory: str, *, as_json: bool) -> None:
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        counts = dataset.token_counts()
    for warning in raised:
        warnings.warn(warning.message, stacklevel=2)
    if as_json:
        found = {
            "rows": counts.rows,
            "tokens": counts.total,
            "mean": counts.mean,
            "longest": counts.longest,
        }
        write_json(found | {"counts": directory})
        return
    shown = [("rows", f"{counts.rows:,}"), ("tokens", f"{counts.total:,}")]
    shown += [("mean", f"{counts.mean:,.1f}"), ("longest", f"{counts.longest:,}")]
    for line in aligned(shown, to_the_right=[False, True]):
        click.echo(line)
    # All warnings say that counts cannot be kept or read.
    if not raised:
        tell(f"token counts are stored in {directory}")


def _write(
    dataset: Any, tokenize: Tokenize, dst: str, options: dict[str, Any], *, as_json: bool
) -> None:
    from shardmill.storage._paths import served_path

    pyarrow_for("tokenize")
    start = time.perf_counter()
    named = {name: options[name] for name in ("shard_bytes", "threads", "mode")}
    vocab_size = tokenize.tokenizer and tokenize.tokenizer.vocab_size
    layout = token_layout_of(options, options["to"], vocab_size)
    rows = tokens = 0
    # The provenance is published after the tokens.
    with (
        _provenance_writer(dst, dataset, tokenize, layout, options) as provenance,
        open_writer(
            served_path(dst),
            format=options["to"],
            schema=dataset.schema,
            token_layout=layout,
            **named,
        ) as writer,
        BatchBar(
            dataset, passes=1, is_shown=options["progress"], threads=options["threads"]
        ) as bar,
    ):
        for batch in bar.batches(dataset):
            writer.write_batch(batch)
            lists = batch.column(tokenize.output)
            if provenance is not None:
                provenance.add(lists.value_lengths().to_pylist())
            rows += batch.num_rows
            tokens += len(lists.flatten())
    seconds = time.perf_counter() - start
    if as_json:
        write_json({"rows": rows, "tokens": tokens, "files": writer.files, "seconds": seconds})
    shown = (
        f"{counted(tokens, 'token')} of {counted(rows, 'row')} written "
        f"to {counted(len(writer.files), 'file')}"
    )
    tell(f"{shown} in {seconds:.1f} s")


def _provenance_writer(
    dst: str,
    dataset: Any,
    tokenize: Tokenize,
    layout: TokenLayout | None,
    options: dict[str, Any],
) -> AbstractContextManager[ProvenanceWriter | None]:
    """Return the writer of the provenance; nothing for Parquet, which can keep columns."""
    from shardmill.storage._paths import served_path
    from shardmill.write._provenance import ProvenanceWriter

    if options["to"] not in WRITTEN_TOKENS or options["no_provenance"]:
        return nullcontext()
    with exists_hint(OVERWRITE_HINT):
        return ProvenanceWriter(
            served_path(dst),
            dataset,
            tokenize,
            tokenizer={
                "path": options["tokenizer"],
                "pattern": options["pattern"],
                "special_tokens": options["special_tokens"],
            },
            format=options["to"],
            layout=layout,
            hive=options["hive"],
            mode=options["mode"],
        )
