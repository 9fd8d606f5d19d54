"""Exact sets of ids in a file that is shared by all processes of a machine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from shardmill._native import resume as _native
from shardmill._option_values import listed
from shardmill._sizes import byte_count
from shardmill._threads import available_cores, checked_threads
from shardmill.data._arrow import as_pyarrow_array
from shardmill.errors import OptionError
from shardmill.resume._index_cache import cached, name_of, read_index
from shardmill.storage._paths import PathLike, is_remote, path_of, served_path


class IdIndex:
    """An exact set of ids.

    It is built once into a file, and memory-mapped by any number of processes.

    Ids are equal if type and bytes are equal: ``7``, ``"7"`` and ``"007"`` are three ids. All Arrow
    string types are one type, and so are all widths of signed integers. Floats, lists, maps and
    structs cannot be ids. An index never contains null.

    Use ``build`` or ``open``.

    Examples:
        >>> import pyarrow as pa
        >>> import shardmill as sm
        >>> table = pa.table({"id": ["7", "a-9", "7"]})
        >>> index = sm.resume.IdIndex.build(table, "id", path="done.ids")
        >>> len(index), index.id_type
        (2, 'string')
        >>> index.contains(pa.array(["7", "007", None])).to_pylist()
        [True, False, False]
    """

    def __init__(self, native: _native.IdIndex) -> None:
        self._native = native

    @staticmethod
    def build(
        paths: Any,
        column: str | Sequence[str],
        *,
        path: PathLike | None = None,
        format: str | None = None,
        memory_bytes: int | str = 1 << 30,
        threads: int | None = None,
        progress: bool = True,
    ) -> IdIndex:
        """Read ids and write their index.

        Args:
            paths: files, directories or globs that ``shardmill.Dataset`` opens, or Arrow data: a
                table, a batch, a stream, or an iterable of these.
            column: name of the id column, or of several columns that form an id.
            path: path of the index, on a local disk. By default, a file in the user's cache
                directory, which is reused for the same files. Required for Arrow data.
            format: format of the files; inferred from their names by default.
            memory_bytes: memory for ids; more ids are spilled to disk during the build.
            threads: number of threads; the number of cores by default.
            progress: show a bar on the terminal if the build takes longer than two seconds.

        Raises:
            KeyError: If a column does not exist.
            TypeError: If the type of the ids is not supported, such as floats.
            ValueError: If ``path`` is one of the files of ids.
        """
        columns = [column] if isinstance(column, str) else listed("columns", column)
        if not columns:
            raise OptionError("an id needs at least one column")
        memory, count = byte_count(memory_bytes, "memory_bytes"), checked_threads(threads)
        names = _names(paths)
        path = None if path is None else _local(path)
        if names is None:
            if path is None:
                raise OptionError("an index of Arrow data needs a path\nhint: pass path=")
            builder = _native.IndexBuilder(path, columns, memory_bytes=memory, threads=count)
            for rows in [paths] if _is_arrow(paths) else paths:
                builder.add(rows)
            return IdIndex(builder.finish())

        def build(target: str) -> _native.IdIndex:
            return read_index(
                names,
                columns,
                path=target,
                format=format,
                memory_bytes=memory,
                threads=count,
                is_shown=progress,
            )

        return IdIndex(
            build(path) if path is not None else cached(name_of(names, columns, format), build)
        )

    @staticmethod
    def open(path: PathLike) -> IdIndex:
        """Memory-map an index without reading it.

        Raises:
            FileNotFoundError: If the file does not exist.
            ValueError: If the file is not an index, or is damaged.
        """
        return IdIndex(_native.IdIndex.open(_local(path)))

    def contains(self, ids: Any) -> Any:
        """Return one boolean per row: whether the id is in the index. False for null.

        Args:
            ids: an Arrow array or chunked array; for ids of several columns a list of these.

        Raises:
            TypeError: If the type of the ids differs from that of the index.
        """
        columns = [ids] if _is_arrow(ids) else list(ids) if isinstance(ids, list | tuple) else []
        if not columns or not all(map(_is_arrow, columns)):
            raise TypeError(
                "ids must be an Arrow array, or a list of one for each column, "
                "such as pyarrow.array([...])"
            )
        return as_pyarrow_array(self._native.contains(columns, available_cores()))

    def verify(self) -> None:
        """Read the whole file and check its checksum.

        Raises:
            ValueError: If it is damaged.
        """
        self._native.verify()

    @property
    def path(self) -> str:
        """Path of the file."""
        return self._native.path

    @property
    def nbytes(self) -> int:
        """Size of the file in bytes."""
        return self._native.nbytes

    @property
    def columns(self) -> list[str]:
        """Names of the columns that form an id, in order."""
        return self._native.columns

    @property
    def id_type(self) -> str:
        """Logical type of the ids, such as ``"string"``; for several columns, all their types."""
        return self._native.id_type

    def info(self) -> dict[str, Any]:
        """Return counts of ids, rows and nulls read, bytes, and ids in each kind of segment."""
        return self._native.info()

    def __len__(self) -> int:
        return len(self._native)

    def __repr__(self) -> str:
        return f"IdIndex({self.path}: {len(self):,} ids of {self.id_type}, {self.nbytes:,} bytes)"

    def __reduce__(self) -> tuple[Any, ...]:
        return IdIndex.open, (self.path,)


def _local(path: PathLike) -> str:
    """Return the path of an index. An index is memory-mapped, so it must be a local file."""
    served = served_path(path)
    if is_remote(served):
        raise OptionError(f"{served!r} is not a local path, and an index must be a local file")
    return served


def _is_arrow(data: Any) -> bool:
    return hasattr(data, "__arrow_c_array__") or hasattr(data, "__arrow_c_stream__")


def _names(paths: Any) -> list[str] | None:
    """Return ``paths`` as a list of paths, or ``None`` for Arrow data."""
    if isinstance(paths, str | os.PathLike):
        return [path_of(paths)]
    if _is_arrow(paths) or not isinstance(paths, Sequence):
        if not _is_arrow(paths) and not isinstance(paths, Iterable):
            raise TypeError(f"{type(paths).__name__} is neither paths nor Arrow data")
        return None
    if all(isinstance(part, str | os.PathLike) for part in paths):
        if not paths:
            raise OptionError("no path was given")
        return [path_of(part) for part in paths]
    return None
