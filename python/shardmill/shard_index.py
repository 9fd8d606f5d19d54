"""``index.json``: which shards a folder has, as MosaicML Streaming and ChiniDataset know them.

The index is written last and names whole files only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shardmill._native import storage
from shardmill._native import write as _native
from shardmill.column_types import encoding_of_type
from shardmill.errors import FormatError, NotFoundError, OutputExistsError, PlanError
from shardmill.shards import INDEX_NAME
from shardmill.storage import is_remote

#: What shards of one data set have in common.
COLUMN_KEYS = ("format", "version", "column_names", "column_encodings", "column_sizes")

_ATTEMPTS = 20

_INDEXES = (
    "an index.json of MDS or of ChiniDataset is meant; move the file of another library away, name the parts, or make the index anew by "
    "`shardmill repair-index`"
)


def read_index(path: str) -> dict[str, Any]:
    """The content of an index.

    Raises:
        FileNotFoundError: when there is none.
        ValueError: when the file is no index of version 2.
    """
    content = storage.read(path)
    if content is None:
        raise NotFoundError(f"there is no index {path!r}")
    return parsed_index(content, path)


def parsed_index(content: bytes, path: str) -> dict[str, Any]:
    """As :func:`read_index`, of bytes that were read."""
    try:
        index = json.loads(content)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"{path!r} is no index: {error}\nhint: {_INDEXES}") from error
    shards = index.get("shards") if isinstance(index, dict) else None
    if not isinstance(shards, list) or not all(isinstance(shard, dict) for shard in shards):
        raise FormatError(f"{path!r} is no index: it lists no shards\nhint: {_INDEXES}")
    if index.get("version") != 2:
        raise FormatError(f"{path!r} is an index of version {index.get('version')!r}, and 2 is read\nhint: {_INDEXES}")
    return index


def folders_without_index(paths: Sequence[str]) -> list[str]:
    """Those of the paths that are local folders and have no index."""
    return [path for path in paths if Path(path).is_dir() and not Path(path, INDEX_NAME).exists()]


def index_path(folder: str) -> str:
    """The index of a folder, local or not."""
    return f"{folder.rstrip('/')}/{INDEX_NAME}" if is_remote(folder) else str(Path(folder, INDEX_NAME))


def write_index(folder: str, shards: Sequence[Mapping[str, Any]], *, is_indented: bool) -> str:
    """Writes the index of a folder, whole or not at all; gives its path."""
    path = index_path(folder)
    _native.publish_bytes(path, _text_of(shards, is_indented=is_indented), True)
    return path


def add_to_index(folder: str, shards: Sequence[Mapping[str, Any]], *, is_indented: bool) -> str:
    """Adds shards to the index of a folder in a store, where other writers may do the same at this moment; gives its path.

    Raises:
        ValueError: when the shards that are there now have other columns.
        FileExistsError: when others keep changing the index.
    """
    path = index_path(folder)
    for _ in range(_ATTEMPTS):
        content = storage.read(path)
        known = [] if content is None else parsed_index(content, path)["shards"]
        check_same_columns([*known, *shards], "the new shards do not fit those that are there")
        if storage.replace_object(path, content, _text_of([*known, *shards], is_indented=is_indented)):
            return path
    names = ", ".join(basename_of(shard) for shard in shards)
    raise OutputExistsError(
        f"{path!r} changed {_ATTEMPTS} times while {names} were to be added to it\nhint: `shardmill repair-index` lists all shards"
    )


def _text_of(shards: Sequence[Mapping[str, Any]], *, is_indented: bool) -> bytes:
    return json.dumps(
        {"shards": list(shards), "version": 2}, sort_keys=True, indent=2 if is_indented else None
    ).encode()


def known_shards(folder: str, *, has_data: bool) -> list[dict[str, Any]]:
    """The shards of the index of a folder to which others are added.

    Raises:
        ValueError: when the folder has data and no index.
    """
    path = index_path(folder)
    if storage.size(path) is not None:
        return list(read_index(path)["shards"])
    if has_data:
        raise PlanError(f"the folder {folder!r} has shards and no {INDEX_NAME}, so nothing can be appended to it")
    return []


def check_same_columns(shards: Sequence[Mapping[str, Any]], what: str) -> None:
    """Refuses shards of different columns.

    Raises:
        ValueError: naming the first shard that differs.
    """
    for shard in shards[1:]:
        for key in COLUMN_KEYS:
            if shard.get(key) != shards[0].get(key):
                raise PlanError(
                    f"{what}: shard {basename_of(shard)!r} has {key} {shard.get(key)!r}, "
                    f"{basename_of(shards[0])!r} has {shards[0].get(key)!r}"
                )


def basename_of(shard: Mapping[str, Any]) -> str:
    """The stored file of a shard, below the folder of its index."""
    stored = shard.get("zip_data") or shard.get("raw_data") or {}
    return str(stored.get("basename", "?"))


def mds_entry(text: str, path: str) -> dict[str, Any]:
    """The entry of one MDS shard, with the name that it was given in the end."""
    entry: dict[str, Any] = json.loads(text)["shards"][0]
    stored = Path(path).name
    if entry["zip_data"] is not None:
        entry["zip_data"]["basename"] = stored
        stored = stored.rpartition(".")[0]
    entry["raw_data"]["basename"] = stored
    return entry


def columns_entry(schema: Any) -> dict[str, Any]:
    """What an entry of a Parquet shard says of its columns, as ChiniDataset has it."""
    return {
        "column_encodings": [encoding_of_type(field.type) for field in schema],
        "column_names": list(schema.names),
        "column_sizes": [None] * len(schema),
        "format": "parquet",
        "version": 2,
    }


def parquet_entry(path: str, *, rows: int, hashes: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """What an entry of a Parquet shard says of its file, as ChiniDataset has it."""
    names = sorted(set(hashes))
    return {
        "compression": options["compression"],
        "hashes": names,
        "raw_data": {
            "basename": Path(path).name,
            "bytes": storage.size(path),
            "hashes": dict(zip(names, _native.file_hashes(path, names), strict=True)),
        },
        "samples": rows,
        "size_limit": options["size_limit"],
        "zip_data": None,
    }
