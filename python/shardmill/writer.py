"""Rows as files: one, or numbered shards in a folder."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from shardmill._native import write as _native
from shardmill.earlier_shards import EarlierShards
from shardmill.errors import ClosedError, FormatError, MissingColumnError, OptionError
from shardmill.file_systems import located
from shardmill.row_batches import RowBatches, refuse_nul
from shardmill.shards import Mode, output_of
from shardmill.sizes import byte_count
from shardmill.storage import configure_all, served_path
from shardmill.threads import checked_threads
from shardmill.written_columns import WrittenColumns
from shardmill.written_formats import format_of, is_one_file, native_options
from shardmill.written_index import WrittenIndex

_SIZE_LIMIT = 256 << 20
#: That of MDS and of ChiniDataset, and what shards of MDS can hold at most.
_STREAMING_SIZE_LIMIT, _MDS_MOST_BYTES = 1 << 26, (1 << 32) - 1
#: Rows that come one by one tell the types of their columns when there are so many.
_FIRST_ROWS = 1024
_OTHER_COLUMNS = 2


class Writer:
    """Rows as Parquet, MDS, WebDataset, JSONL or ArrayRecord.

    Files have hidden names until :meth:`close`; an exception in the with-block leaves nothing. ``out`` with the extension of its format is
    one file. Otherwise it is a folder of shards: ``part-00000.parquet`` and so on, and for MDS ``shard.00000.mds`` with an ``index.json``
    that is written last. What is written does not depend on the number of threads. After an exception of a method that takes rows the
    writer is closed, and nothing is published.

    Values keep their types. A value that its column cannot hold is an error that names row, column and value. What formats make of values:

    * Parquet takes all types of Arrow.
    * MDS has what MosaicML's writer makes, byte for byte; ``columns`` gives the encodings, or they follow from the first rows.
    * WebDataset has one member a column, called by its extension: binaries and text as they are, integers in decimal digits, other values
      as JSON where the column is called ``json`` or ``….json``. Nulls leave the member out. The column ``__key__`` names samples; they are
      numbered when there is none.
    * JSONL has one object a row. Binaries, and numbers that are not finite, are refused.
    * ArrayRecord has one column, of strings or binaries without nulls.

    Args:
        out: the file or folder.
        columns: those that are written, in this order; all when ``None``. For MDS and Parquet also a mapping of name to type: an encoding
            of MDS (``"str"``, ``"int"``, ``"ndarray:uint16"``, ``"json"``, ``"jpeg"``) or a type of ChiniDataset (``"int32"``,
            ``"uint32[]"``).
        schema: Arrow schema of the rows; that of the first rows when ``None``. Not for ArrayRecord.
        format: ``"arrayrecord"``, ``"parquet"``, ``"jsonl"``, ``"webdataset"`` or ``"mds"``; by the extension of ``out`` when ``None``.
        compression: of ArrayRecord ``"zstd:5"``, ``"brotli:5"`` (both also without a level), ``"snappy"`` or ``"none"``; of Parquet
            ``"zstd"``, ``"snappy"`` or ``"none"``; of JSONL and WebDataset ``"gz"``, ``"zstd"`` or ``"none"``; of MDS ``"zstd:7"``,
            ``"gz"``, ``"br"``, ``"bz2"``, ``"snappy"`` or ``"none"``. ``None`` is zstd for ArrayRecord and Parquet, and none for the
            others unless ``out`` says so.
        group_size: records of one chunk of ArrayRecord; 1 when ``None``, which is best for random access.
        size_limit: bytes of a shard before compression: a number or ``"64MiB"``. 256 MiB when ``None``, and 64 MiB for MDS and with an
            index. MDS shards end exactly where MosaicML's do, and 0 is no limit there; JSONL and WebDataset shards have no more, unless one
            row has; Parquet and ArrayRecord count values in memory. Each shard is an open file until :meth:`close`, so keep them below
            the limit of ``ulimit -n``.
        mode: an ``out`` that exists: ``"error"`` refuses a file, and a folder with data files; ``"overwrite"`` replaces them when the new
            ones are whole; ``"append"`` adds shards to a folder, and to its index. Appended rows have the columns of those that are there,
            and samples that are numbered go on behind the last one.
        threads: for encoding and compression; as many as there are cores when ``None``.
        hashes: algorithms such as ``"sha1"`` and ``"xxh3_64"`` whose digests the index holds.
        index: ``"chinidataset"`` gives a folder of Parquet shards the ``index.json`` of that library. MDS always has its own.
        storage_options: how a bucket is reached, see :func:`shardmill.storage.configure`.
        modified: time of the members of WebDataset shards, in seconds since 1970; now when ``None``. With a fixed time equal rows make
            equal bytes.
        page_checksums: for Parquet, whether each page has a CRC-32. ``Dataset``, ``Loader`` and ``verify`` always check it;
            pyarrow checks it with ``page_checksum_verification=True``.

    Raises:
        FileExistsError: (mode "error") when something is there.
        ValueError: for options that mean nothing.

    Two writers may have one folder: with ``mode="append"`` both end with whole shards of their own, else the one that closes last is refused.
    Below a bucket, which knows no locks, one that appends may be refused too, and leaves nothing.

    Example:
        >>> import shardmill as sm
        >>> with sm.Writer("words.array_record") as writer:
        ...     writer.write(b"one")
        ...     writer.write({"word": "two"})
        >>> [row["record"] for row in sm.Dataset("words.array_record")]
        [b'one', b'two']
        >>> with sm.Writer("samples", format="mds", columns={"text": "str", "label": "int"}, hashes=["sha1"]) as writer:
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
        format: str | None = None,
        compression: str | None = None,
        group_size: int | None = None,
        size_limit: int | str | None = None,
        mode: Mode = "error",
        threads: int | None = None,
        hashes: Sequence[str] = (),
        index: str | None = None,
        modified: float | None = None,
        page_checksums: bool = True,
        storage_options: Any = None,
    ) -> None:
        (out,), storage_options = located([out], storage_options)
        self._out = os.fspath(out)
        if not isinstance(self._out, str):
            raise OptionError(f"out is a path as text, not {type(self._out).__name__}")
        configure_all([self._out], storage_options)
        self._out = served_path(self._out)
        self._format = format_of(self._out, format)
        is_file = is_one_file(self._out, self._format)
        if mode not in ("error", "overwrite", "append"):
            raise OptionError(f"mode is 'error', 'overwrite' or 'append', not {mode!r}")
        for option, is_given in (
            ("mode='append'", mode == "append"),
            ("size_limit", size_limit is not None),
            ("index", index is not None),
        ):
            if is_file and is_given:
                raise OptionError(f"{option} is for folders, and {self._out!r} is one file\nhint: give a folder")
        self._columns = WrittenColumns(self._format, columns, schema)
        prefix = "shard." if self._format == "mds" or index is not None else "part-"
        has_small_shards = prefix == "shard."
        limit = _bytes_of(size_limit, self._format, _STREAMING_SIZE_LIMIT if has_small_shards else _SIZE_LIMIT)
        self._index = WrittenIndex(
            self._out, self._format, index, hashes=hashes, mode=mode, compression=compression, size_limit=limit
        )
        self._folder = output_of(self._out, is_file=is_file, mode=mode, prefix=prefix)
        self._earlier = EarlierShards(self._out, self._format, mode, list(self._folder.data_files()))
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
        )
        self._arguments = {
            "prefix": None if is_file else prefix,
            "size_limit": limit or _MDS_MOST_BYTES,
            "replaces": mode == "overwrite",
            "first_number": self._folder.first_number() if mode == "append" else 0,
            "threads": checked_threads(threads),
        }
        self._options = options
        self._batches = RowBatches(self._columns.names, self._columns.schema, self._columns.cells)
        self._native = _native.Writer(
            self._out, options=options, columns=self._columns.names, schema=self._columns.file_schema, **self._arguments
        )
        #: The rows that tell the schema, and then the buffer of those that follow.
        self._first: list[dict[str, Any]] = []
        self._buffer: _native.RowBuffer | None = None
        self._files: list[str] = []
        self._is_open = True

    @property
    def files(self) -> list[str]:
        """Paths of the files that were written, once they have their names. An index is not among them."""
        return list(self._files)

    @property
    def format(self) -> str:
        """``"arrayrecord"``, ``"parquet"``, ``"jsonl"``, ``"webdataset"`` or ``"mds"``."""
        return self._format

    @property
    def num_rows(self) -> int:
        """Rows that were written so far."""
        return self._native.rows + len(self._first) + (0 if self._buffer is None else len(self._buffer))

    def write(self, row: bytes | bytearray | memoryview | str | Mapping[str, Any]) -> None:
        """Adds a row: bytes, text or a mapping with one column for ArrayRecord, a mapping for other formats.

        The first rows become Arrow data through pyarrow, and so do later values that are not plainly of the type of their column.

        Raises:
            TypeError, ValueError: for a row that the format cannot hold.
            KeyError: when a column of ``columns`` is missing.
            RuntimeError: when the writer is closed.
        """
        if self._format == "arrayrecord":
            self._native.write_record(row if type(row) is bytes else self._record(row))
            return
        if not self._is_open:
            self._check_open()
        try:
            if type(row) is not dict:
                row = self._mapping(row)
            if self._batches.cells and not self._is_first:
                row = self._with_cells(row)
            buffer = self._buffer
            if buffer is None and (buffer := self._started(row)) is None:
                return
            if taken := buffer.append(row):
                if taken == _OTHER_COLUMNS:
                    self._batches.check(row, self.num_rows)
                self._native.write_buffer(buffer)
                self._earlier.check(self._native)
        except BaseException:
            self._abandon()
            raise

    def write_batch(self, batch: Any) -> None:
        """Adds rows at once: an Arrow record batch, table or reader of any library, an Arrow array of records, or a mapping of column to values.

        Raises:
            TypeError, ValueError: for rows that the format cannot hold.
            KeyError: when a column of ``columns`` is missing.
            RuntimeError: when the writer is closed.
        """
        self._check_open()
        self._guarded(lambda: self._write_batch(batch))

    def write_rows(
        self, rows: Iterable[Any], *, workers: int = 0, transform: Callable[[Any], Any] | None = None
    ) -> None:
        """Adds rows one by one, each after ``transform``. They keep their order, however many processes transform them.

        Args:
            rows: what :meth:`write` takes, or what ``transform`` makes of it; a ``None`` that it returns leaves the row out.
            workers: processes that call ``transform``, some rows ahead; 0 calls it in the caller's own. With workers it is a function of a
                module, and rows and results pickle.
            transform: called with each item. Its exceptions come through with a note that names the row.

        Raises:
            RuntimeError: when a worker dies.
        """
        if isinstance(workers, bool) or not isinstance(workers, int) or workers < 0:
            raise OptionError(f"workers is a whole number from 0 on, not {workers!r}")
        if transform is None:
            for row in rows:
                self.write(row)
            return
        # Its imports are half of those of a process that only writes.
        from shardmill.row_workers import transformed

        results = transformed(rows, transform, workers)
        try:
            for row in results:
                if row is not None:
                    self.write(row)
        finally:
            results.close()

    def close(self) -> None:
        """Writes what is missing and gives the files their names. Closing twice is fine.

        Raises:
            FileExistsError: when a file has appeared under a name meanwhile.
            RuntimeError: when the writer had failed; nothing is published then.
        """
        if self._is_open:
            self._guarded(self._publish)

    def _publish(self) -> None:
        self._flush_rows()
        self._is_open = False
        shards = self._native.finish()
        with self._folder.locked(), self._folder.publishing():
            first = self._folder.first_number()
            known = self._index.begin(shards, self._batches, is_appended=first > 0)
            self._files = self._native.publish(first)
            self._index.end(known, shards, self._files, self._batches)
            self._folder.remove_replaced([*self._files, *self._index.paths])

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_exception: object) -> None:
        if kind is None:
            self.close()
        else:
            self._abandon()

    def __del__(self) -> None:
        if getattr(self, "_is_open", False):
            warnings.warn(f"{self!r} was never closed, so nothing was written", ResourceWarning, stacklevel=2)

    def __repr__(self) -> str:
        return f"Writer({self._out!r}: {self._format}, {'open' if self._is_open else 'closed'})"

    def _write_batch(self, batch: Any) -> None:
        self._flush_rows()
        self._write_columns(batch)
        self._earlier.check(self._native)

    def _write_columns(self, batch: Any) -> None:
        if not isinstance(batch, Mapping):
            # A library may need another one to show its schema; its data can be written without.
            schema = None
            with suppress(AttributeError, ImportError):
                schema = batch.schema
                if self._format != "arrayrecord" and self._batches.schema is None:
                    self._batches.learn(schema)
            if hasattr(schema, "to_string"):
                refuse_nul(schema)
            self._native.write_batch(batch)
        elif self._format != "arrayrecord":
            self._learn_cells(batch)
            self._native.write_batch(self._batches.of_columns(batch, first_row=self._native.rows))
        else:
            name = self._record_column(batch)
            for value in self._value(batch, name):
                self._native.write_record(self._record({name: value}))

    def _started(self, row: dict[str, Any]) -> _native.RowBuffer | None:
        """The buffer for a row; ``None`` when the types of the columns are not known and the row waits until they are."""
        if not self._first and self._batches.schema is not None:
            self._buffer = self._new_buffer()
            return self._buffer
        self._columns.learn({name: [value] for name, value in row.items()}, self._batches)
        self._first.append(self._with_cells(row))
        if len(self._first) >= _FIRST_ROWS:
            self._flush_rows()
        return None

    @property
    def _is_first(self) -> bool:
        """Whether rows still wait for the types of their columns."""
        return self._buffer is None and self._batches.schema is None

    def _learn_cells(self, batch: Mapping[str, Any]) -> None:
        if self._batches.schema is None:
            self._columns.learn(batch, self._batches)

    def _new_buffer(self) -> _native.RowBuffer:
        batches = self._batches
        return _native.RowBuffer(batches.schema, selects=batches.selects, convert=batches.array)

    def _mapping(self, row: Any) -> dict[str, Any]:
        if not isinstance(row, Mapping):
            raise TypeError(f"a row of {self._format} is a mapping of column to value, not {type(row).__name__}")
        return dict(row)

    def _with_cells(self, row: Mapping[str, Any]) -> dict[str, Any]:
        batches, number = self._batches, self.num_rows
        return {**row, **{name: batches.cell(name, row[name], number) for name in batches.cells if name in row}}

    def _guarded(self, write: Callable[[], None]) -> None:
        """What was written in part must not be published."""
        try:
            write()
        except BaseException:
            self._abandon()
            raise

    def _abandon(self) -> None:
        self._is_open = False
        self._first = []
        self._buffer = None
        self._native.abandon()
        self._folder.remove_if_made()

    def _check_open(self) -> None:
        if not self._is_open:
            raise ClosedError(f"the writer of {self._out!r} is closed")

    def _record_column(self, row: Mapping[str, Any]) -> str:
        if self._columns.names is not None:
            return self._columns.names[0]
        if len(row) != 1:
            raise OptionError(
                f"a row of ArrayRecord has one value, this one has {len(row)} ({', '.join(map(str, row))})\n"
                'hint: columns=["name"] picks the one that becomes the record'
            )
        return next(iter(row))

    def _value(self, row: Mapping[str, Any], name: str) -> Any:
        if name not in row:
            raise MissingColumnError(f"row {self.num_rows} has no column {name!r}; it has {', '.join(map(str, row))}")
        return row[name]

    def _record(self, row: Any) -> bytes:
        if isinstance(row, Mapping):
            name = self._record_column(row)
            row = self._value(row, name)
            if row is None:
                raise FormatError(
                    f"row {self.num_rows} has a null in column {name!r}, and ArrayRecord has no nulls\n"
                    "hint: leave such rows out"
                )
        if isinstance(row, bytes | bytearray | memoryview):
            return bytes(row)
        if isinstance(row, str):
            return row.encode()
        raise TypeError(
            f"a record is bytes or text, not {type(row).__name__}\nhint: make bytes of it, by json.dumps for example"
        )

    def _flush_rows(self) -> None:
        if self._first:
            rows, self._first = self._first, []
            self._native.write_batch(self._batches.of_rows(rows, first_row=self._native.rows))
            self._buffer = self._new_buffer()
        elif self._buffer is not None and len(self._buffer):
            self._native.write_buffer(self._buffer)
        self._earlier.check(self._native)


def _bytes_of(size_limit: int | str | None, format: str, default: int) -> int:
    """The limit in bytes; 0 for none, which MDS alone knows."""
    if size_limit is None:
        return default
    if format == "mds":
        if size_limit == 0:
            return 0
        # Of 1024 bytes, as MosaicML has it.
        text = size_limit.strip().lower() if isinstance(size_limit, str) else ""
        units = {"kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}
        for unit, factor in units.items():
            if text.endswith(unit) and text[: -len(unit)].strip().replace(".", "", 1).isdigit():
                size_limit = int(float(text[: -len(unit)]) * factor)
    limit = byte_count(size_limit, "size_limit")
    if format == "mds" and limit > _MDS_MOST_BYTES:
        raise OptionError(f"size_limit of MDS is below 4 GiB, not {size_limit!r}")
    return limit
