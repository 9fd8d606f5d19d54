"""The index of a checkpoint on the disk of a node: built once, mapped by all processes that filter.

Invariant: the name of an index is derived from the names, sizes and times of its source files. So a
process that finds it needs nothing else, and a process that does not find it builds the same index.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.fs import FileInfo, FileSystem, LocalFileSystem

from shardmill._native import resume as _native
from shardmill.resume import IdIndex
from shardmill.resume._index_cache import cached, digest

logger = logging.getLogger(__name__)

_MOST_MAPPED = 4


@dataclass(frozen=True)
class IndexSpec:
    """What an index is built from; it is sent to the workers.

    Attributes:
        checkpoint: directory of the records.
        column: name of the id column.
        files: the records.
        memory_bytes: memory for the build.
        name: name of the file; what precedes its last hyphen is the same for all indexes of this
            checkpoint. Computed once, because there may be many records and many tasks.
    """

    checkpoint: str
    column: str
    files: tuple[str, ...]
    memory_bytes: int
    name: str

    @classmethod
    def of(
        cls, checkpoint: str, column: str, files: list[FileInfo], memory_bytes: int
    ) -> IndexSpec:
        """The index of these files as they are now."""
        versions = digest([[info.path, info.size, info.mtime_ns] for info in files])
        name = f"ray-{digest([checkpoint, column])}-{versions}.ids"
        return cls(checkpoint, column, tuple(info.path for info in files), memory_bytes, name)


#: Indexes that this process has mapped, by name.
_mapped: dict[str, IdIndex] = {}


def opened(spec: IndexSpec, filesystem: FileSystem) -> IdIndex:
    """Map the index.

    If this node has none, build it from files of ``filesystem`` while other processes wait.
    """
    if spec.name not in _mapped:
        index = IdIndex(cached(spec.name, partial(_build, spec, filesystem)))
        for older in list(_mapped)[: 1 - _MOST_MAPPED]:
            del _mapped[older]
        _mapped[spec.name] = index
    return _mapped[spec.name]


def done_in(index: IdIndex, ids: pa.Array | pa.ChunkedArray) -> pa.BooleanArray:
    """Return which of the ids are in the index, as one array."""
    found = index.contains(ids)
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def rows_left(table: pa.Table, is_done: pa.BooleanArray) -> pa.Table:
    """Return the rows that are not done: the table itself, if none of its rows is."""
    done = is_done.true_count
    if done == 0:
        return table
    return (
        table.slice(0, 0)
        if done == table.num_rows
        else table.filter(pc.call_function("invert", [is_done]))
    )


def _build(spec: IndexSpec, filesystem: FileSystem, target: str) -> _native.IdIndex:
    path = Path(target)
    logger.info("Loading checkpoint %s: %d files", spec.checkpoint, len(spec.files))
    files = list(spec.files)
    source = (
        files
        if isinstance(filesystem, LocalFileSystem)
        else _batches(filesystem, files, spec.column)
    )
    index = IdIndex.build(
        source, spec.column, path=path, memory_bytes=spec.memory_bytes, progress=False
    )
    for older in path.parent.glob(f"{spec.name.rpartition('-')[0]}-*.ids"):
        if older != path:
            # It is useless now. A process that has mapped it keeps it.
            older.unlink(missing_ok=True)
    logger.info("Loaded checkpoint %s: %d ids", spec.checkpoint, len(index))
    return _native.IdIndex.open(target)


def _batches(
    filesystem: FileSystem, files: list[str], column: str
) -> Iterator[pa.Table | pa.RecordBatch]:
    """Yield the ids of files that only this file system can open."""
    for path in files:
        with filesystem.open_input_file(path) as file:
            records = pq.ParquetFile(file)
            # Reports the type of the ids even if there are none.
            yield records.schema_arrow.empty_table().select([column])
            yield from records.iter_batches(columns=[column])
