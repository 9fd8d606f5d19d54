"""Writes rows to one file, or to numbered shards in a directory."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from shardmill._native import write as _native
from shardmill._option_values import whole
from shardmill._threads import checked_threads
from shardmill.errors import ClosedError, OptionError
from shardmill.storage._configure import configure_all
from shardmill.storage._fsspec import located
from shardmill.storage._paths import served_path
from shardmill.write._arrow_stream import arrow_stream
from shardmill.write._columns import WrittenColumns
from shardmill.write._earlier_shards import EarlierShards
from shardmill.write._formats import (
    MDS_MOST_BYTES,
    WrittenFormat,
    format_of,
    is_one_file,
    native_options,
    shard_limit,
)
from shardmill.write._index import WrittenIndex
from shardmill.write._metrics import WriterMetrics
from shardmill.write._output import Mode, check_target, output_of
from shardmill.write._publication import Publication
from shardmill.write._records import Records
from shardmill.write._row_batches import (
    RowBatches,
    column_values,
    refuse_names,
    row_mapping,
)
from shardmill.write._token_layout import (
    TokenLayout,
    check_shard_bytes,
    layout_options,
    names_of_pair,
    pair_location,
)

#: Number of single rows from which column types are inferred, and their approximate size: enough
#: that a value that is usually missing is found.
_FIRST_ROWS = 1024
_FIRST_BYTES = 64 << 20
_OTHER_COLUMNS = 2


class Writer:
    """Write rows as Parquet, MDS, WebDataset, JSONL, ArrayRecord or files of token ids.

    Files have hidden names until ``close``; after an exception in the with-block, they are removed.
    If ``out`` has the extension of its format, one file is written. Otherwise ``out`` is a
    directory of shards: ``part-00000.parquet`` and so on; for MDS, ``shard.00000.mds`` and so on,
    with an ``index.json`` that is written last. The output does not depend on the number of
    threads. If a method that takes rows raises, the writer is closed and nothing is published.

    No value is changed. One that its column cannot hold raises an error that names the column; for
    Python objects, also the row and the value. By format:

    * Parquet supports all Arrow types except unions, intervals of months, days and nanoseconds, and
      structs without fields. Parquet has no seconds: ``timestamp[s]`` and ``time32[s]`` are stored
      in milliseconds, and ``date64`` as ``date32``. List views are stored as lists, and
      dictionaries of values other than strings, binaries, integers and floats as plain values.
    * MDS files are byte-identical to those of MosaicML's writer; ``columns`` sets the encodings,
      which are inferred from the first rows by default. As in MosaicML's writer, numeric columns
      accept bools and NumPy scalars, JSON columns accept ``None``, and columns of a row that have
      no encoding are ignored. Values that MosaicML's writer would change, such as a fraction in an
      integer column, raise an error.
    * WebDataset has one member per column, with the column name as its extension: binaries and
      strings unchanged, integers as decimal digits, other values as JSON if the column is named
      ``json`` or ``….json``. A null has no member. The column ``__key__`` names samples; without
      it, samples are numbered. The columns ``__url__`` and ``__local_path__``, which readers add,
      are not written. A file ``{"bytes": …, "path": …}`` has the extension of its path, otherwise
      the one that its bytes imply.
    * JSONL has one object per row. Binaries and non-finite numbers are rejected.
    * ArrayRecord has one column of strings or binaries without nulls.
    * ``"megatron"`` writes the pair ``out.bin`` and ``out.idx``, with the bytes of
      ``IndexedDatasetBuilder`` of Megatron-LM: a row is a document, its lists are ``tokens`` and,
      if the rows have them, ``sequence_lengths`` and ``modes``. A document is one sequence by
      default, and an empty one has none. With ``shard_bytes``, several pairs are called
      ``out_00000`` and so on. The index gets its name last.
    * ``"bin"`` writes the ids of ``tokens`` one after another, and nothing between rows: include an
      end token. Both take rows of one column of any name, and ``token_layout`` says how an id is
      stored.

    Args:
        out: the file or directory.
        columns: names of the columns to write, in this order; all by default. For MDS and Parquet
            also a mapping of name to type: an MDS encoding (``"str"``, ``"int"``,
            ``"ndarray:uint16"``, ``"json"``, ``"jpeg"``) or a ChiniDataset type (``"int32"``,
            ``"uint32[]"``). With types, rows of Parquet must not have other columns.
        schema: Arrow schema of the rows; inferred from the first rows by default. Not for
            ArrayRecord.
        format: ``"arrayrecord"``, ``"parquet"``, ``"jsonl"``, ``"webdataset"``, ``"mds"``,
            ``"megatron"`` or ``"bin"``; by default, inferred from the extension of ``out``, and
            Parquet for a directory.
        compression: for ArrayRecord ``"zstd:3"``, ``"brotli:6"`` (both also without a level),
            ``"snappy"`` or ``"none"``; for Parquet ``"zstd"``, ``"snappy"``, ``"gzip"``,
            ``"brotli"``, ``"lz4"`` or ``"none"``; for JSONL and WebDataset ``"gz:6"``, ``"zstd:3"``
            (both also without a level) or ``"none"``; for MDS ``"zstd:7"``, ``"gz"``, ``"br"``,
            ``"bz2"``, ``"snappy"`` or ``"none"``. The default is zstd for ArrayRecord and Parquet.
            Other formats are not compressed by default, unless the name ``out`` implies it.
        group_size: number of records per ArrayRecord chunk; 1 by default, which is best for random
            access.
        shard_bytes: size of a shard before compression, such as ``"64MiB"``. The default is 256
            MiB, and 64 MiB for MDS and with an index. MDS shards end exactly where MosaicML's do,
            and 0 means no limit. JSONL and WebDataset shards do not exceed it, unless a single row
            does; neither do those of token ids. For Parquet and ArrayRecord, the size of the values
            in memory counts. A pair of Megatron-LM has no limit by default. Each shard is an open
            file until ``close``, so keep their number below ``ulimit -n``.
        mode: what happens if ``out`` exists. ``"error"`` rejects a file, or a directory with data
            files; ``"overwrite"`` replaces them one after the other once the new ones are complete,
            and an error in between leaves some of both, and no index; ``"append"`` adds shards to a
            directory and its index. Appended rows must have the columns of the existing shards, and
            numbered samples continue after the last one.
        threads: number of threads that encode and compress; the number of cores by default.
        hashes: algorithms such as ``"sha1"`` and ``"xxh3_64"`` whose digests are stored in the
            index.
        index: ``"chinidataset"`` writes the ``index.json`` of that library for a directory of
            Parquet shards. MDS always has its own index.
        storage_options: options for object stores, see ``shardmill.storage.configure``.
        modified: modification time of the members of WebDataset shards, in seconds since 1970; now
            by default. With a fixed time, equal rows produce equal bytes.
        page_checksums: whether each Parquet page has a CRC-32. ``Dataset``, ``Loader`` and
            ``verify`` always check it; pyarrow checks it if ``page_checksum_verification=True``.
        token_layout: how files of token ids store an id; see ``TokenLayout``.

    Raises:
        FileExistsError: If ``mode`` is ``"error"`` and the output exists.
        ValueError: If an option is not valid.

    Two writers may share one directory: with ``mode="append"`` both write complete shards;
    otherwise the one that closes last fails. In an object store, which has no locks, a writer that
    appends may fail too, and leaves nothing. If two writers overwrite and close at the same moment,
    both may succeed, and shards of both may remain.

    Examples:
        >>> import shardmill as sm
        >>> with sm.Writer("words.array_record") as writer:
        ...     writer.write(b"one")
        ...     writer.write({"word": "two"})
        >>> [row["record"] for row in sm.Dataset("words.array_record")]
        [b'one', b'two']
        >>> columns = {"text": "str", "label": "int"}
        >>> with sm.Writer("samples", format="mds", columns=columns, hashes=["sha1"]) as writer:
        ...     writer.write({"text": "hello", "label": 1})
        >>> sorted(os.listdir("samples"))
        ['index.json', 'shard.00000.mds']
    """

    def __init__(
        self,
        out: str | os.PathLike[str],
        *,
        columns: Sequence[str] | Mapping[str, str] | None = None,
        schema: Any = None,
        format: WrittenFormat | None = None,
        compression: str | None = None,
        group_size: int | None = None,
        shard_bytes: int | str | None = None,
        mode: Mode = "error",
        threads: int | None = None,
        hashes: Sequence[str] = (),
        index: Literal["chinidataset"] | None = None,
        modified: float | None = None,
        page_checksums: bool = True,
        token_layout: TokenLayout | None = None,
        storage_options: Any = None,
    ) -> None:
        if isinstance(out, str) and (not out or out.endswith("://")):
            raise OptionError(
                f"out {out!r} names no file or directory\n"
                "hint: pass a path, or scheme://bucket/path"
            )
        (out,), storage_options = located([out], storage_options)
        self._out = os.fspath(out)
        if not isinstance(self._out, str):
            raise OptionError(f"out must be a path as a string, not {type(self._out).__name__}")
        configure_all([self._out], storage_options)
        self._out = served_path(self._out)
        self._format = format_of(self._out, format)
        is_pair = self._format == "megatron"
        is_file = is_one_file(self._out, self._format) and not is_pair
        tokens = layout_options(token_layout, self._format, self._out, mode)
        check_target(self._out, is_file=is_file, mode=mode, shard_bytes=shard_bytes, index=index)
        self._columns = WrittenColumns(self._format, columns, schema)
        prefix = "shard." if self._format == "mds" or index is not None else "part-"
        limit = shard_limit(shard_bytes, self._format, is_streaming=prefix == "shard.")
        check_shard_bytes(tokens, limit)
        self._index = WrittenIndex(
            self._out,
            self._format,
            index,
            hashes=hashes,
            mode=mode,
            compression=compression,
            size_limit=limit,
        )
        where, names = self._out, None
        if is_pair:
            where, prefix = pair_location(self._out)
            names = names_of_pair(prefix)
        self._directory = output_of(where, is_file=is_file, mode=mode, prefix=prefix, names=names)
        earlier = list(self._directory.data_files())
        self._earlier = EarlierShards(self._out, self._format, mode, earlier)
        #: Whether the directory is complete without a shard of this writer.
        self._may_add_nothing = mode == "append" and bool(earlier)
        options = native_options(
            self._format,
            out=self._out,
            compression=compression,
            group_size=group_size,
            hashes=self._index.hashes,
            encodings=self._columns.encodings,
            size_limit=limit,
            modified=modified,
            page_checksums=page_checksums,
            next_key=self._earlier.next_key,
            tokens=tokens,
        )
        self._arguments = {
            "prefix": None if is_file else prefix,
            "size_limit": limit or MDS_MOST_BYTES,
            "replaces": mode == "overwrite",
            "first_number": self._directory.first_number() if mode == "append" else 0,
            "threads": checked_threads(threads),
        }
        self._batches = RowBatches(
            self._columns.names,
            self._columns.schema,
            self._columns.cells,
            is_mds=self._format == "mds",
            has_types=self._format in ("mds", "parquet"),
            # A member of a sample holds bytes, and so does a sample of MDS.
            takes_bytes=self._format == "webdataset" or self._columns.encodings is not None,
            # MosaicML's writer ignores other columns.
            is_exact=isinstance(columns, Mapping) and self._format != "mds",
            has_tokens=bool(tokens),
        )
        self._native = _native.Writer(
            where,
            options=options,
            columns=self._columns.names,
            schema=self._columns.file_schema,
            **self._arguments,
        )
        self._records = Records(self._columns.names, self._native)
        #: Rows from which the schema is inferred; later rows go to the buffer.
        self._first: list[dict[str, Any]] = []
        self._first_bytes = 0
        self._buffer: _native.RowBuffer | None = None
        self._publication = Publication(self._out, self._format, self._directory, self._index)
        self._is_open = True
        self._begun = time.perf_counter()
        self._publishing_since: float | None = None
        #: The counters at the end of the writer.
        self._ended: WriterMetrics | None = None

    @property
    def files(self) -> list[str]:
        """Paths of the written files, without the index; empty until ``close`` has renamed them."""
        return list(self._publication.files)

    @property
    def format(self) -> str:
        """The format of the files, such as ``"parquet"``."""
        return self._format

    @property
    def dtype(self) -> str | None:
        """How the ids of token files are stored; ``None`` for other formats and until ``close``."""
        return self._publication.dtype

    @property
    def num_rows(self) -> int:
        """Number of rows written so far."""
        if self._ended is not None:
            return self._ended.rows
        return (
            self._native.rows
            + len(self._first)
            + (0 if self._buffer is None else len(self._buffer))
        )

    def metrics(self) -> WriterMetrics:
        """Return the counters of this writer.

        Examples:
            >>> import shardmill as sm
            >>> with sm.Writer("squares") as writer:
            ...     writer.write({"x": 1, "y": 1})
            >>> metrics = writer.metrics()
            >>> metrics.rows, metrics.files
            (1, 1)
        """
        if self._ended is not None:
            return self._ended
        now = time.perf_counter()
        return WriterMetrics(
            rows=self.num_rows,
            bytes_written=self._publication.bytes + self._index.bytes,
            files=len(self._publication.files),
            elapsed_seconds=now - self._begun,
            publish_seconds=0.0 if self._publishing_since is None else now - self._publishing_since,
        )

    def write(self, row: bytes | bytearray | memoryview | str | Mapping[str, Any]) -> None:
        """Write a row.

        ArrayRecord takes bytes, a string or a mapping with one column; others take a mapping.

        Values may be arrays and tensors of any rank: they keep the type of their elements, or
        float32 for those that NumPy lacks, such as bfloat16. Strings, binaries, numbers, bools, and
        lists and dicts of them are written without pyarrow, if each column has values of one type,
        or integers and floats; other values are converted with pyarrow.

        Raises:
            TypeError, ValueError: If the format cannot hold the row.
            KeyError: If a column of ``columns`` is missing.
            RuntimeError: If the writer is closed.

        Examples:
            >>> import shardmill as sm
            >>> with sm.Writer("pets.parquet") as writer:
            ...     writer.write({"name": "Rex", "tags": ["dog", "old"]})
            ...     writer.write({"name": "Tom"})
            >>> list(sm.Dataset("pets.parquet"))
            [{'name': 'Rex', 'tags': ['dog', 'old']}, {'name': 'Tom', 'tags': None}]
        """
        if not self._is_open:
            self._check_open()
        try:
            if self._format == "arrayrecord":
                self._native.write_record(row if type(row) is bytes else self._records.record(row))
                return
            if type(row) is not dict:
                row = row_mapping(row, self._format)
            if self._format == "webdataset":
                row = self._columns.with_members(row, self._batches, self.num_rows)
            if 0 < self._batches.most_columns < len(row):
                self._batches.check(row, self.num_rows)
            if self._batches.cells and (
                self._buffer is not None or self._batches.schema is not None
            ):
                # Rows that wait for the column types are converted where they are kept.
                row = self._batches.with_cells(row, lambda: self.num_rows)
            buffer = self._buffer
            if buffer is None and (buffer := self._started(row)) is None:
                return
            if taken := buffer.append(row):
                self._take(buffer, taken, row)
        except BaseException:
            self._abandon()
            raise

    def write_batch(self, batch: Any) -> None:
        """Write rows: Arrow data, an Arrow array of records, or a mapping of column to values.

        Arrow data of any library is an object with ``__arrow_c_stream__`` or
        ``__arrow_c_array__``, such as a pyarrow table or reader, a polars or pandas frame, a
        DuckDB relation, or a ``Dataset``. Streams are written batch by batch. If a data set or a
        pyarrow reader fails, its exception keeps its type; for other streams, the Arrow C
        interface passes on only the message.

        Raises:
            TypeError, ValueError: If the format cannot hold the rows.
            KeyError: If a column of ``columns`` is missing.
            RuntimeError: If the writer is closed.

        Examples:
            >>> import shardmill as sm
            >>> with sm.Writer("numbers.jsonl") as writer:
            ...     writer.write_batch({"x": [1, 2, 3]})
            >>> with sm.Writer("large.parquet") as writer:
            ...     writer.write_batch(sm.Dataset("numbers.jsonl", filter=sm.col("x") > 1))
            >>> [row["x"] for row in sm.Dataset("large.parquet")]
            [2, 3]
        """
        self._check_open()
        self._guarded(lambda: self._write_batch(batch))

    def write_rows(
        self,
        rows: Iterable[Any],
        *,
        workers: int = 0,
        transform: Callable[[Any], Any] | None = None,
    ) -> None:
        """Write single rows, optionally transformed.

        They keep their order for any number of worker processes.

        Args:
            rows: input of ``write``, or of ``transform``. If ``transform`` returns ``None``, the
                row is skipped.
            workers: number of processes that call ``transform``, some rows ahead; with 0, the
                calling process does. With workers, it must be a module-level function, and rows and
                results must be picklable.
            transform: called with each item.

        Raises:
            Exception: The exception of ``transform`` itself, with a note that names the row. A
                worker adds its traceback as a note, and replaces an exception that cannot be
                pickled by a ``RuntimeError``.
            RuntimeError: If a worker dies.

        Examples:
            >>> import shardmill as sm
            >>> def lengths(text):
            ...     return {"length": len(text)} if text else None
            >>> with sm.Writer("lengths.jsonl") as writer:
            ...     writer.write_rows(["a", "", "bcd"], transform=lengths)
            >>> list(sm.Dataset("lengths.jsonl"))
            [{'length': 1}, {'length': 3}]
        """
        self._check_open()
        self._guarded(lambda: self._write_rows(rows, whole("workers", workers, 0), transform))

    def _write_rows(
        self, rows: Iterable[Any], workers: int, transform: Callable[[Any], Any] | None
    ) -> None:
        if transform is None:
            for row in rows:
                self.write(row)
            return
        # Its imports are half of those of a process that only writes.
        from shardmill.write._row_workers import transformed

        results = transformed(rows, transform, workers)
        try:
            for row in results:
                if row is not None:
                    self.write(row)
        finally:
            results.close()

    def close(self) -> None:
        """Write remaining data and rename the files. Closing twice is allowed.

        If it raises, nothing is published, with two exceptions: ``mode="overwrite"`` may have
        replaced some files already, and the sync of the index may have failed last.

        Raises:
            FileExistsError: If a file was created under one of the names in the meantime.
            RuntimeError: If the writer has failed.
        """
        if self._is_open:
            self._guarded(self._publish)

    def _publish(self) -> None:
        self._publishing_since = time.perf_counter()
        self._flush_rows()
        self._is_open = False
        if self._format != "mds" and self._may_add_nothing and self.num_rows == 0:
            # MDS without rows has no shard either, but an index.
            self._ended = self.metrics()
            self._native.abandon()
            return
        self._publication.publish(self._native, self._batches)
        self._ended = self.metrics()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_exception: object) -> None:
        if kind is None:
            self.close()
        else:
            self._abandon()

    def __del__(self) -> None:
        if getattr(self, "_is_open", False):
            warnings.warn(
                f"{self!r} was never closed, so nothing was written", ResourceWarning, stacklevel=2
            )

    def __repr__(self) -> str:
        return f"Writer({self._out!r}: {self._format}, {'open' if self._is_open else 'closed'})"

    def _write_batch(self, batch: Any) -> None:
        self._flush_rows()
        self._write_columns(batch)
        self._earlier.check(self._native, self._columns.alternatives)

    def _write_columns(self, batch: Any) -> None:
        if not isinstance(batch, Mapping):
            self._write_stream(batch)
        elif self._format != "arrayrecord":
            if self._batches.schema is None:
                self._columns.learn(batch, self._batches)
            self._native.write_batch(self._batches.of_columns(batch, first_row=self._native.rows))
        else:
            name = self._records.column(batch)
            for value in column_values(name, self._records.value(batch, name)):
                self._native.write_record(self._records.record({name: value}))

    def _write_stream(self, data: Any) -> None:
        schema, parts = arrow_stream(data)
        if schema is not None:
            refuse_names(schema)
            schema, parts = self._columns.stored(schema, parts)
            if self._format != "arrayrecord":
                self._batches.learn(schema)
        for part in parts:
            self._native.write_batch(part)

    def _started(self, row: dict[str, Any]) -> _native.RowBuffer | None:
        """Return the buffer for a row.

        It is ``None`` if the row has to wait because the column types are not known yet.
        """
        if not self._first and self._batches.schema is not None:
            self._buffer = self._new_buffer()
            return self._buffer
        self._columns.learn({name: [value] for name, value in row.items()}, self._batches)
        row = self._batches.with_cells(row, lambda: self.num_rows)
        self._first.append(row)
        self._first_bytes += _native.approximate_size(row)
        if len(self._first) >= _FIRST_ROWS or self._first_bytes >= _FIRST_BYTES:
            self._flush_rows()
        return None

    def _new_buffer(self) -> _native.RowBuffer:
        batches = self._batches
        return _native.RowBuffer(batches.schema, selects=batches.selects, convert=batches.array)

    def _guarded(self, write: Callable[[], None]) -> None:
        """Run ``write``; after an exception, abandon the output."""
        try:
            write()
        except BaseException:
            self._abandon()
            raise

    def _abandon(self) -> None:
        self._ended = self.metrics()
        self._is_open = False
        self._first = []
        self._buffer = None
        self._native.abandon()
        self._directory.remove_if_made()

    def _check_open(self) -> None:
        if not self._is_open:
            raise ClosedError(f"the writer of {self._out!r} is closed")

    def _take(self, buffer: _native.RowBuffer, taken: int, row: Mapping[str, Any]) -> None:
        """Write the rows of a full buffer, or name what is wrong with a row that it refuses."""
        if taken == _OTHER_COLUMNS:
            self._batches.refuse(row, self.num_rows)
        self._native.write_buffer(buffer)
        self._earlier.check(self._native, self._columns.alternatives)

    def _flush_rows(self) -> None:
        if self._first:
            rows = self._first
            self._batches.learn_rows(rows, first_row=self._native.rows)
            # From here on, they count where they are passed on.
            self._first = []
            self._buffer = buffer = self._new_buffer()
            for row in rows:
                if taken := buffer.append(row):
                    self._take(buffer, taken, row)
        if self._buffer is not None and len(self._buffer):
            self._native.write_buffer(self._buffer)
        self._earlier.check(self._native, self._columns.alternatives)
