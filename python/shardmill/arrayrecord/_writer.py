"""Writes one ArrayRecord file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from shardmill._native import arrayrecord as _native
from shardmill._native.storage import is_local
from shardmill._threads import checked_threads
from shardmill.arrayrecord._reader import as_runtime_error
from shardmill.errors import (
    ClosedError,
    Error,
    NotFoundError,
    OutputExistsError,
    PermissionDeniedError,
    RecordError,
)
from shardmill.storage._configure import configure_all
from shardmill.storage._paths import path_of


class ArrayRecordWriter:
    """Writer of one ArrayRecord file.

    The file has a hidden name until ``close`` renames it, replacing an existing file. Without
    ``close``, or after an exception in the with-block, nothing is left. Threads compress the
    records; the output does not depend on their number.

    Args:
        path: path of the file.
        options: option string of array_record, such as ``"group_size:256,brotli:5"``. By default,
            each record is its own chunk, compressed with zstd at level 3.
        strict: raise at once if the directory is missing, and for unknown keyword arguments. With
            ``False`` the writer is created, returns ``ok() == False``, and raises when it is
            written to.
        threads: number of compression threads; the number of cores by default. 0 or 1 uses the
            calling thread.
        storage_options: options for object stores, see ``shardmill.storage.configure``.
        ignored: with ``strict=False``, other keyword arguments are ignored, as in array_record.

    Raises:
        FileNotFoundError: If ``strict`` and the directory is missing.
        ValueError: If an option is not valid.

    Examples:
        >>> from shardmill.arrayrecord import ArrayRecordReader, ArrayRecordWriter
        >>> with ArrayRecordWriter("words.array_record", "group_size:2,snappy") as writer:
        ...     writer.write(b"one")
        ...     writer.write_all([b"two", b"three"])
        >>> ArrayRecordReader("words.array_record").read_all()
        [b'one', b'two', b'three']
    """

    def __init__(
        self,
        path: str | bytes | os.PathLike[str],
        options: str = "",
        *,
        strict: bool = True,
        threads: int | None = None,
        storage_options: Any = None,
        **ignored: Any,
    ) -> None:
        if ignored and strict:
            raise TypeError(
                f"ArrayRecordWriter has no argument {next(iter(ignored))!r}\n"
                "hint: options are a string, such as 'group_size:64,zstd:5'"
            )
        if not isinstance(options, str):
            raise TypeError(
                "options must be a string such as 'group_size:1,zstd:5', "
                f"not {type(options).__name__}"
            )
        _native.recorded_writer_options(options)
        self._path = path_of(os.fsdecode(path))
        configure_all([self._path], storage_options)
        self._is_open = True
        self._failure: Exception | None = None
        self._native: _native.Writer | None = None
        self._write: Callable[[bytes], None] = self._refuse
        try:
            self._native = _native.Writer(_target(self._path), options, checked_threads(threads))
            self._write = self._native.write
        except (Error, OSError) as error:
            if strict:
                raise
            self._failure = error

    @property
    def path(self) -> str:
        """Path of the file after ``close``."""
        return self._path

    def ok(self) -> bool:
        """Return whether records can be written: the writer is open and nothing has failed."""
        return self._is_open and self._failure is None

    def is_open(self) -> bool:
        """Return whether ``close`` has not been called yet."""
        return self._is_open

    def write(self, record: bytes) -> None:
        """Write a record.

        Raises:
            TypeError: If ``record`` is not ``bytes``.
            RuntimeError: If the writer is closed or has failed.
        """
        try:
            self._write(record)
        except (Error, OSError) as error:
            raise self._failed(error) from error

    def write_all(self, records: Iterable[bytes]) -> None:
        """Write records.

        Raises:
            TypeError, RuntimeError: See ``write``.
        """
        try:
            for record in records:
                self._write(record)
        except Error as error:
            raise self._failed(error) from error

    def close(self) -> None:
        """Write the footer and rename the file to its final name. Closing twice is allowed.

        Raises:
            RuntimeError: If the writer had failed, or fails now; no file is written in this case.
                Raised on every call.
        """
        was_open, self._is_open = self._is_open, False
        native, self._native = self._native, None
        self._write = self._refuse
        if self._failure is not None:
            raise as_runtime_error(self._failure)
        if not was_open or native is None:
            return
        try:
            native.close()
        except (Error, OSError) as error:
            self._failure = error
            raise as_runtime_error(error) from error

    def __enter__(self) -> ArrayRecordWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_exception: object) -> None:
        if kind is None:
            self.close()
            return
        self._is_open = False
        if self._native is not None:
            self._native.abandon()
            self._native = None
            self._write = self._refuse

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self._path!r}: "
            f"{'open' if self.ok() else 'failed' if self._is_open else 'closed'})"
        )

    def _refuse(self, record: bytes) -> None:
        if not isinstance(record, bytes):
            raise TypeError(f"a record must be bytes, not {type(record).__name__}")
        raise self._failure or ClosedError(f"the writer of {self._path!r} is closed")

    def _failed(self, error: Exception) -> RuntimeError:
        if self._is_open and self._failure is None:
            self._failure = error
            self._write = self._refuse
        return as_runtime_error(error)


def _target(path: str) -> str:
    """Return the path that is written for ``path``, with links resolved."""
    if not is_local(path):
        return path
    if "\0" in path:
        raise RecordError(f"{path!r} is not a valid path")
    target = Path(path).resolve()
    if not target.parent.is_dir():
        raise NotFoundError(
            f"{path!r} cannot be written: there is no directory {str(target.parent)!r}\n"
            "hint: create it first"
        )
    if target.is_dir():
        raise OutputExistsError(f"{path!r} is a directory\nhint: pass the path of a file in it")
    if target.is_file() and not os.access(target, os.W_OK):
        raise PermissionDeniedError(f"{path!r} is not writable")
    return str(target)
