"""One execution of a job: its tasks agree on the type of ids, and its input files are checked.

The tasks agree by means of a directory in that of the checkpoint. The driver creates it before the
first task and removes it at the end. If the driver was killed, the driver of the next execution
removes it. The invariant: tasks write only while the directory exists.
"""

from __future__ import annotations

import posixpath
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSelector, FileSystem, FileType
from ray.data.checkpoint import CheckpointConfig

from shardmill.integrations.ray_checkpoint._ids import IdCheck

_PREFIX, _SUFFIX = ".shardmill-", ".run"
# Reading footers is I/O-bound.
_THREADS = 16


@contextmanager
def execution(config: CheckpointConfig, checkpoint: str) -> Iterator[IdCheck]:
    """Create the directory of an execution for the duration of a with-block.

    Directories of earlier executions are removed.

    Args:
        config: made by ``checkpoint_config``, or Ray's own config with the classes of shardmill.
        checkpoint: path of the checkpoint in its file system.

    Yields:
        The check used by all tasks of the execution.
    """
    filesystem = config.filesystem
    for info in filesystem.get_file_info(FileSelector(checkpoint, allow_not_found=True)):
        name = info.base_name
        if info.type == FileType.Directory and name.startswith(_PREFIX) and name.endswith(_SUFFIX):
            _remove(filesystem, info.path)
    directory = posixpath.join(checkpoint, f"{_PREFIX}{uuid.uuid4().hex}{_SUFFIX}")
    filesystem.create_dir(directory, recursive=True)
    try:
        yield IdCheck.of(config, directory)
    finally:
        _remove(filesystem, directory)


def _remove(filesystem: FileSystem, directory: str) -> None:
    with suppress(FileNotFoundError):
        filesystem.delete_dir(directory)


def check_files(
    check: IdCheck, filesystem: FileSystem, paths: Iterable[str], *, reads_all_rows: bool
) -> None:
    """Check Parquet files by their footers.

    Ids are read only from row groups whose statistics do not exclude nulls. If the job does not
    read all rows, the tasks check for nulls.

    Raises:
        IdTypeError: If the type of the ids in a file is not supported for ids, or differs from that
            of another file.
        FormatError: If a row has no id.
    """
    with ThreadPoolExecutor(_THREADS) as pool:
        one = partial(
            _check_file,
            check,
            filesystem,
            looks_for_nulls=reads_all_rows and not check.allows_nulls,
        )
        for _ in pool.map(one, paths):
            pass


def _check_file(
    check: IdCheck, filesystem: FileSystem, path: str, *, looks_for_nulls: bool
) -> None:
    try:
        opened = pq.ParquetFile(filesystem.open_input_file(path))
    except (pa.ArrowInvalid, OSError):
        # The task that reads it reports what is wrong with it.
        return
    with opened as file:
        schema, metadata = file.schema_arrow, file.metadata
        if check.column not in schema.names:
            # It may come from the path, or be renamed later.
            return
        place = f"`{path}`"
        check.check_type(schema, place)
        leaf = next(
            (
                i
                for i in range(metadata.num_columns)
                if metadata.schema.column(i).path == check.column
            ),
            None,
        )
        row = 0
        for number in range(metadata.num_row_groups if looks_for_nulls else 0):
            group = metadata.row_group(number)
            statistics = None if leaf is None else group.column(leaf).statistics
            if statistics is None or not statistics.has_null_count or statistics.null_count:
                check.check(file.read_row_group(number, columns=[check.column]), place, row)
            row += group.num_rows
