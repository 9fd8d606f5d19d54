"""Exact sets of ids in a file that all processes of a machine share."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from shardmill import storage
from shardmill._native import resume as _native
from shardmill.arrow import as_pyarrow_array
from shardmill.dataset import PathLike, column_names
from shardmill.errors import OptionError
from shardmill.resume.index_cache import cached, read_index
from shardmill.sizes import byte_count
from shardmill.threads import available_cores, checked_threads


class IdIndex:
    """An exact set of ids: what was done. Built once into a file, then mapped by any number of processes that share its memory.

    Identity is type and bytes: ``7``, ``"7"`` and ``"007"`` are three ids. Strings of every Arrow kind are one type, and so are the widths of
    signed integers. Floats, lists, maps and structs identify nothing and are refused. A null is in no index.

    Use :meth:`build` or :meth:`open`.

    Example:
        >>> import pyarrow as pa
        >>> import shardmill as sm
        >>> index = sm.resume.IdIndex.build(pa.table({"id": ["7", "a-9", "7"]}), "id", path="done.ids")
        >>> len(index), index.id_type
        (2, 'string')
        >>> index.contains(pa.array(["7", "007", None])).to_pylist()
        [True, False, False]
    """

    def __init__(self, native: _native.IdIndex) -> None:
        self.native = native

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
        """Reads ids and publishes their index.

        Args:
            paths: files, directories or globs that :class:`shardmill.Dataset` opens, or Arrow data: a table, a batch, a stream, or an iterable
                of these.
            column: the column of the ids, or several that make an id together.
            path: where the index will stand, on a local disk. ``None`` is a file in the user's cache folder, which is found again when the same
                files are asked for; Arrow data needs a path.
            format: of the files; by their names when ``None``.
            memory_bytes: for ids; more of them go to the disk for the time of the build.
            threads: as many as there are cores when ``None``.
            progress: a bar on the terminal when it takes longer than two seconds.

        Raises:
            KeyError: when there is no such column.
            TypeError: for ids that identify nothing, such as floats.
        """
        columns = [column] if isinstance(column, str) else column_names(column)
        if not columns:
            raise OptionError("an id is made of one column or several, and none was named")
        memory, count = byte_count(memory_bytes, "memory_bytes"), checked_threads(threads)
        names = _names(paths)
        path = None if path is None else _local(path)
        if names is None:
            if path is None:
                raise OptionError("an index of Arrow data has no files to be found again by\nhint: name its path=")
            builder = _native.IndexBuilder(path, columns, memory_bytes=memory, threads=count)
            for rows in [paths] if _is_arrow(paths) else paths:
                builder.add(rows)
            return IdIndex(builder.finish())

        if path is not None and os.path.realpath(path) in map(os.path.realpath, names):
            raise OptionError(f"{path!r} is a file of ids; the index needs a path of its own")

        def build(target: str) -> _native.IdIndex:
            return read_index(
                names, columns, path=target, format=format, memory_bytes=memory, threads=count, is_shown=progress
            )

        return IdIndex(build(path) if path is not None else cached(names, columns, format, build))

    @staticmethod
    def open(path: PathLike) -> IdIndex:
        """Maps an index; nothing is loaded.

        Raises:
            FileNotFoundError: when there is no such file.
            ValueError: for a file that is no index, or damaged.
        """
        return IdIndex(_native.IdIndex.open(_local(path)))

    def contains(self, ids: Any) -> Any:
        """One boolean a row: whether the id is in the index. A null never is.

        Args:
            ids: an Arrow array or chunked array; for ids of several columns a list of them.

        Raises:
            TypeError: for ids of another type than those of the index.
        """
        columns = [ids] if _is_arrow(ids) else list(ids) if isinstance(ids, list | tuple) else []
        if not columns or not all(map(_is_arrow, columns)):
            raise TypeError(
                "ids must be an Arrow array, or a list of one for each column, such as pyarrow.array([...])"
            )
        return as_pyarrow_array(self.native.contains(columns, available_cores()))

    def verify(self) -> None:
        """Reads all of the file and compares it with its checksum.

        Raises:
            ValueError: when it is damaged.
        """
        self.native.verify()

    @property
    def path(self) -> str:
        """Where the file stands."""
        return self.native.path

    @property
    def nbytes(self) -> int:
        """Size of the file."""
        return self.native.nbytes

    @property
    def columns(self) -> list[str]:
        """Names of the columns that make an id, in order."""
        return self.native.columns

    @property
    def id_type(self) -> str:
        """The logical type of the ids, such as ``"string"``; of several columns, their types."""
        return self.native.id_type

    def info(self) -> dict[str, Any]:
        """Counts: ids, rows and nulls that were read, bytes, and how many ids each kind of segment holds."""
        return self.native.info()

    def __len__(self) -> int:
        return len(self.native)

    def __repr__(self) -> str:
        return f"IdIndex({self.path}: {len(self):,} ids of {self.id_type}, {self.nbytes:,} bytes)"

    def __reduce__(self) -> tuple[Any, ...]:
        return IdIndex.open, (self.path,)


def _local(path: PathLike) -> str:
    """The path of an index. An index is memory-mapped, so it must be a local file."""
    served = storage.served_path(path)
    if storage.is_remote(served):
        raise OptionError(f"{served!r} is not a local path, and an index is a local file that is mapped")
    return served


def _is_arrow(data: Any) -> bool:
    return hasattr(data, "__arrow_c_array__") or hasattr(data, "__arrow_c_stream__")


def _names(paths: Any) -> list[str] | None:
    """``paths`` as a list of paths, or ``None`` for Arrow data."""
    if isinstance(paths, str | os.PathLike):
        return [storage.path_of(paths)]
    if _is_arrow(paths) or not isinstance(paths, Sequence):
        if not _is_arrow(paths) and not isinstance(paths, Iterable):
            raise TypeError(f"{type(paths).__name__} is neither paths nor Arrow data")
        return None
    if all(isinstance(part, str | os.PathLike) for part in paths):
        if not paths:
            raise OptionError("no path was given")
        return [storage.path_of(part) for part in paths]
    return None
