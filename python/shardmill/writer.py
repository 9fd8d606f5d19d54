"""Rows as files: one, or numbered shards in a folder."""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from shardmill._native import write as _native
from shardmill.curate.sizes import byte_count
from shardmill.dataset import column_names
from shardmill.errors import ClosedError, FormatError, MissingColumnError, OptionError
from shardmill.row_batches import RowBatches
from shardmill.shards import Mode, next_number, replaced_files
from shardmill.threads import checked_threads
from shardmill.written_formats import EXTENSIONS, format_of, writer_options

_SIZE_LIMIT = 256 << 20
#: Rows that come one by one become a batch of this many.
_ROWS_AT_ONCE = 1024


class Writer:
    """Rows as ArrayRecord or Parquet. Files have hidden names until :meth:`close`; an exception in the with-block leaves nothing.

    ``out`` with the extension of its format is one file. Otherwise it is a folder of shards, ``part-00000.parquet`` and so on. What is written
    does not depend on the number of threads. After an exception of :meth:`write_batch` the writer is closed, and nothing is published.

    Args:
        out: the file or folder.
        columns: those that are written, in this order; all when ``None``. ArrayRecord takes one, of strings or binaries without nulls.
        schema: Arrow schema of Parquet files; that of the first rows when ``None``.
        format: ``"arrayrecord"`` or ``"parquet"``; by the extension of ``out`` when ``None``.
        compression: of ArrayRecord ``"zstd:5"``, ``"brotli:5"`` (both also without a level), ``"snappy"`` or ``"none"``; of Parquet ``"zstd"``,
            ``"snappy"`` or ``"none"``. ``None`` is zstd.
        group_size: records of one chunk of ArrayRecord; 1 when ``None``, which is best for random access.
        size_limit: bytes of rows, before compression, after which a shard ends: a number or ``"64MiB"``. 256 MiB when ``None``. Each shard
            is an open file until :meth:`close`, so keep them below the limit of ``ulimit -n``.
        mode: an ``out`` that exists: ``"error"`` refuses a file, and a folder with data files; ``"overwrite"`` replaces them when the new ones
            are whole; ``"append"`` adds shards to a folder.
        threads: for compression; as many as there are cores when ``None``.

    Raises:
        FileExistsError: (mode "error") when something is there.
        ValueError: for options that mean nothing.

    Example:
        >>> import shardmill as sm
        >>> with sm.Writer("words.array_record") as writer:
        ...     writer.write(b"one")
        ...     writer.write({"word": "two"})
        >>> [row["record"] for row in sm.Dataset("words.array_record")]
        [b'one', b'two']
    """

    def __init__(
        self,
        out: str | os.PathLike[str],
        *,
        columns: Sequence[str] | None = None,
        schema: Any = None,
        format: str | None = None,
        compression: str | None = None,
        group_size: int | None = None,
        size_limit: int | str | None = None,
        mode: Mode = "error",
        threads: int | None = None,
    ) -> None:
        self._out = os.fspath(out)
        if not isinstance(self._out, str):
            raise OptionError(f"out is a path as text, not {type(self._out).__name__}")
        self._format = format_of(self._out, format)
        is_file = self._out.lower().endswith(EXTENSIONS[self._format])
        if mode not in ("error", "overwrite", "append"):
            raise OptionError(f"mode is 'error', 'overwrite' or 'append', not {mode!r}")
        if mode == "append" and is_file:
            raise OptionError(
                f"mode='append' adds shards to a folder, and {self._out!r} is one file\nhint: give a folder"
            )
        if is_file and size_limit is not None:
            raise OptionError(f"size_limit is for folders, and {self._out!r} is one file\nhint: give a folder")
        if self._format == "arrayrecord" and schema is not None:
            raise OptionError("schema is for Parquet; ArrayRecord has one column of bytes")
        self._columns = None if columns is None else column_names(columns)
        if self._format == "arrayrecord" and self._columns is not None and len(self._columns) != 1:
            raise OptionError(
                f"ArrayRecord has one column, and columns names {len(self._columns)}\nhint: pick one, or write Parquet"
            )
        self._batches = RowBatches(self._columns, schema)
        self._replaced = replaced_files(self._out, is_file=is_file, mode=mode)
        self._native = _native.Writer(
            self._out,
            format=self._format,
            options=writer_options(self._format, compression, group_size),
            columns=self._columns,
            schema=schema,
            first_shard=None if is_file else next_number(self._out) if mode == "append" else 0,
            size_limit=byte_count(_SIZE_LIMIT if size_limit is None else size_limit, "size_limit"),
            replaces=mode == "overwrite",
            threads=checked_threads(threads),
        )
        self._rows: list[Mapping[str, Any]] = []
        self._files: list[str] = []
        self._is_open = True

    @property
    def files(self) -> list[str]:
        """Paths of the files that were written, once they have their names."""
        return list(self._files)

    @property
    def format(self) -> str:
        """``"arrayrecord"`` or ``"parquet"``."""
        return self._format

    @property
    def num_rows(self) -> int:
        """Rows that were written so far."""
        return self._native.rows + len(self._rows)

    def write(self, row: bytes | bytearray | memoryview | str | Mapping[str, Any]) -> None:
        """Adds a row: bytes, text or a mapping with one column for ArrayRecord, a mapping for Parquet.

        Rows become Arrow data through pyarrow for Parquet.

        Raises:
            TypeError, ValueError: for a row that the format cannot hold.
            RuntimeError: when the writer is closed.
        """
        if self._format == "arrayrecord":
            self._native.write_record(row if type(row) is bytes else self._record(row))
            return
        self._check_open()
        if not isinstance(row, Mapping):
            raise TypeError(f"a row of Parquet is a mapping of column to value, not {type(row).__name__}")
        self._rows.append(dict(row))
        if len(self._rows) >= _ROWS_AT_ONCE:
            self._guarded(self._flush_rows)

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
        """Adds rows one by one, each after ``transform``. They keep their order, however many threads transform them.

        Args:
            rows: what :meth:`write` takes, or what ``transform`` makes of it; a ``None`` that it returns leaves the row out.
            workers: threads that call ``transform``, some rows ahead; 0 for the caller's own.
            transform: called with each item.
        """
        if isinstance(workers, bool) or not isinstance(workers, int) or workers < 0:
            raise OptionError(f"workers is a whole number from 0 on, not {workers!r}")
        for row in rows if transform is None else _transformed(rows, transform, workers):
            self.write(row)

    def close(self) -> None:
        """Writes what is missing and gives the files their names. Closing twice is fine.

        Raises:
            FileExistsError: when a file has appeared under a name meanwhile.
            RuntimeError: when the writer had failed; nothing is published then.
        """
        if not self._is_open:
            return
        self._guarded(self._publish)
        written = {os.path.realpath(path) for path in self._files}
        for path in self._replaced:
            if os.path.realpath(path) not in written:
                Path(path).unlink()

    def _publish(self) -> None:
        self._flush_rows()
        self._is_open = False
        self._files = self._native.close()

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
        if not isinstance(batch, Mapping):
            self._native.write_batch(batch)
        elif self._format == "parquet":
            self._native.write_batch(self._batches.of_columns(batch))
        else:
            name = self._record_column(batch)
            for value in self._value(batch, name):
                self._native.write_record(self._record({name: value}))

    def _guarded(self, write: Callable[[], None]) -> None:
        """What was written in part must not be published."""
        try:
            write()
        except BaseException:
            self._abandon()
            raise

    def _abandon(self) -> None:
        self._is_open = False
        self._rows = []
        self._native.abandon()

    def _check_open(self) -> None:
        if not self._is_open:
            raise ClosedError(f"the writer of {self._out!r} is closed")

    def _record_column(self, row: Mapping[str, Any]) -> str:
        if self._columns is not None:
            return self._columns[0]
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
        if self._rows:
            rows, self._rows = self._rows, []
            self._native.write_batch(self._batches.of_rows(rows, first_row=self._native.rows))


def _transformed(rows: Iterable[Any], transform: Callable[[Any], Any], workers: int) -> Iterator[Any]:
    """Results in order, without those that are None; at most four items a worker are on their way."""
    results = map(transform, rows) if workers == 0 else _on_threads(rows, transform, workers)
    yield from (result for result in results if result is not None)


def _on_threads(rows: Iterable[Any], transform: Callable[[Any], Any], workers: int) -> Iterator[Any]:
    waiting: deque[Future[Any]] = deque()
    with ThreadPoolExecutor(workers) as executor:
        try:
            for row in rows:
                waiting.append(executor.submit(transform, row))
                if len(waiting) >= 4 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            executor.shutdown(wait=False, cancel_futures=True)
