"""``index.json``: the list of shards of a directory, as in MosaicML Streaming and ChiniDataset.

The index is written last and lists complete files only.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from shardmill._extras import pyarrow_for
from shardmill._native import storage
from shardmill._native import write as _native
from shardmill._warnings import warn_caller
from shardmill.data._column_types import encoding_of_type
from shardmill.errors import FormatError, NotFoundError, OutputExistsError, PlanError
from shardmill.storage._paths import is_remote

INDEX_NAME = "index.json"

#: Settings that all shards of one data set have in common.
COLUMN_KEYS = ("format", "version", "column_names", "column_encodings", "column_sizes")

_ATTEMPTS = 20

_INDEXES = (
    "an index.json of MDS or of ChiniDataset is expected; move the file of another library away, "
    "pass the parts explicitly, or rebuild the index with `shardmill repair-index`"
)


def read_index(path: str) -> dict[str, Any]:
    """Read an index.

    Raises:
        FileNotFoundError: If it does not exist.
        ValueError: If the file is not an index of version 2.
    """
    content = storage.read(path)
    if content is None:
        raise NotFoundError(f"there is no index {path!r}")
    return parsed_index(content, path)


def parsed_index(content: bytes, path: str) -> dict[str, Any]:
    """Parse the bytes of an index; see ``read_index``."""
    try:
        index = json.loads(content)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"{path!r} is not an index: {error}\nhint: {_INDEXES}") from error
    shards = index.get("shards") if isinstance(index, dict) else None
    if not isinstance(shards, list) or not all(isinstance(shard, dict) for shard in shards):
        raise FormatError(f"{path!r} is not an index: it lists no shards\nhint: {_INDEXES}")
    if index.get("version") != 2:
        raise FormatError(
            f"{path!r} is an index of version {index.get('version')!r}, "
            "only version 2 is supported\n"
            f"hint: {_INDEXES}"
        )
    return index


def warn_of_missing_index(paths: Sequence[str]) -> None:
    """Warn about local directories among the paths whose MDS shards have no index."""
    directories = [
        path for path in paths if Path(path).is_dir() and not Path(path, INDEX_NAME).exists()
    ]
    if directories:
        warn_caller(
            f"the MDS shards in {', '.join(directories)} have no {INDEX_NAME}, "
            "so a missing or replaced shard cannot be detected\n"
            f"hint: `shardmill repair-index {directories[0]}` creates one from the shards, "
            "sm.merge() from parts that have an index"
        )


def index_path(directory: str) -> str:
    """Return the path of the index of a directory, local or remote."""
    return (
        f"{directory.rstrip('/')}/{INDEX_NAME}"
        if is_remote(directory)
        else str(Path(directory, INDEX_NAME))
    )


def write_index(directory: str, shards: Sequence[Mapping[str, Any]], *, is_indented: bool) -> int:
    """Write the index of a directory atomically and return its size in bytes.

    Raises:
        ValueError: If a shard is listed twice.
    """
    content = _text_of(directory, shards, is_indented=is_indented)
    _native.publish_bytes(index_path(directory), content, True)
    return len(content)


def add_to_index(
    directory: str,
    shards: Sequence[Mapping[str, Any]],
    *,
    is_indented: bool,
    may_list: Collection[str] = (),
) -> int:
    """Add shards to the index of a directory in a store, and return its size in bytes.

    Other writers may do so at the same time.

    Args:
        directory: the directory.
        shards: entries of the shards.
        is_indented: how the index is formatted.
        may_list: names that the index may already list; their entries are replaced.

    Raises:
        ValueError: If the existing shards have other columns.
        FileExistsError: If other writers keep changing the index.
    """
    path = index_path(directory)
    for _ in range(_ATTEMPTS):
        before = storage.read(path)
        known = [] if before is None else parsed_index(before, path)["shards"]
        known = [shard for shard in known if basename_of(shard) not in may_list]
        check_same_columns([*known, *shards], "the new shards do not fit those that are there")
        content = _text_of(directory, [*known, *shards], is_indented=is_indented)
        if storage.replace_object(path, before, content):
            return len(content)
    names = ", ".join(basename_of(shard) for shard in shards)
    raise OutputExistsError(
        f"{path!r} changed {_ATTEMPTS} times while {names} were to be added to it\n"
        "hint: `shardmill repair-index` lists all shards"
    )


def _text_of(directory: str, shards: Sequence[Mapping[str, Any]], *, is_indented: bool) -> bytes:
    names = [basename_of(shard) for shard in shards]
    if len(set(names)) < len(names):
        twice = next(name for number, name in enumerate(names) if name in names[:number])
        raise FormatError(
            f"the index of {directory!r} would list {twice!r} twice\n"
            "hint: rebuild the existing index with `shardmill repair-index`"
        )
    return json.dumps(
        {"shards": list(shards), "version": 2}, sort_keys=True, indent=2 if is_indented else None
    ).encode()


def known_shards(directory: str, *, has_data: bool) -> list[dict[str, Any]]:
    """Return the shards in the index of a directory to which others are appended.

    Raises:
        ValueError: If the directory has data but no index.
    """
    path = index_path(directory)
    if storage.size(path) is not None:
        return list(read_index(path)["shards"])
    if has_data:
        raise PlanError(
            f"the directory {directory!r} has shards and no {INDEX_NAME}, "
            "so nothing can be appended to it"
        )
    return []


def check_same_columns(shards: Sequence[Mapping[str, Any]], what: str) -> None:
    """Reject shards with different columns.

    Raises:
        ValueError: If a shard differs. The message names the first one.
    """
    for shard in shards[1:]:
        for key in COLUMN_KEYS:
            if shard.get(key) != shards[0].get(key):
                raise PlanError(
                    f"{what}: shard {basename_of(shard)!r} has {key} {shard.get(key)!r}, "
                    f"{basename_of(shards[0])!r} has {shards[0].get(key)!r}"
                )


def basename_of(shard: Mapping[str, Any]) -> str:
    """Return the stored file of a shard, relative to the directory of its index."""
    stored = shard.get("zip_data") or shard.get("raw_data") or {}
    return str(stored.get("basename", "?"))


def mds_entry(text: str, path: str) -> dict[str, Any]:
    """Return the entry of one MDS shard, with its final name."""
    return named_entry(json.loads(text)["shards"][0], path)


def named_entry(entry: dict[str, Any], path: str) -> dict[str, Any]:
    """Return an entry after it has been given the name of its file."""
    stored = Path(path).name
    if entry["zip_data"] is not None:
        entry["zip_data"]["basename"] = stored
        stored = stored.rpartition(".")[0]
    entry["raw_data"]["basename"] = stored
    return entry


def columns_entry(schema: Any) -> dict[str, Any]:
    """Return the part of a Parquet shard's entry that describes its columns, as in ChiniDataset."""
    schema = pyarrow_for("index='chinidataset'").schema(schema)
    return {
        "column_encodings": [encoding_of_type(field.type) for field in schema],
        "column_names": list(schema.names),
        "column_sizes": [None] * len(schema),
        "format": "parquet",
        "version": 2,
    }


def parquet_entry(
    path: str, *, rows: int, hashes: Sequence[str], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the part of a Parquet shard's entry that describes its file, as in ChiniDataset."""
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
