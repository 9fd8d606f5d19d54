"""Reads one ArrayRecord file."""

from __future__ import annotations

import mmap
import operator
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, overload

from shardmill._choices import check_choice
from shardmill._native import arrayrecord as _native
from shardmill._threads import checked_threads
from shardmill.errors import ClosedError, Error, OptionError, RecordError, RowIndexError
from shardmill.storage._configure import configure_all, still_needed
from shardmill.storage._paths import is_remote, path_of

_INT64 = 2**63


#: Which hashes are checked when records are read.
Verify = Literal["full", "header", "none"]


class ArrayRecordReader:
    """Records of one file: by index, in batches, or sequentially.

    A reader is thread-safe; ``read`` without arguments and ``seek`` share one cursor.

    Args:
        path: path of the file.
        options: option string of array_record, such as ``"readahead_buffer_size:16M"``. It is
            validated, but has no effect.
        strict: raise where array_record fails silently: for a missing or damaged file, a negative
            seek, or unknown keyword arguments. With ``False`` the reader is created, returns
            ``ok() == False``, and raises when it is read.
        verify: ``"full"`` checks all hashes, ``"header"`` only those of headers, ``"none"`` no
            hash. Lengths are always checked.
        threads: number of threads for batches and sequential reads; the number of cores by default.
            0 or 1 uses the calling thread.
        file_reader_buffer_size: accepted, but has no effect.
        storage_options: options for object stores, see ``shardmill.storage.configure``. Pickles do
            not contain secrets.
        ignored: with ``strict=False``, other keyword arguments are ignored, as in array_record.

    Raises:
        FileNotFoundError: If ``strict`` and the file does not exist.
        RuntimeError: If ``strict`` and the file is truncated or its index is damaged.
        ValueError: If an option is not valid.

    Format specification: https://github.com/google/array_record and
    https://github.com/google/riegeli.

    Examples:
        >>> from shardmill.arrayrecord import ArrayRecordReader, ArrayRecordWriter
        >>> with ArrayRecordWriter("letters.array_record") as writer:
        ...     writer.write_all([b"a", b"b", b"c"])
        >>> reader = ArrayRecordReader("letters.array_record")
        >>> reader[-1], reader[0:2], [record for record in reader]
        (b'c', [b'a', b'b'], [b'a', b'b', b'c'])
        >>> reader.read([2, 0]), reader.read(0, -1), reader.read()
        ([b'c', b'a'], [b'a', b'b'], b'a')
    """

    def __init__(
        self,
        path: str | bytes | os.PathLike[str],
        options: str = "",
        *,
        strict: bool = True,
        verify: Verify = "full",
        threads: int | None = None,
        file_reader_buffer_size: int | None = None,
        storage_options: Any = None,
        **ignored: Any,
    ) -> None:
        if ignored and strict:
            raise TypeError(f"ArrayRecordReader has no argument {next(iter(ignored))!r}")
        if file_reader_buffer_size is not None and not isinstance(file_reader_buffer_size, int):
            raise RecordError(
                "file_reader_buffer_size must be a number of bytes, "
                f"not {file_reader_buffer_size!r}"
            )
        if not isinstance(options, str):
            raise TypeError(
                "options must be a string such as 'readahead_buffer_size:16M', "
                f"not {type(options).__name__}"
            )
        self._path = path_of(os.fsdecode(path))
        self._storage_options = configure_all([self._path], storage_options)
        self._options = options
        self._strict = strict
        check_choice("verify", verify, Verify)
        self._verify: Verify = verify
        self._threads = checked_threads(threads)
        self._is_open = True
        self._failure: Error | None = None
        self._native: _native.Reader | None = None
        self._writer_options: str | None = None
        self._cursor = 0
        # Records prefetched from the cursor on, after two sequential reads.
        self._ahead: _native.Records | None = None
        self._is_sequential = False
        self._mapped: mmap.mmap | None = None
        #: What identifies the file while it is open; ``None`` for an object, or if it is missing.
        self._file: tuple[int, int] | None = None
        with suppress(OSError, ValueError):
            # Before it is opened: if another file takes its name in between, views copy.
            self._file = None if is_remote(self._path) else _number_of(Path(self._path).stat())
        try:
            self._native = _native.Reader(self._path, options=options, verify=verify)
        except OptionError:
            raise
        except Error as error:
            if strict:
                raise
            self._failure = error
        else:
            self._writer_options = self._native.writer_options

    @property
    def path(self) -> str:
        """Path of the file."""
        return self._path

    def ok(self) -> bool:
        """Return whether records can be read: the reader is open and nothing has failed."""
        return self._is_open and self._failure is None

    def is_open(self) -> bool:
        """Return whether ``close`` has not been called yet."""
        return self._is_open

    def close(self) -> None:
        """Close the file. Closing twice is allowed.

        Raises:
            RuntimeError: If the reader had failed; on every call.
        """
        self._is_open = False
        self._native = self._ahead = self._mapped = None
        if self._failure is not None:
            raise as_runtime_error(self._failure)

    def num_records(self) -> int:
        """Return the number of records of the file; 0 if it is closed or has failed."""
        return self._native.num_records if self._native is not None and self.ok() else 0

    def record_index(self) -> int:
        """Return the index of the record that ``read`` returns next.

        It is 0 if the reader is closed or has failed.
        """
        return self._cursor if self.ok() else 0

    def writer_options_string(self) -> str | None:
        """Return the options of the writer; ``None`` for files older than October 2022."""
        return self._writer_options

    def seek(self, index: int) -> None:
        """Move the cursor to a record, or past the end.

        Raises:
            IndexError: If ``strict`` and ``index`` is negative; array_record moves to the end of
                the file in this case.
            RuntimeError: If the reader is closed or has failed.
        """
        index = operator.index(index)
        native = self._usable()
        if not -_INT64 <= index < _INT64:
            raise TypeError(f"a position in a file must be below 2**63, not {index}")
        if index < 0 and self._strict:
            raise RowIndexError(
                f"there is no record {index} in {self._path!r}\n"
                "hint: use seek(len(reader) + index) to count from the end"
            )
        self._cursor = min(index, native.num_records) if index >= 0 else native.num_records
        self._ahead = None
        self._is_sequential = False

    @overload
    def read(self) -> bytes: ...
    @overload
    def read(self, indices: Sequence[int], /) -> list[bytes]: ...
    @overload
    def read(self, start: int, stop: int, /) -> list[bytes]: ...
    def read(self, *arguments: Any) -> bytes | list[bytes]:
        """Return the next record, records by index, or a range.

        ``read()`` returns the next record; ``read([2, 0])`` returns these records, in this order;
        ``read(2, 5)`` returns records 2 to 4, where negative indices count from the end.

        Raises:
            IndexError: If the end of the file is reached, or a range is empty or out of bounds.
            RuntimeError: If an index is out of range (also an ``IndexError``), bytes are damaged,
                or the reader is closed.
            TypeError: If an index is not an integer, or a sequence has negative integers.
        """
        if not arguments:
            return self._read_next()
        if len(arguments) == 1:
            return self._batch(arguments[0])
        if len(arguments) == 2:
            return self._range(*arguments)
        raise TypeError(
            "read takes no argument, a sequence of indices, or start and stop, "
            f"not {len(arguments)} arguments"
        )

    def read_all(self) -> list[bytes]:
        """Return all records.

        Raises:
            RuntimeError: If bytes are damaged, or the reader is closed.
        """
        native = self._usable()
        try:
            return native.range(0, native.num_records, self._threads)
        except OSError as error:
            raise as_runtime_error(error) from error

    def read_arrow(self, indices: Sequence[int] | None = None) -> Any:
        """Return records as one Arrow array of large binaries, without creating an object for each.

        Args:
            indices: indices of the records, in the requested order; all by default.

        Returns:
            A ``pyarrow.LargeBinaryArray`` if pyarrow is installed, else an object with
            ``__arrow_c_array__``.

        Raises:
            IndexError, RuntimeError, TypeError: See ``read`` with a sequence.
        """
        array = self._usable().arrow(indices, self._threads)
        try:
            import pyarrow
        except ImportError:
            return array
        return pyarrow.array(array)

    def read_into(self, index: int, buffer: Any) -> int:
        """Copy a record to the start of ``buffer``, a writable bytes buffer, and return its length.

        Raises:
            ValueError: If the buffer is too short, or not writable.
        """
        record = self._usable().record(self._number(index))
        room = memoryview(buffer)
        if room.readonly or not room.c_contiguous:
            raise OptionError("the buffer is read-only or not contiguous")
        if room.nbytes < len(record):
            raise OptionError(
                f"record {index} of {self._path!r} has {len(record)} bytes, "
                f"the buffer has {room.nbytes}"
            )
        if record:
            room.cast("B")[: len(record)] = record
        return len(record)

    def view(self, index: int) -> memoryview:
        """Return a record as a memoryview.

        If the record is stored uncompressed and contiguous in a local file, no byte is copied; the
        file must not be truncated while the view is alive.

        Raises:
            IndexError: If the index is out of range.
        """
        native, number = self._usable(), self._number(index)
        place = None if is_remote(self._path) else native.plain_range(number)
        if place is None:
            return memoryview(native.record(number))
        if self._mapped is None:
            with Path(self._path).open("rb") as file:
                if _number_of(os.fstat(file.fileno())) != self._file:
                    # Another file has taken its name.
                    return memoryview(native.record(number))
                self._mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        start, length = place
        return memoryview(self._mapped)[start : start + length]

    def __len__(self) -> int:
        return self.num_records()

    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...
    @overload
    def __getitem__(self, index: int) -> bytes: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        native = self._usable()
        if not isinstance(index, slice):
            return native.record(self._number(index))
        numbers = range(native.num_records)[index]
        if numbers.step == 1:
            return native.range(numbers.start, max(numbers.start, numbers.stop), self._threads)
        return native.records(numbers, self._threads)

    def __iter__(self) -> Iterator[bytes]:
        """Iterate over all records from the first one, independent of the cursor."""
        return self._usable().sequence(0, self._threads)

    def __enter__(self) -> ArrayRecordReader:
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._failure is None:
            self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = {
            "options": self._options,
            "strict": self._strict,
            "verify": self._verify,
            "threads": self._threads,
        }
        options = {"_storage_options": self._storage_options}
        return _reopened, (type(self), self._path, self._storage_options, arguments), options

    def __repr__(self) -> str:
        state = (
            f"{self.num_records()} records"
            if self.ok()
            else "failed"
            if self._is_open
            else "closed"
        )
        return f"{type(self).__name__}({self._path!r}: {state})"

    def _usable(self) -> _native.Reader:
        if self._native is not None and self._failure is None:
            return self._native
        if self._failure is not None:
            raise as_runtime_error(self._failure)
        raise ClosedError(f"the reader of {self._path!r} is closed")

    def _number(self, index: int) -> int:
        """Return ``index`` as a non-negative index."""
        index, records = operator.index(index), self.num_records()
        if not -records <= index < records:
            raise RowIndexError(f"there is no record {index} in {self._path!r}, it has {records}")
        return index % records

    def _read_next(self) -> bytes:
        if self._ahead is None:
            native = self._usable()
            if self._cursor >= native.num_records:
                raise RowIndexError(f"{self._path!r} has no record after its {native.num_records}")
            if self._is_sequential:
                self._ahead = native.sequence(self._cursor, self._threads)
            self._is_sequential = True
        try:
            record = (
                next(self._ahead)
                if self._ahead is not None
                else self._usable().record(self._cursor)
            )
        except StopIteration:
            raise RowIndexError(f"{self._path!r} has no record after its {self._cursor}") from None
        except (Error, OSError) as error:
            # Like array_record: a sequential reader must not continue after a gap.
            self._ahead = None
            self._failure = error if isinstance(error, Error) else RecordError(str(error))
            raise as_runtime_error(error) from error
        self._cursor += 1
        return record

    def _batch(self, indices: Any) -> list[bytes]:
        if not self.ok():
            # A value that is not an integer is rejected first, in any state of the reader.
            _native.check_record_numbers(indices)
        native = self._usable()
        try:
            return native.records(indices, self._threads)
        except OSError as error:
            raise as_runtime_error(error) from error

    def _range(self, start: Any, stop: Any) -> list[bytes]:
        start, stop, records = operator.index(start), operator.index(stop), self.num_records()
        if not (-(2**31) <= start < 2**31 and -(2**31) <= stop < 2**31) and not self._strict:
            raise TypeError("the ends of a range are below 2**31")
        first, past = (end + records if end < 0 else end for end in (start, stop))
        if not 0 <= first < past <= records:
            raise RowIndexError(
                f"the range from {start} to {stop} is not valid "
                f"for the {records} records of {self._path!r}"
            )
        try:
            return self._usable().range(first, past, self._threads)
        except OSError as error:
            raise as_runtime_error(error) from error


def _number_of(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _reopened(
    cls: type[ArrayRecordReader],
    path: str,
    storage_options: dict[str, str] | None,
    arguments: dict[str, Any],
) -> ArrayRecordReader:
    return cls(path, storage_options=still_needed([path], storage_options), **arguments)


def native_reader(reader: ArrayRecordReader) -> _native.Reader:
    """Return what reads the records.

    Raises:
        RuntimeError: If the reader is closed or has failed.
    """
    return reader._usable()  # pyright: ignore[reportPrivateUsage]


def as_runtime_error(error: Exception) -> RuntimeError:
    """Return ``error`` as the ``RuntimeError`` that array_record would raise."""
    return error if isinstance(error, RuntimeError) else RecordError(str(error))
