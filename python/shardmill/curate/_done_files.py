"""Files with the ids of rows that are done, as other tools write them."""

from __future__ import annotations

import logging
from pathlib import Path

from shardmill._native import storage
from shardmill.errors import FormatError, OptionError
from shardmill.resume._checkpoint import is_file
from shardmill.storage._paths import is_remote

_log = logging.getLogger("shardmill.resume")


def files_of(path: str) -> list[str]:
    """Return the files of a path that a user names."""
    if storage.size(path) is None:
        raise OptionError(f"`done` names `{path}`, which does not exist")
    if is_file(path):
        return [path]
    below = (
        storage.files(path)
        if is_remote(path)
        else [str(file) for file in Path(path).rglob("*") if file.is_file()]
    )
    return [
        file
        for file in sorted(below)
        if not file.endswith(".pending.parquet") and not Path(file).name.startswith((".", "_"))
    ]


def parquet_in(directory: str) -> list[str]:
    """Return the Parquet files directly in a directory."""
    if is_remote(directory):
        return [
            f"{directory}/{name}" for name in storage.names(directory) if name.endswith(".parquet")
        ]
    return (
        [str(path) for path in sorted(Path(directory).glob("*.parquet"))]
        if Path(directory).is_dir()
        else []
    )


def has_ids(path: str, columns: list[str], *, is_named: bool) -> bool:
    """Return whether a file can be read, has the columns, and has rows.

    Without any rows, its types may be arbitrary.
    """
    from shardmill.data._dataset import Dataset

    try:
        dataset = Dataset(path)
        names, has_rows = dataset.schema.names, len(dataset) > 0
    except (FormatError, OSError, ValueError) as error:
        _log.warning(
            "`%s` is ignored, its ids do not count as done: %s", path, str(error).split("\n")[0]
        )
        return False
    missing = [column for column in columns if column not in names]
    if missing:
        _log.log(
            logging.WARNING if is_named else logging.INFO,
            "`%s` is ignored: it has no column `%s`",
            path,
            missing[0],
        )
    return has_rows and not missing
