"""What lies where a writer will write."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from shardmill.errors import OutputExistsError

Mode = Literal["error", "overwrite", "append"]

#: What :class:`shardmill.Dataset` would read from the folder beside the shards of a writer.
_DATA_FILE = re.compile(
    r"\.(parquet|pq|orc|csv|json|jsonl|ndjson|(array_record|arrayrecord|arecord)(-\d+-of-\d+)?)$", re.IGNORECASE
)
_SHARD = re.compile(r"part-(\d+)\.\w+")


def replaced_files(out: str, *, is_file: bool, mode: Mode) -> list[str]:
    """Data files of the folder ``out`` that go when the new ones are there.

    Raises:
        FileExistsError: when there is something, and it is to stay.
    """
    path = Path(out)
    exists = path.exists() or path.is_symlink()
    if is_file:
        if path.is_dir():
            raise OutputExistsError(f"{out!r} is a folder, and its name is that of one file")
        if mode == "error" and exists:
            raise OutputExistsError(f'{out!r} exists already\nhint: mode="overwrite" replaces it')
        return []
    if exists and not path.is_dir():
        raise OutputExistsError(f"{out!r} is a file, and shards are written to a folder")
    if mode == "append" or not exists:
        return []
    found = sorted(str(entry) for entry in path.iterdir() if _is_data(entry.name))
    if mode == "error" and found:
        raise OutputExistsError(
            f"the folder {out!r} has {len(found):,} data files already, such as {Path(found[0]).name!r}\n"
            'hint: mode="overwrite" replaces them, mode="append" adds shards'
        )
    return found


def next_number(folder: str) -> int:
    """One more than that of the last shard."""
    names = [entry.name for entry in Path(folder).iterdir()] if Path(folder).is_dir() else []
    return max((int(match[1]) + 1 for name in names if (match := _SHARD.fullmatch(name))), default=0)


def _is_data(name: str) -> bool:
    return not name.startswith((".", "_")) and _DATA_FILE.search(name) is not None
