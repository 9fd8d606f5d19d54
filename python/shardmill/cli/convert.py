"""The command ``shardmill convert``."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from shardmill.cli.options import Size, progress_option
from shardmill.cli.tables import Filter, open_dataset, size_text
from shardmill.written_formats import EXTENSIONS

#: Rows that are read and written at once, unless they are large.
_ROWS_AT_ONCE = 1024
_BYTES_AT_ONCE = 16 << 20

_HINT = "\nhint: "


@click.command(name="convert")
@click.argument("src", nargs=-1, required=True, metavar="SRC...")
@click.argument("dst")
@click.option(
    "--to", type=click.Choice(["arrayrecord", "parquet"]), help="What is written; else the name of DST tells."
)
@click.option("--column", metavar="NAME", help="Write this column only; ArrayRecord takes one.")
@click.option("--filter", type=Filter(), help='Only rows for which EXPR is true, such as "text is not null".')
@click.option("--compression", metavar="CODEC", help="zstd, snappy or none; for ArrayRecord also zstd:5 or brotli:5.")
@click.option("--group-size", type=click.IntRange(min=1), metavar="N", help="ArrayRecord: records of a chunk; else 1.")
@click.option("--size-limit", type=Size(), help="Rows of one shard when DST is a folder, uncompressed; else 256MiB.")
@click.option("--overwrite", is_flag=True, help="Replace what is there.")
@progress_option
def command(src: tuple[str, ...], dst: str, **options: Any) -> None:
    """Write the rows of SRC to DST as ArrayRecord or Parquet, and compare what was written with what was read.

    SRC is a file, a folder or a glob of Parquet, ORC, CSV, JSONL or ArrayRecord files. DST is one file when its name
    ends in .array_record or .parquet, and else a folder of shards. Nothing is left behind on failure.

    \b
    Example:
      shardmill convert data/ records/ --to arrayrecord --column text
      shardmill convert data/*.parquet train.array_record --column image --group-size 64
      shardmill convert train.array_record train.parquet --overwrite
    """
    from shardmill import Writer
    from shardmill._native.write import RowDigest
    from shardmill.errors import FormatError, NotFoundError, OptionError, OutputExistsError

    start = time.perf_counter()
    if options["to"] is None and not dst.lower().endswith(sum(EXTENSIONS.values(), ())):
        raise click.UsageError(f"the name {dst!r} does not tell a format; give --to arrayrecord or --to parquet")
    _check_pyarrow()
    column, is_shown = options["column"], options["progress"]
    columns = [column] if column else None
    dataset = open_dataset(
        {"paths": src, "columns": columns, "filter": options["filter"], "format": None, "hive": False}
    )
    if not dataset.files:
        raise NotFoundError(f"there are no files to convert at {', '.join(src)}")
    try:
        writer = Writer(
            dst,
            format=options["to"],
            schema=dataset.schema if options["to"] == "parquet" or _is_parquet(dst, options["to"]) else None,
            compression=options["compression"],
            group_size=options["group_size"],
            size_limit=options["size_limit"],
            mode="overwrite" if options["overwrite"] else "error",
        )
    except OptionError as error:
        raise click.UsageError(str(error)) from error
    except OutputExistsError as error:
        raise OutputExistsError(f"{str(error).partition(_HINT)[0]}{_HINT}--overwrite replaces it") from error
    read, written = RowDigest(), RowDigest()
    with _Bar(dataset, is_shown=is_shown) as bar:
        with writer:
            if writer.format == "arrayrecord" and len(dataset.columns) != 1:
                names = ", ".join(dataset.columns)
                raise click.UsageError(f"ArrayRecord has one column; pick one of {names} with --column")
            for batch in bar.batches(dataset):
                writer.write_batch(batch)
                read.update(batch)
        try:
            for batch in bar.batches(_written(writer)):
                written.update(batch)
            if (read.rows, read.value) != (written.rows, written.value):
                raise FormatError(
                    f"{written.rows:,} rows were written that are not the {read.rows:,} rows that were read"
                )
        except BaseException:
            for path in writer.files:
                Path(path).unlink(missing_ok=True)
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


def _is_parquet(dst: str, to: str | None) -> bool:
    return to is None and dst.lower().endswith(EXTENSIONS["parquet"])


def _written(writer: Any) -> Any:
    from shardmill import Dataset

    return Dataset(writer.files, format=writer.format)


def _tell(dataset: Any, writer: Any, read: Any, seconds: float) -> None:
    """A summary on stderr."""
    before, after = (sum(Path(path).stat().st_size for path in files) for files in (dataset.files, writer.files))
    print(
        f"{read.rows:,} rows of {_counted(dataset)} ({size_text(before)}) written to {_counted(writer)} ({size_text(after)})"
        f" in {seconds:.1f} s; read back, hash {read.value}",
        file=sys.stderr,
    )


def _counted(of: Any) -> str:
    return f"{len(of.files):,} {of.format} {'file' if len(of.files) == 1 else 'files'}"
