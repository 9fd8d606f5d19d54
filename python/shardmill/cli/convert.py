"""The command ``shardmill convert``."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from shardmill.cli.options import (
    Names,
    Size,
    TypedNames,
    ignore_zeros_option,
    limit_option,
    progress_option,
    storage_option,
)
from shardmill.cli.tables import Filter, open_dataset, size_text
from shardmill.shard_index import index_path
from shardmill.terminal import escape
from shardmill.written_formats import EXTENSIONS, format_of

#: Rows that are read and written at once, unless they are large.
_ROWS_AT_ONCE = 1024
_BYTES_AT_ONCE = 16 << 20

_HINT = "\nhint: "


@click.command(name="convert")
@click.argument("src", nargs=-1, required=True, metavar="SRC...")
@click.argument("dst")
@click.option("--to", type=click.Choice(sorted(EXTENSIONS)), help="What is written; else the name of DST tells.")
@click.option("--column", metavar="NAME", help="Write this column only; ArrayRecord takes one.")
@click.option(
    "--columns",
    type=TypedNames(),
    help="Write these only, in this order; for MDS also the encoding of a column, as in text,box=json.",
)
@click.option("--filter", type=Filter(), help='Only rows for which EXPR is true, such as "text is not null".')
@click.option("--compression", metavar="CODEC", help="zstd, gz, snappy, none, …; what each format has is in the guide.")
@click.option("--group-size", type=click.IntRange(min=1), metavar="N", help="ArrayRecord: records of a chunk; else 1.")
@click.option("--size-limit", type=Size(), help="Of a shard, uncompressed; else 256MiB, for MDS 64MiB.")
@click.option("--hashes", type=Names(), help="Digests for the index of MDS, such as sha1,xxh3_64.")
@click.option("--workers", type=click.IntRange(min=1), metavar="N", help="Threads that encode; else one a core.")
@click.option("--overwrite", is_flag=True, help="Replace what is there.")
@ignore_zeros_option
@progress_option
@limit_option
@storage_option
def command(src: tuple[str, ...], dst: str, **options: Any) -> None:
    """Write the rows of SRC to DST in another format, and compare what was written with what was read.

    SRC is a file, a folder or a glob of Parquet, ORC, CSV, JSONL, MDS, WebDataset or ArrayRecord files. DST is one file
    when its name ends in .parquet, .jsonl, .tar or .array_record, and else a folder of shards. What the format cannot
    hold is refused before anything is written. Nothing is left behind on failure.

    \b
    Example:
      shardmill convert data/ records/ --to arrayrecord --column text
      shardmill convert data/*.parquet train.array_record --column image --group-size 64
      shardmill convert data/ streaming/ --to mds --hashes sha1,xxh3_64 --compression zstd
      shardmill convert data/ streaming/ --to mds --columns text,boxes=json,embedding=ndarray:float32
      shardmill convert shards/ table.parquet --columns txt,cls --overwrite
    """
    from shardmill import Writer
    from shardmill._native import storage
    from shardmill._native.write import RowDigest
    from shardmill.cli.conversion import Conversion
    from shardmill.errors import FormatError, NotFoundError, OptionError, OutputExistsError
    from shardmill.storage import served_path

    start = time.perf_counter()
    dst = served_path(dst)
    is_new = storage.size(dst) is None
    try:
        format = format_of(dst, options["to"])
    except OptionError as error:
        raise click.UsageError(
            f"the name {dst!r} does not tell a format; give --to, one of {', '.join(EXTENSIONS)}"
        ) from error
    if options["column"] and options["columns"]:
        raise click.UsageError("give --column or --columns, not both")
    _check_pyarrow()
    types = options["columns"] or {}
    columns = [options["column"]] if options["column"] else list(types) or None
    encodings = {name: encoding for name, encoding in types.items() if encoding is not None}
    if encodings and format != "mds":
        raise click.UsageError(f"encodings of columns are for --to mds, and {format} has none")
    dataset = open_dataset(
        {
            "paths": src,
            "columns": columns,
            "filter": options["filter"],
            "format": None,
            "hive": False,
            "ignore_zeros": options["ignore_zeros"],
        }
    )
    if not dataset.files:
        raise NotFoundError(f"there are no files to convert at {', '.join(src)}")
    try:
        conversion = Conversion(dataset, format, encodings)
        writer = Writer(
            dst,
            format=format,
            columns=conversion.encodings,
            schema=dataset.schema if format in ("parquet", "jsonl", "webdataset") else None,
            compression=options["compression"],
            group_size=options["group_size"],
            size_limit=options["size_limit"],
            hashes=options["hashes"] or (),
            threads=options["workers"],
            mode="overwrite" if options["overwrite"] else "error",
        )
    except OptionError as error:
        raise click.UsageError(str(error)) from error
    except OutputExistsError as error:
        raise OutputExistsError(f"{str(error).partition(_HINT)[0]}{_HINT}--overwrite replaces it") from error
    for note in conversion.notes:
        print(escape(f"note: {note}"), file=sys.stderr)
    read, written = RowDigest(), RowDigest()
    with _Bar(dataset, is_shown=options["progress"]) as bar:
        with writer:
            for batch in bar.batches(dataset):
                writer.write_batch(batch)
                read.update(conversion.held(batch))
        try:
            for batch in bar.batches(conversion.written(dst, writer.files)):
                written.update(conversion.held(batch))
            if (read.rows, read.value) != (written.rows, written.value):
                raise FormatError(
                    f"{written.rows:,} rows were written that are not the {read.rows:,} rows that were read"
                )
        except BaseException:
            for path in [*writer.files, *([index_path(dst)] if format == "mds" else [])]:
                storage.remove(path)
            if is_new and not storage.is_remote(dst):
                with suppress(OSError):
                    Path(dst).rmdir()
            raise
    _tell(dataset, writer, read, time.perf_counter() - start)


class _Bar:
    """The progress over reading and reading back."""

    def __init__(self, dataset: Any, *, is_shown: bool) -> None:
        from shardmill.curate.progress import Progress

        rows = max(len(dataset), 1)
        self._row_bytes = dataset.row_plan().decoded_bytes / rows
        self._batch_size = max(1, min(_ROWS_AT_ONCE, int(_BYTES_AT_ONCE / max(self._row_bytes, 1))))
        self._progress = Progress(total=2 * -(-rows // self._batch_size), is_shown=is_shown, noun="batches")

    def __enter__(self) -> _Bar:
        self._progress.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._progress.__exit__(*exception)

    def batches(self, dataset: Any) -> Iterator[Any]:
        """Arrow record batches in the order of the rows."""
        from shardmill import Loader

        left = len(dataset)
        for batch in Loader(dataset, batch_size=self._batch_size, output="arrow", rank=0, world_size=1):
            yield batch
            rows = min(left, self._batch_size)
            left -= rows
            self._progress.count(samples=rows, size=int(rows * self._row_bytes))


def _check_pyarrow() -> None:
    """Batches are cut by it."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ImportError("convert needs pyarrow\nhint: pip install pyarrow") from error


def _tell(dataset: Any, writer: Any, read: Any, seconds: float) -> None:
    """A summary on stderr."""
    from shardmill._native import storage

    before, after = (sum(storage.size(path) or 0 for path in files) for files in (dataset.files, writer.files))
    print(
        f"{read.rows:,} rows of {_counted(dataset)} ({size_text(before)}) written to {_counted(writer)} ({size_text(after)})"
        f" in {seconds:.1f} s; read back, hash {read.value}",
        file=sys.stderr,
    )


def _counted(of: Any) -> str:
    return f"{len(of.files):,} {of.format} {'file' if len(of.files) == 1 else 'files'}"
