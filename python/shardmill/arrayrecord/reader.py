"""Reading one ArrayRecord file."""

from __future__ import annotations

import mmap
import operator
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, overload

from shardmill._native import arrayrecord as _native
from shardmill.errors import ClosedError, Error, OptionError, RecordError, RowIndexError
from shardmill.storage import configure_all, path_of, still_needed
from shardmill.threads import checked_threads

_INT64 = 2**63


class ArrayRecordReader:
    """Records of one file by number, many at once, or in order.

    Any number of threads may use one reader; :meth:`read` without arguments and :meth:`seek` share one cursor.

    Args:
        path: a file.
        options: the option string of array_record, such as ``"readahead_buffer_size:16M"``. It is checked; what it tunes has no meaning here.
        strict: raise at once for what array_record keeps to itself: a file that is missing or damaged, a negative seek, keyword arguments
            that do not exist. With ``False`` such a reader is made, says ``ok() == False``, and raises when it is read.
        verify: ``"full"`` compares all hashes, ``"header"`` those of headers only, ``"none"`` no hash. Lengths are checked always.
        threads: for batches and for reading in order; as many as there are cores when ``None``, 0 or 1 for the caller's own.
        file_reader_buffer_size: is taken and has no meaning here.
        storage_options: how the bucket of a remote path is reached, see :func:`shardmill.storage.configure`. Pickles leave secrets out.
        ignored: with ``strict=False``, other keyword arguments, as array_record ignores them.

    Raises:
        FileNotFoundError: (strict) when there is no such file.
        RuntimeError: (strict) when it is cut or its index is damaged.
        ValueError: for options that mean nothing.

    Source of the format: https://github.com/google/array_record and https://github.com/google/riegeli.

    Example:
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
        verify: str = "full",
        threads: int | None = None,
        file_reader_buffer_size: int | None = None,
        storage_options: Any = None,
        **ignored: Any,
    ) -> None:
        if ignored and strict:
            raise TypeError(f"ArrayRecordReader has no argument {next(iter(ignored))!r}")
        _checked_buffer_size(file_reader_buffer_size)
        if not isinstance(options, str):
            raise TypeError(f"options is a string such as 'readahead_buffer_size:16M', not {type(options).__name__}")
        self._path = path_of(os.fsdecode(path))
        self._storage_options = configure_all([self._path], storage_options)
        self._options = options
        self._strict = strict
        self._verify = checked_verify(verify)
        self._threads = checked_threads(threads)
        self._is_open = True
        self._failure: Error | None = None
        self._native: _native.Reader | None = None
        self._writer_options: str | None = None
        self._cursor = 0
        # Records from the cursor on, once two were read one after the other.
        self._ahead: _native.Records | None = None
        self._is_sequential = False
        self._mapped: mmap.mmap | None = None
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
        """The file."""
        return self._path

    @property
    def native(self) -> _native.Reader:
        """The open file, for other parts of this package.

        Raises:
            RuntimeError: when the reader is closed or has failed.
        """
        return self._usable()

    def ok(self) -> bool:
        """Whether records can be read: the reader is open and nothing has failed."""
        return self._is_open and self._failure is None

    def is_open(self) -> bool:
        """Whether :meth:`close` was not called yet."""
        return self._is_open

    def close(self) -> None:
        """Gives the file back. Closing twice is fine.

        Raises:
            RuntimeError: when the reader had failed; each time.
        """
        self._is_open = False
        self._native = self._ahead = self._mapped = None
        if self._failure is not None:
            raise as_runtime_error(self._failure)

    def num_records(self) -> int:
        """Records of the file; 0 when it is closed or has failed."""
        return self._native.num_records if self._native is not None and self.ok() else 0

    def record_index(self) -> int:
        """Number of the record that :meth:`read` gives next; 0 when the reader is closed or has failed."""
        return self._cursor if self.ok() else 0

    def writer_options_string(self) -> str | None:
        """What the writer was told; ``None`` for files older than October 2022."""
        return self._writer_options

    def seek(self, index: int) -> None:
        """Moves the cursor to a record, or behind the last one.

        Raises:
            IndexError: (strict) when ``index`` is negative; array_record goes to the end of the file then.
            RuntimeError: when the reader is closed or has failed.
        """
        index = operator.index(index)
        native = self._usable()
        if not -_INT64 <= index < _INT64:
            raise TypeError(f"a place in a file is below 2**63, not {index}")
        if index < 0 and self._strict:
            raise RowIndexError(
                f"there is no record {index} in {self._path!r}\nhint: seek(len(reader) + index) counts from the end"
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
        """The next record, records by number, or a range.

        ``read()`` is the next record; ``read([2, 0])`` are these, in this order; ``read(2, 5)`` are those from 2 up to 5, where negative
        numbers count from the end.

        Raises:
            IndexError: behind the last record; for a range that is empty or outside of the file.
            RuntimeError: for the number of no record (which is an ``IndexError`` as well), damaged bytes, a closed reader.
            TypeError: for what is no number, and negative numbers in a sequence.
        """
        if not arguments:
            return self._read_next()
        if len(arguments) == 1:
            return self._batch(arguments[0])
        if len(arguments) == 2:
            return self._range(*arguments)
        raise TypeError(
            f"read takes no argument, a sequence of numbers, or start and stop, not {len(arguments)} arguments"
        )

    def read_all(self) -> list[bytes]:
        """All records.

        Raises:
            RuntimeError: for damaged bytes and a closed reader.
        """
        native = self._usable()
        try:
            return native.range(0, native.num_records, self._threads)
        except OSError as error:
            raise as_runtime_error(error) from error

    def read_arrow(self, indices: Sequence[int] | None = None) -> Any:
        """Records as one Arrow array of large binaries, without an object for each.

        Args:
            indices: numbers of records, in the order wanted; all when ``None``.

        Returns:
            A ``pyarrow.LargeBinaryArray`` where pyarrow is installed, else an object with ``__arrow_c_array__``.

        Raises:
            IndexError, RuntimeError, TypeError: as :meth:`read` of a sequence.
        """
        array = self._usable().arrow(indices, self._threads)
        try:
            import pyarrow
        except ImportError:
            return array
        return pyarrow.array(array)

    def read_into(self, index: int, buffer: Any) -> int:
        """Copies a record to the start of ``buffer``, a writable buffer of bytes, and gives its length.

        Raises:
            ValueError: when the buffer is too short, or cannot be written.
        """
        record = self._usable().record(self._number(index))
        room = memoryview(buffer)
        if room.readonly or not room.c_contiguous:
            raise OptionError("the buffer is read-only, or not in one piece")
        if room.nbytes < len(record):
            raise OptionError(f"record {index} of {self._path!r} has {len(record)} bytes, the buffer has {room.nbytes}")
        if record:
            room.cast("B")[: len(record)] = record
        return len(record)

    def view(self, index: int) -> memoryview:
        """A record as a view.

        Where it is uncompressed and in one piece in the file, no byte is copied; the file must not be cut while the view lives.

        Raises:
            IndexError: for the number of no record.
        """
        native, number = self._usable(), self._number(index)
        place = native.plain_range(number)
        if place is None:
            return memoryview(native.record(number))
        if self._mapped is None:
            with Path(self._path).open("rb") as file:
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
        """All records from the first on, whatever the cursor."""
        return self._usable().sequence(0, self._threads)

    def __enter__(self) -> ArrayRecordReader:
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._failure is None:
            self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = {"options": self._options, "strict": self._strict, "verify": self._verify, "threads": self._threads}
        return _reopened, (type(self), self._path, self._storage_options, arguments)

    def __repr__(self) -> str:
        state = f"{self.num_records()} records" if self.ok() else "failed" if self._is_open else "closed"
        return f"{type(self).__name__}({self._path!r}: {state})"

    def _usable(self) -> _native.Reader:
        if self._native is not None and self._failure is None:
            return self._native
        if self._failure is not None:
            raise as_runtime_error(self._failure)
        raise ClosedError(f"the reader of {self._path!r} is closed")

    def _number(self, index: int) -> int:
        """``index`` from 0 on."""
        index, records = operator.index(index), self.num_records()
        if not -records <= index < records:
            raise RowIndexError(f"there is no record {index} in {self._path!r}, it has {records}")
        return index % records

    def _read_next(self) -> bytes:
        if self._ahead is None:
            native = self._usable()
            if self._cursor >= native.num_records:
                raise RowIndexError(f"{self._path!r} has no record behind its {native.num_records}")
            if self._is_sequential:
                self._ahead = native.sequence(self._cursor, self._threads)
            self._is_sequential = True
        try:
            record = next(self._ahead) if self._ahead is not None else self._usable().record(self._cursor)
        except StopIteration:
            raise RowIndexError(f"{self._path!r} has no record behind its {self._cursor}") from None
        except (Error, OSError) as error:
            # As array_record: whoever reads in order must not go on behind a gap.
            self._ahead = None
            self._failure = error if isinstance(error, Error) else RecordError(str(error))
            raise as_runtime_error(error) from error
        self._cursor += 1
        return record

    def _batch(self, indices: Any) -> list[bytes]:
        if not self.ok():
            # What is no number is refused first, whatever the state of the reader.
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
        first, behind = (end + records if end < 0 else end for end in (start, stop))
        if not 0 <= first < behind <= records:
            raise RowIndexError(
                f"there is no range from {start} up to {stop} in the {records} records of {self._path!r}"
            )
        try:
            return self._usable().range(first, behind, self._threads)
        except OSError as error:
            raise as_runtime_error(error) from error


def _reopened(
    cls: type[ArrayRecordReader], path: str, storage_options: dict[str, str] | None, arguments: dict[str, Any]
) -> ArrayRecordReader:
    reader = cls(path, storage_options=still_needed([path], storage_options), **arguments)
    # For the next process.
    reader._storage_options = storage_options
    return reader


def as_runtime_error(error: Exception) -> RuntimeError:
    """``error`` as array_record raises it: as a ``RuntimeError``, whatever went wrong."""
    return error if isinstance(error, RuntimeError) else RecordError(str(error))


def checked_verify(verify: Any) -> str:
    """``verify`` as an option gives it.

    Raises:
        ValueError: for what is none of its values.
    """
    if verify not in ("full", "header", "none"):
        raise OptionError(f"verify is 'full', 'header' or 'none', not {verify!r}")
    return verify


def _checked_buffer_size(size: Any) -> None:
    if size is not None and not isinstance(size, int):
        raise RecordError(f"file_reader_buffer_size is a number of bytes, not {size!r}")
