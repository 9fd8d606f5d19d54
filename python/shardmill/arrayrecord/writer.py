"""Writing one ArrayRecord file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from shardmill._native import arrayrecord as _native
from shardmill._native.storage import is_local
from shardmill.arrayrecord.reader import as_runtime_error
from shardmill.errors import (
    ClosedError,
    Error,
    NotFoundError,
    OutputExistsError,
    PermissionDeniedError,
    RecordError,
)
from shardmill.storage import configure_all, path_of
from shardmill.threads import checked_threads


class ArrayRecordWriter:
    """A file in the making.

    It has a hidden name until :meth:`close`, which gives it its own, in place of a file that is there; without ``close``, or after an
    exception in the with-block, nothing is left. Threads compress, and what they write does not depend on how many they are.

    Args:
        path: the file.
        options: the option string of array_record: ``"group_size:256,brotli:5"``. Without it, each record is a chunk of its own, compressed
            by zstd at level 3.
        strict: raise at once when the folder is missing, and for keyword arguments that do not exist. With ``False`` such a writer is made, says
            ``ok() == False``, and raises when it is written to.
        threads: for compression; as many as there are cores when ``None``, 0 or 1 for the caller's own.
        storage_options: how the bucket of a remote path is reached, see :func:`shardmill.storage.configure`.
        ignored: with ``strict=False``, other keyword arguments, as array_record ignores them.

    Raises:
        FileNotFoundError: (strict) when the folder is missing.
        ValueError: for options that mean nothing.

    Example:
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
            raise TypeError(f"ArrayRecordWriter has no argument {next(iter(ignored))!r}")
        if not isinstance(options, str):
            raise TypeError(f"options is a string such as 'group_size:1,zstd:5', not {type(options).__name__}")
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
        """The file, once it is closed."""
        return self._path

    def ok(self) -> bool:
        """Whether records can be written: the writer is open and nothing has failed."""
        return self._is_open and self._failure is None

    def is_open(self) -> bool:
        """Whether :meth:`close` was not called yet."""
        return self._is_open

    def write(self, record: bytes) -> None:
        """Adds a record.

        Raises:
            TypeError: for what is not ``bytes``.
            RuntimeError: when the writer is closed or has failed.
        """
        try:
            self._write(record)
        except (Error, OSError) as error:
            raise self._failed(error) from error

    def write_all(self, records: Iterable[bytes]) -> None:
        """Adds records.

        Raises:
            TypeError, RuntimeError: as :meth:`write`.
        """
        try:
            for record in records:
                self._write(record)
        except Error as error:
            raise self._failed(error) from error

    def close(self) -> None:
        """Writes what makes the file readable and gives it its name. Closing twice is fine.

        Raises:
            RuntimeError: when the writer had failed, or fails now; there is no file then. Each time.
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
            f"{type(self).__name__}({self._path!r}: {'open' if self.ok() else 'failed' if self._is_open else 'closed'})"
        )

    def _refuse(self, record: bytes) -> None:
        if not isinstance(record, bytes):
            raise TypeError(f"a record is bytes, not {type(record).__name__}")
        raise self._failure or ClosedError(f"the writer of {self._path!r} is closed")

    def _failed(self, error: Exception) -> RuntimeError:
        if self._is_open and self._failure is None:
            self._failure = error
            self._write = self._refuse
        return as_runtime_error(error)


def _target(path: str) -> str:
    """What is written when somebody writes to ``path``: links are followed."""
    if not is_local(path):
        return path
    if "\0" in path:
        raise RecordError(f"{path!r} is no path")
    target = Path(path).resolve()
    if not target.parent.is_dir():
        raise NotFoundError(
            f"{path!r} cannot be written: there is no folder {str(target.parent)!r}\nhint: make it first"
        )
    if target.is_dir():
        raise OutputExistsError(f"{path!r} is a folder\nhint: name a file in it")
    if target.is_file() and not os.access(target, os.W_OK):
        raise PermissionDeniedError(f"{path!r} may not be written")
    return str(target)
