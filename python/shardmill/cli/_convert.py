"""The command ``shardmill convert``."""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shardmill._extras import pyarrow_for
from shardmill._terminal import counted, escape, size_text
from shardmill.cli._batch_bar import BatchBar
from shardmill.cli._messages import tell
from shardmill.cli._options import (
    FROM_1,
    Names,
    Size,
    TypedNames,
    limit_option,
    one_of,
    paths_argument,
    progress_option,
    storage_option,
    threads_option,
)
from shardmill.cli._tables import (
    filter_option,
    format_options,
    open_dataset,
    open_writer,
    refuse_input,
    source_and_destination,
    token_files_option,
    token_layout_of,
    token_layout_options,
)
from shardmill.data._shard_index import index_path
from shardmill.errors import OptionError
from shardmill.write._formats import EXTENSIONS, READ_EXTENSIONS, format_of
from shardmill.write._token_layout import WRITTEN_TOKENS, columns_of_pairs, pair_prefix

if TYPE_CHECKING:
    from shardmill import Dataset


@click.command(name="convert")
@paths_argument("SRC... DST")
@click.option(
    "--to",
    type=click.Choice(sorted(EXTENSIONS)),
    help="Output format; default: from the name of DST.",
)
@click.option("--column", metavar="NAME", help="Write only this column; ArrayRecord has one.")
@click.option(
    "--columns",
    type=TypedNames(),
    help="Write only these columns, in this order; "
    "for MDS optionally with encodings, as in text,box=json.",
)
@click.option(
    "--rename",
    "renames",
    multiple=True,
    metavar="OLD=NEW",
    help="Write column OLD as NEW; may be repeated. Other options take the names in SRC.",
)
@filter_option
@click.option(
    "--compression",
    metavar="CODEC",
    help="zstd, gz, snappy, none, …; what each format has is in the guide.",
)
@click.option("--group-size", **FROM_1, help="ArrayRecord: records of a chunk; else 1.")
@click.option(
    "--shard-bytes",
    type=Size(),
    help="Size of a shard, uncompressed; 256MiB by default, for MDS 64MiB.",
)
@token_layout_options
@click.option("--vocab-size", **FROM_1, help="Number of ids of the vocabulary of tokens.")
@token_files_option
@click.option("--hashes", type=Names(), help="Digests for the index of MDS, such as sha1,xxh3_64.")
@threads_option
@click.option("--mode", **one_of("error", "overwrite"), help="What happens to an existing output.")
@format_options
@progress_option
@limit_option
@storage_option
def command(paths: tuple[str, ...], **options: Any) -> None:
    """Write the rows of SRC to DST in another format, and compare the output with the input.

    SRC is a file, a directory or a glob of Parquet, ORC, CSV, JSONL, MDS, WebDataset or ArrayRecord
    files, or of token files. DST is one file if its name ends in .parquet, .jsonl, .tar,
    .array_record or .bin, else a directory of shards; with --to megatron, it is the name of a pair
    without .bin and .idx. Data that the format cannot store is rejected before anything is written.
    On failure, no output is left, except for a file that replaced its own source. The provenance of
    token files is kept.

    \b
    Example:
      shardmill convert data/ records/ --to arrayrecord --column text
      shardmill convert data/*.parquet train.array_record --column image --group-size 64
      shardmill convert data/ streaming/ --to mds --hashes sha1,xxh3_64 --compression zstd
      shardmill convert data/ streaming/ --to mds --columns text,box=json,embedding=ndarray:float32
      shardmill convert shards/ table.parquet --columns txt,cls --rename txt=text --rename cls=label
      shardmill convert tokens.parquet corpus --to megatron --column tokens --vocab-size 50257
      shardmill convert corpus train.bin --stored-dtype uint16 --header llm.c
    """
    from shardmill._native import storage
    from shardmill.cli._conversion import Conversion
    from shardmill.errors import FormatError, NotFoundError
    from shardmill.storage._paths import served_path

    start = time.perf_counter()
    src, dst = source_and_destination(paths)
    dst = served_path(dst)
    is_new = storage.size(dst) is None
    try:
        format = format_of(dst, options["to"])
    except OptionError as error:
        if options["to"] or dst.lower().endswith(READ_EXTENSIONS):
            raise click.UsageError(str(error)) from error
        raise click.UsageError(
            f"the extension of {dst!r} does not match a format; "
            f"pass --to, one of {', '.join(EXTENSIONS)}"
        ) from error
    if options["column"] == "" or options["columns"] == {}:
        raise click.UsageError(
            "--column and --columns take names of columns; omit them to write all"
        )
    if options["column"] and options["columns"]:
        raise click.UsageError("pass --column or --columns, not both")
    pyarrow_for("convert")
    types = options["columns"] or {}
    columns = [options["column"]] if options["column"] else list(types) or None
    encodings = {name: encoding for name, encoding in types.items() if encoding is not None}
    if encodings and format != "mds":
        raise click.UsageError(f"encodings of columns are for --to mds, and {format} has none")
    keeps_rows = columns is None and options["filter"] is None
    dataset = open_dataset({**options, "paths": src, "columns": columns})
    if not dataset.files:
        raise NotFoundError(f"there are no files to convert at {', '.join(src)}")
    if format == dataset.format == "megatron" and columns is None:
        columns = columns_of_pairs(dataset)
        dataset = open_dataset({**options, "paths": src, "columns": columns})
    first = f"{pair_prefix(dst)}.bin" if format == "megatron" else dst
    replaces_source = refuse_input(src, dataset.files, first, keeps_rows=keeps_rows)
    try:
        conversion = Conversion(dataset, format, encodings, options["renames"])
        writer = open_writer(
            dst,
            format=format,
            columns=conversion.encodings,
            schema=conversion.schema if format in ("parquet", "jsonl", "webdataset") else None,
            hashes=options["hashes"] or (),
            token_layout=token_layout_of(options, format, options["vocab_size"]),
            **{
                name: options[name]
                for name in ("compression", "group_size", "shard_bytes", "threads", "mode")
            },
        )
    except OptionError as error:
        raise click.UsageError(str(error)) from error
    for note in conversion.notes:
        tell(f"note: {note}")
    read, written = conversion.digest(), conversion.digest()
    # The provenance is published after the tokens.
    with (
        _provenance(dst, dataset, format, options),
        BatchBar(dataset, passes=2, is_shown=options["progress"]) as bar,
    ):
        with writer:
            for batch in bar.batches(dataset):
                batch = conversion.stored(batch, read.rows)
                writer.write_batch(batch)
                read.update(conversion.held(batch))
        try:
            for batch in bar.batches(conversion.written(dst, writer.files, writer.dtype)):
                written.update(conversion.held(batch))
            if (read.rows, read.value) != (written.rows, written.value):
                noun = "token" if format == "bin" else "row"
                raise FormatError(
                    f"the output has {counted(written.rows, noun)}, "
                    f"which differ from the {counted(read.rows, noun)} read"
                )
        except BaseException:
            if replaces_source:
                # It is the only copy of the rows.
                print(
                    escape(
                        f"note: {dst!r} replaced its source and is kept, "
                        "although the rows were not found equal"
                    ),
                    file=sys.stderr,
                )
                raise
            indexes = [index_path(dst)] if format == "mds" else []
            if format == "megatron":
                indexes = [f"{pair_prefix(path)}.idx" for path in writer.files]
            for path in [*indexes, *writer.files]:
                storage.remove(path)
            if is_new and not storage.is_remote(dst):
                with suppress(OSError):
                    Path(dst).rmdir()
            raise
    _tell(dataset, writer, read, time.perf_counter() - start)


def _provenance(
    dst: str, dataset: Dataset, format: str, options: dict[str, Any]
) -> AbstractContextManager[None]:
    """Return a context that writes the provenance if all tokens of token files are copied."""
    from shardmill.write._copied_provenance import copied_provenance

    has_all = options["filter"] is None and not options["renames"] and "tokens" in dataset.columns
    if not has_all or not {format, dataset.format} <= {*WRITTEN_TOKENS}:
        return nullcontext()
    return copied_provenance(dst, [dataset], format=format, header=options["header"])


def _tell(dataset: Any, writer: Any, read: Any, seconds: float) -> None:
    """Print a summary to stderr."""
    from shardmill._native import storage

    before, after = (
        sum(storage.size(path) or 0 for path in files) for files in (dataset.files, writer.files)
    )
    tell(
        f"{counted(writer.num_rows, 'row')} of {_counted(dataset)} ({size_text(before)}) written "
        f"to {_counted(writer)} ({size_text(after)}) in {seconds:.1f} s; "
        f"read back, hash {read.value}"
    )


def _counted(of: Any) -> str:
    return counted(len(of.files), f"{of.format} file")
