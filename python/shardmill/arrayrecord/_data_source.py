"""Records of several ArrayRecord files under consecutive indices."""

from __future__ import annotations

import glob
import hashlib
import itertools
import logging
import os
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass, field
from typing import Any, Protocol, SupportsIndex, TypeVar, runtime_checkable

from shardmill._choices import check_choice
from shardmill._native import arrayrecord as _native
from shardmill._threads import OwnLock, checked_threads
from shardmill.arrayrecord._reader import ArrayRecordReader, Verify, as_runtime_error, native_reader
from shardmill.errors import Error, OptionError, RecordError, RecordIndexError, RecordKeyError
from shardmill.storage._configure import configure_all, still_needed

T = TypeVar("T")

_logger = logging.getLogger("shardmill.arrayrecord")
#: Number of files opened at once to count their records. This is I/O-bound.
_OPENED_AT_ONCE = 16
_RANGE = re.compile(r"(.*)\[([0-9]+):([0-9]+)\]")


@runtime_checkable
class FileInstruction(Protocol):
    """A range of a file, as TFDS describes it."""

    filename: str
    skip: int
    take: int
    examples_in_shard: int


PathLikeOrFileInstruction = str | pathlib.Path | FileInstruction
ArrayRecordDataSourcePaths = PathLikeOrFileInstruction | Sequence[PathLikeOrFileInstruction]


@dataclass(frozen=True)
class ReadInstruction:
    """The records of one file from ``start`` up to ``end``."""

    filename: str
    start: int
    end: int
    num_records: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "num_records", self.end - self.start)


class ArrayRecordDataSource(_native.Source):
    """Records of files by a global index, as Grain and torch access them.

    A source is thread-safe and can be pickled.

    Args:
        paths: a path, a path with a range such as ``"train.array_record[0:500]"``, an object with
            ``filename``, ``skip``, ``take`` and ``examples_in_shard``, or a sequence of these.
            Files with a range are not opened until they are read. Patterns are not expanded.
        reader_options: options of array_record's reader, as a dict.
        strict: raise now for ranges that end before they start, and, when a file is opened, if it
            is shorter than its range. With ``False``, raise when a record is read, like
            array_record.
        verify: ``"full"``, ``"header"`` or ``"none"``, see ``ArrayRecordReader``.
        threads: number of threads that read batches; the number of cores by default.
        storage_options: options for object stores, see ``shardmill.storage.configure``. Pickles do
            not contain secrets.

    Raises:
        ValueError: If ``paths`` has an unsupported type, or is empty.
        RuntimeError: If a file cannot be opened to count its records.

    Examples:
        >>> from shardmill.arrayrecord import ArrayRecordDataSource, ArrayRecordWriter
        >>> for shard in range(2):
        ...     with ArrayRecordWriter(f"part-{shard}.array_record") as writer:
        ...         writer.write_all(f"{shard}.{record}".encode() for record in range(3))
        >>> source = ArrayRecordDataSource(["part-0.array_record", "part-1.array_record[1:3]"])
        >>> len(source), source[3], source.__getitems__([4, 0])
        (5, b'1.1', [b'1.2', b'0.0'])
    """

    _is_strict_by_default = True

    def __init__(
        self,
        paths: ArrayRecordDataSourcePaths,
        reader_options: dict[str, str] | None = None,
        *,
        strict: bool | None = None,
        verify: Verify = "full",
        threads: int | None = None,
        storage_options: Any = None,
    ) -> None:
        self._strict = self._is_strict_by_default if strict is None else strict
        check_choice("verify", verify, Verify)
        self._verify: Verify = verify
        self._threads = checked_threads(threads)
        self._reader_options_string = ",".join(
            f"{key}:{value}" for key, value in (reader_options or {}).items()
        )
        checked = _checked_paths(paths)
        self._storage_options = configure_all(
            [_filename(path) for path in checked], storage_options
        )
        self._read_instructions = _read_instructions(checked)
        if self._strict:
            for part in self._read_instructions:
                if part.num_records < 0:
                    raise OptionError(
                        f"the range {part.start}:{part.end} of {part.filename!r} "
                        "ends before it starts"
                    )
        self._paths = [part.filename for part in self._read_instructions]
        self._prefix_sums = list(
            itertools.accumulate(part.num_records for part in self._read_instructions)
        )
        self._num_records = self._prefix_sums[-1]
        self._forget_readers()

    def _forget_readers(self) -> None:
        #: Held while a file is opened.
        self._lock = OwnLock()
        self._readers: list[ArrayRecordReader | None] = [None] * len(self._read_instructions)
        self._reset([(part.start, max(part.num_records, 0)) for part in self._read_instructions])

    def __len__(self) -> int:
        return self._num_records

    def __getitems__(self, record_keys: Sequence[SupportsIndex]) -> list[bytes]:
        """Return the records of these keys, in this order; a key may repeat.

        Raises:
            ValueError: If a key is not valid, or there are no keys.
        """
        if len(record_keys) == 0:
            raise OptionError("no record keys were given")
        while True:
            try:
                found = self._records(record_keys, self._threads)
            except TypeError:
                # A number that is out of range for any file is handled like other invalid keys.
                self._check_keys(record_keys)
                raise
            if found is None:
                self._check_keys(record_keys)
                raise RecordKeyError(
                    f"a record key is out of range for a source of length {self._num_records}"
                )
            records, closed = found
            if records is not None:
                return records
            for part in closed:
                self._ensure_reader_exists(part)

    def _getitems(self, record_keys: Sequence[SupportsIndex]) -> list[bytes]:
        """Read a batch; Grain looks for this method."""
        return self.__getitems__(record_keys) if len(record_keys) else []

    def __iter__(self) -> Iterator[bytes]:
        for key in range(self._num_records):
            yield self[key]

    def __enter__(self) -> ArrayRecordDataSource:
        return self

    def __exit__(self, *_exception: object) -> None:
        readers = self._readers
        self._forget_readers()
        for reader in readers:
            if reader is not None:
                reader.close()

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        for of_this_process in ("_lock", "_readers"):
            del state[of_this_process]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A source pickled by the original class does not have these attributes.
        self._strict, self._verify, self._threads = (
            self._is_strict_by_default,
            "full",
            checked_threads(None),
        )
        self._storage_options = None
        self.__dict__.update(state)
        configure_all(self._paths, still_needed(self._paths, self._storage_options))
        self._forget_readers()

    def __repr__(self) -> str:
        # Grain compares this string and rejects a checkpoint of another source, so it must match
        # array_record exactly.
        digest = hashlib.sha1(b"".join(path.encode() for path in self._paths))
        return f"ArrayRecordDataSource(hash_of_paths={digest.hexdigest()})"

    def _reader_idx_and_position(self, record_key: SupportsIndex) -> tuple[int, int]:
        """Return the index of the file, and of the record in it."""
        place = self._locate(record_key)
        if place is None:
            raise RecordKeyError(
                f"record key {record_key!r} is out of range "
                f"for a source of length {self._num_records}"
            )
        return place

    def _check_keys(self, record_keys: Sequence[SupportsIndex]) -> None:
        for key in record_keys:
            self._reader_idx_and_position(key)

    def _open_and_read(self, record_key: SupportsIndex) -> bytes:
        while True:
            part, _ = self._reader_idx_and_position(record_key)
            self._ensure_reader_exists(part)
            record = self._record(record_key)
            # Another thread may have left the with-block in the meantime.
            if record is not None:
                return record

    def _ensure_reader_exists(self, part: int) -> None:
        with self._lock():
            if self._readers[part] is not None:
                return
            instruction = self._read_instructions[part]
            reader = _opened(
                instruction.filename,
                f"readahead_buffer_size:0,{self._reader_options_string}",
                verify=self._verify,
                threads=self._threads,
            )
            if self._strict and instruction.end > reader.num_records():
                raise RecordIndexError(
                    f"the range {instruction.start}:{instruction.end} goes beyond "
                    f"{instruction.filename!r}, which has {reader.num_records()} records"
                )
            _check_group_size(instruction.filename, reader)
            self._opened(part, native_reader(reader))
            self._readers[part] = reader


def _checked_paths(paths: Any) -> Sequence[PathLikeOrFileInstruction]:
    if isinstance(paths, str | pathlib.Path | FileInstruction):
        return [paths]
    if not isinstance(paths, Sequence):
        raise OptionError(
            "paths must be a path, a FileInstruction, or a sequence of these, "
            f"not {type(paths).__name__}"
        )
    if not paths:
        raise OptionError("paths is empty")
    for path in paths:
        if not isinstance(path, str | pathlib.Path | FileInstruction):
            raise OptionError(
                f"a path must be a str, a pathlib.Path or a FileInstruction, not {path!r}"
            )
    return paths


def _read_instructions(paths: Sequence[PathLikeOrFileInstruction]) -> list[ReadInstruction]:
    return _run_in_parallel(
        function=_read_instruction,
        list_of_kwargs_to_function=[{"path": path} for path in paths],
        num_workers=min(len(paths), _OPENED_AT_ONCE),
    )


def _filename(path: PathLikeOrFileInstruction) -> str:
    if isinstance(path, FileInstruction):
        return os.fspath(path.filename)
    part = _RANGE.fullmatch(os.fspath(path))
    return part[1] if part else os.fspath(path)


def _read_instruction(path: PathLikeOrFileInstruction) -> ReadInstruction:
    if isinstance(path, FileInstruction):
        return ReadInstruction(_filename(path), path.skip, path.skip + path.take)
    text = os.fspath(path)
    if part := _RANGE.fullmatch(text):
        return ReadInstruction(part[1], int(part[2]), int(part[3]))
    with _opened(text, "", verify="full", threads=1) as reader:
        return ReadInstruction(text, 0, reader.num_records())


def _opened(filename: str, options: str, *, verify: Verify, threads: int) -> ArrayRecordReader:
    try:
        return ArrayRecordReader(
            filename, options, verify=verify, threads=threads, file_reader_buffer_size=32768
        )
    except OptionError:
        raise
    except (Error, OSError) as error:
        if isinstance(error, FileNotFoundError) and glob.has_magic(filename):
            raise RecordError(
                f"no file at {filename!r}\n"
                f"hint: patterns are not expanded here: pass sorted(glob.glob({filename!r}))"
            ) from error
        raise as_runtime_error(error) from error


def _check_group_size(filename: str, reader: Any) -> None:
    """Log a warning if reading one record means decoding many."""
    options = reader.writer_options_string()
    if not options:
        return
    group_size = re.search(r"group_size:([0-9]+),", options)
    if group_size is None:
        raise OptionError(
            f"{filename!r} does not record its group size; its writer options are {options!r}"
        )
    if group_size[1] != "1":
        _logger.error(
            "File %s was created with group size %s. "
            "Grain requires group size 1 for good performance: write it again with 'group_size:1'.",
            filename,
            group_size[1],
        )


def _run_in_parallel(
    function: Callable[..., T],
    list_of_kwargs_to_function: Sequence[Mapping[str, Any]],
    num_workers: int,
) -> list[T]:
    """Call ``function`` with each of the keyword arguments on threads.

    Return results in order; raise the first exception.
    """
    if num_workers < 1:
        raise OptionError("num_workers must be >=1 for parallelism.")
    with futures.ThreadPoolExecutor(num_workers) as executor:
        # If a call raises, those that have not started are cancelled.
        return list(
            executor.map(lambda arguments: function(**arguments), list_of_kwargs_to_function)
        )
