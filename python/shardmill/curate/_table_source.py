"""Rows of plain tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from shardmill._option_values import listed
from shardmill.curate._sources import Source
from shardmill.data._dataset import Format
from shardmill.data._text_options import TextOptions, checked_text
from shardmill.errors import OptionError
from shardmill.expressions import Expression, Value, expression_of


@dataclass(frozen=True, repr=False)
class TableSource(Source):
    """Files with any columns, whose rows are not documents.

    The formats are Parquet, ORC, CSV, JSONL, ArrayRecord, MDS and WebDataset.

    Consecutive files are read together up to ``partition_bytes``, and become one output file; a
    larger file is split between its row groups or stripes. Hidden files, files and directories that
    start with ``_``, and ``.crc`` files are skipped.

    All files of a job have one schema, as those of a ``Dataset``. It is decided before the first
    file is written, and does not depend on how files are divided. Columns are matched by name,
    types are widened without loss, and a column that a file lacks is null there. Types without a
    common one are an error, and so is a value that the common type cannot hold exactly. Files that
    are added to a job with a checkpoint must fit the schema that it has planned.

    A job over tables is strict: the first file that cannot be read stops it, for any
    ``max_errors``.

    Args:
        path: a file, a directory (searched recursively), a glob, or a list of these.
        columns: names of the columns to read, in this order, or paths into structs such as
            ``"meta.lang"``; all by default.
        filter: an expression such as ``sm.col("words") > 10`` or ``"words > 10"``, or a list of
            ``(column, op, value)``; other rows are dropped before any stage. It may use any column
            of the files.
        format: ``"parquet"``, ``"orc"``, ``"csv"``, ``"json"``, ``"jsonl"``, ``"arrayrecord"``,
            ``"mds"`` or ``"webdataset"``; by default, inferred from the names or the first bytes of
            the files.
        files_per_partition: number of consecutive files that make one output file.
        partition_bytes: pack consecutive files into partitions of up to this size, such as
            ``"128MB"``; 32 MB by default.
        schema: Arrow schema of CSV and JSONL files; inferred from the start of every file by
            default. Other formats contain their schema.
        schema_overrides: types of some columns, a dict such as ``{"zip": pa.string()}`` or a
            schema, in place of those that the files have or that are inferred. Values are converted
            without loss; a value that does not fit stops the job. A column that no file has yet is
            null. A column of ids cannot be declared.
        text: delimiter, quotes and encoding of CSV and JSONL files, and whether ``NaN`` in JSON is
            an error; see ``TextOptions``.
        max_decoded_bytes: the largest decoded size of one value, line, page or member, such as
            ``"4GiB"``; 1 GiB by default.
        storage_options: options for the store of remote paths, see ``shardmill.storage.configure``.

    Examples:
        >>> import pyarrow as pa, pyarrow.parquet as pq, shardmill as sm
        >>> from shardmill.curate import Map, ParquetSink, Pipeline, TableSource
        >>> pq.write_table(pa.table({"id": ["a", "b", "c"], "words": [5, 20, 30]}), "rows.parquet")
        >>> def shout(table):
        ...     ids = [id.as_py().upper() for id in table["id"]]
        ...     return table.set_column(0, "id", pa.array(ids))
        >>> source = TableSource("rows.parquet", filter=sm.col("words") > 10)
        >>> stages = [Map(shout, batch_size=1000)]
        >>> pipeline = Pipeline(source=source, stages=stages, sink=ParquetSink("out"))
        >>> report = pipeline.run()
        >>> pq.read_table("out").to_pydict()
        {'id': ['B', 'C'], 'words': [20, 30]}
        >>> report.rows_dropped
        {'source filter': 1}
    """

    kind = "table"

    columns: Sequence[str] | None = None
    filter: Expression | Value | str | list[Any] | None = None
    format: Format | None = None
    text: TextOptions | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_text(self.text)
        if self.format is not None and not isinstance(self.format, str):
            raise OptionError(
                f"format must be the name of a format, such as 'parquet', not {self.format!r}"
            )
        for option in ("max_batch_bytes", "allowed_roots"):
            if getattr(self, option) not in (None, ()):
                raise OptionError(
                    f"`{option}` is only for documents of text and images, not for a TableSource"
                )

    def _options(self) -> dict[str, Any]:
        """Return the options of the native reader."""
        return {
            "columns": None if self.columns is None else listed("columns", self.columns),
            "filter": None if self.filter is None else expression_of(self.filter).tree,
            "format": self.format,
            "max_decoded_bytes": self._bytes_of("max_decoded_bytes"),
            # Checkpoints of jobs without it stay valid.
            **({} if self.text in (None, TextOptions()) else {"text": asdict(self.text)}),
        }
