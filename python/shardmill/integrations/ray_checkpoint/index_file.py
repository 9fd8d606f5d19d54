"""The index of a checkpoint on the disk of a node: built once, mapped by all processes that filter.

The invariant: the name of an index follows from the names, sizes and times of the files that it was built from. So a process that finds it
needs nothing else, and one that does not builds the same.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileInfo, FileSystem, LocalFileSystem

from shardmill.errors import FormatError
from shardmill.resume import IdIndex

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class IndexSpec:
    """What an index is built from, as it travels to the workers.

    Attributes:
        checkpoint: folder of the records.
        column: name of the id column.
        files: the records.
        memory_bytes: memory that the build may take.
        family: how the names of all indices of this checkpoint begin; when there is a newer one, the older are of no use.
        name: of the file. Made once, as there may be many records and many tasks.
    """

    checkpoint: str
    column: str
    files: tuple[str, ...]
    memory_bytes: int
    family: str
    name: str

    @classmethod
    def of(cls, checkpoint: str, column: str, files: list[FileInfo], memory_bytes: int) -> IndexSpec:
        """The index of these files as they are now."""
        family = f"ray-{_digest([checkpoint, column])}-"
        name = f"{family}{_digest([[info.path, info.size, info.mtime_ns] for info in files])}.ids"
        return cls(checkpoint, column, tuple(info.path for info in files), memory_bytes, family, name)

    def path(self) -> Path:
        """Where the index is on this node."""
        home = os.environ.get("XDG_CACHE_HOME")
        return (Path(home) if home else Path.home() / ".cache") / "shardmill" / "indexes" / self.name


def opened(spec: IndexSpec, filesystem: FileSystem) -> IdIndex:
    """The index, mapped. It is built if this node has none; whoever needs it meanwhile waits.

    Args:
        spec: says what is in it.
        filesystem: where its files are.
    """
    path = spec.path()
    path.parent.mkdir(parents=True, exist_ok=True)
    if (index := _found(path)) is not None:
        return index
    with _locked(path.parent / f"{spec.family}lock"):
        if (index := _found(path)) is not None:
            return index
        _build(spec, filesystem, path)
        return _mapped(path)


def _found(path: Path) -> IdIndex | None:
    try:
        return _mapped(path)
    except FileNotFoundError:
        return None
    except FormatError as error:
        # It is only a cache: what another version wrote, or a full disk cut off, is written anew.
        logger.warning("%s; it is built again", error)
        return None


@lru_cache(maxsize=4)
def _mapped(path: Path) -> IdIndex:
    return IdIndex.open(str(path))


def _build(spec: IndexSpec, filesystem: FileSystem, path: Path) -> None:
    start = time.monotonic()
    logger.info("Loading checkpoint %s: %d files", spec.checkpoint, len(spec.files))
    files = list(spec.files)
    source = files if isinstance(filesystem, LocalFileSystem) else _batches(filesystem, files, spec.column)
    index = IdIndex.build(source, spec.column, path=str(path), memory_bytes=spec.memory_bytes, progress=False)
    for older in path.parent.glob(f"{spec.family}*.ids"):
        if older != path:
            # Who has mapped it keeps it.
            older.unlink(missing_ok=True)
    seconds = time.monotonic() - start
    logger.info("Loaded checkpoint %s: %d ids in %.1f s", spec.checkpoint, len(index), seconds)


def _batches(filesystem: FileSystem, files: list[str], column: str) -> Iterator[pa.Table | pa.RecordBatch]:
    """The ids of files that only this file system can open."""
    for path in files:
        with filesystem.open_input_file(path) as file:
            records = pq.ParquetFile(file)
            # Says of which type the ids are, also where there are none.
            yield records.schema_arrow.empty_table().select([column])
            yield from records.iter_batches(columns=[column])


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """The lock ends with its process, so it is never stale."""
    with path.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:20]
