"""Rows of plain tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shardmill.curate.sources import Source, names_of
from shardmill.errors import OptionError
from shardmill.expressions import Expression, expression_of
from shardmill.storage import refuse_keys

# Enough rows to make starting a split cheap, few enough to keep all cores at work.
_BLOCKSIZE = 32_000_000


@dataclass(frozen=True, repr=False)
class TableSource(Source):
    """Parquet, ORC, CSV, JSONL or ArrayRecord files of any columns, whose rows are no documents.

    Consecutive files are read together up to ``blocksize``, and become one output file; a larger file is cut between its
    row groups or stripes. Hidden files, files and folders that start with ``_``, and ``.crc`` files are left out. The
    first file of such a group decides about columns and types; a column that a later file lacks is null there.

    A job over tables is strict: the first file that cannot be read stops it, whatever ``max_errors`` says.

    Args:
        path: a file, a folder (searched recursively), a glob, or a list of these.
        columns: names of the columns to read, in this order; all, when nothing is said.
        filter: an expression such as ``sm.col("words") > 10``, or a list of ``(column, op, value)``; other rows are left
            out before any stage. It may use any column of the files.
        format: ``"parquet"``, ``"orc"``, ``"csv"``, ``"json"``, ``"jsonl"``, ``"arrayrecord"`` or ``"webdataset"``; by the files'
            names, when nothing is said.
        files_per_partition: so many consecutive files make one output file.
        blocksize: files are packed in their order up to so many bytes (``128_000_000`` or ``"128MB"``); 32 MB, when nothing
            is said.
        schema: Arrow schema of CSV and JSONL files; inferred from the start of every file, when nothing is said. Other
            formats bring their own.
        max_decoded_bytes: the largest decoded size of one value, line, page or member, such as ``"4GiB"``; 1 GiB when ``None``.
        storage_options: how the store of remote paths is reached, see :func:`shardmill.storage.configure`.

    Example:
        >>> import pyarrow as pa, pyarrow.parquet as pq, shardmill as sm
        >>> from shardmill.curate import Map, ParquetSink, Pipeline, TableSource
        >>> pq.write_table(pa.table({"id": ["a", "b", "c"], "words": [5, 20, 30]}), "rows.parquet")
        >>> def shout(table):
        ...     return table.set_column(0, "id", pa.array([id.as_py().upper() for id in table["id"]]))
        >>> source = TableSource("rows.parquet", filter=sm.col("words") > 10)
        >>> pipeline = Pipeline(source=source, stages=[Map(shout, batch_size=1000)], sink=ParquetSink("out"))
        >>> report = pipeline.run()
        >>> pq.read_table("out").to_pydict()
        {'id': ['B', 'C'], 'words': [20, 30]}
        >>> report.rows_dropped
        {'source filter': 1}
    """

    kind = "table"

    columns: Sequence[str] | None = None
    filter: Expression | list[Any] | None = None
    format: str | None = None

    def __post_init__(self) -> None:
        refuse_keys(self.paths())
        for option in ("max_batch_bytes", "schema_overrides", "allowed_roots"):
            if getattr(self, option) not in (None, ()):
                raise OptionError(f"`{option}` is for documents of text and images; a TableSource does not have it")

    def options(self) -> dict[str, Any]:
        """What the native reader needs to know."""
        return {
            "columns": None if self.columns is None else names_of(self.columns, "columns"),
            "filter": None if self.filter is None else expression_of(self.filter).tree,
            "format": self.format,
            "max_decoded_bytes": self.decode_limit(),
        }

    def partitioning(self) -> dict[str, Any]:
        """How files become splits."""
        given = super().partitioning()
        if self.files_per_partition is None and self.blocksize is None:
            given["blocksize_bytes"] = _BLOCKSIZE
        return given
