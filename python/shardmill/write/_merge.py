"""Merges parts that were written separately into one data set."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from shardmill._native import storage
from shardmill._native.formats import type_names
from shardmill.data._shard_index import (
    INDEX_NAME,
    basename_of,
    check_same_columns,
    index_path,
    read_index,
    write_index,
)
from shardmill.errors import FormatError, NotFoundError, OptionError, PlanError
from shardmill.storage._configure import configure_all
from shardmill.storage._paths import PathLike, real, served_path
from shardmill.write._output import output_of
from shardmill.write._pairs import is_pair, merged_pairs

_SHARD_HINT = (
    "copy the shard again, write the part again, or rebuild its index with `shardmill repair-index`"
)


def merge(
    out: PathLike,
    parts: Iterable[PathLike] | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> list[str]:
    """Merge parts into one data set without changing their files.

    Parts with an ``index.json`` (MDS, and Parquet with ``index="chinidataset"``) get a merged index
    with the shards of all parts, with paths relative to ``out``. It is written atomically after
    every part was checked. Shards that lie directly in ``out`` and are listed in its index come
    first. Parts without an index (Parquet, ArrayRecord, JSONL, WebDataset) do not need one: a data
    set reads the directory. Their schemas are compared, and nothing is written.

    Parts that are pairs of Megatron-LM are copied into the pair ``out``, with the bytes that its
    ``tools/merge_datasets.py`` writes for parts in this order. They need not be below ``out``.
    Their provenance is joined; see ``Provenance``.

    Args:
        out: the directory that contains the parts, at any depth; may be in an object store. For
            pairs, the new pair without ``.bin`` and ``.idx``.
        parts: directories or index files of the parts, or prefixes of pairs, in row order; by
            default, all parts below ``out`` in path order. Like ``out``, their paths are relative
            to the working directory. A part that is listed twice counts once, unless it is a pair.
        storage_options: see ``shardmill.storage.configure``.

    Returns:
        The paths of all data files, in order.

    Raises:
        FileNotFoundError: If there are no parts, or a shard of one is missing.
        FileExistsError: If the pair ``out`` exists.
        ValueError: If the columns of parts differ, or how pairs store a token.

    Examples:
        >>> import shardmill as sm
        >>> for part in range(2):
        ...     with sm.Writer(f"set/{part:05}", format="mds", columns={"x": "int"}) as writer:
        ...         writer.write({"x": part})
        >>> sm.merge("set")
        ['set/00000/shard.00000.mds', 'set/00001/shard.00000.mds']
    """
    root = os.fspath(out)
    configure_all([root], storage_options)
    root = served_path(root)
    parts = None if parts is None else _listed(parts)
    if parts is not None and any(is_pair(part) for part in parts):
        return merged_pairs(root, parts)
    if not _is_directory(root):
        raise NotFoundError(f"there is no directory {root!r}")
    if parts is None:
        indexes = _found(root)
        directories = [] if indexes else [root]
    else:
        given = [served_path(part) for part in parts]
        indexes = _named(root, given)
        directories = [
            part for part in given if _is_directory(part) and not _exists(index_path(part))
        ]
        if indexes and directories:
            raise PlanError(
                f"the part {directories[0]!r} has no {INDEX_NAME}, but other parts do\n"
                "hint: `shardmill repair-index` creates one for MDS shards; "
                "or remove the part from parts="
            )
    return _merged(root, indexes) if indexes else _compared(directories)


def _listed(parts: Iterable[PathLike]) -> list[PathLike]:
    if isinstance(parts, str | bytes | os.PathLike):
        raise OptionError(
            f"parts must be a list of paths, not {parts!r}\nhint: write parts=[{parts!r}]"
        )
    listed = list(parts)
    if not listed:
        raise OptionError("parts is empty\nhint: omit parts to merge all parts below the directory")
    return listed


def _found(root: str) -> list[str]:
    """Return all indexes below the root except its own, in path order."""
    if storage.is_remote(root):
        found = {
            path: _parts_below(path, root)
            for path in storage.files(root)
            if path.endswith(f"/{INDEX_NAME}")
        }
    else:
        found = {str(path): path.relative_to(root).parts for path in Path(root).rglob(INDEX_NAME)}
    visible = [
        path
        for path, names in found.items()
        if len(names) > 1 and not any(name.startswith(".") for name in names)
    ]
    return sorted(visible, key=found.__getitem__)


def _parts_below(path: str, root: str) -> tuple[str, ...]:
    """Return the path components from the root to ``path``; none if it is not below the root."""
    inner, outer = real(path), real(root)
    return (
        tuple(inner[len(outer) + 1 :].split("/"))
        if inner.startswith(f"{outer.rstrip('/')}/")
        else ()
    )


def _exists(path: str) -> bool:
    return storage.size(path) is not None


def _is_directory(path: str) -> bool:
    return bool(storage.names(path)) if storage.is_remote(path) else Path(path).is_dir()


def _named(root: str, parts: list[str]) -> list[str]:
    indexes: dict[str, str] = {}
    for part in parts:
        path = part if Path(part).name == INDEX_NAME else index_path(part)
        if not _exists(path):
            if _is_directory(part):
                continue
            raise NotFoundError(f"there is no part {part!r}\nhint: {_part_hint(root, part)}")
        names = _parts_below(path, root)
        if not names:
            raise PlanError(
                f"the part {part!r} is not below {root!r}\n"
                "hint: an index names files below its directory only"
            )
        if len(names) == 1:
            raise PlanError(f"{part!r} is the index to be written")
        indexes.setdefault(real(path), path)
    return list(indexes.values())


def _part_hint(root: str, part: str) -> str:
    """Return what to do about a part that does not exist."""
    below = f"{root.rstrip('/')}/{part}"
    if _is_directory(below) or _exists(below):
        return (
            f"paths of parts are relative to the working directory, not to {root!r}: pass {below!r}"
        )
    return "pass directories or index files, relative to the working directory"


def _merged(root: str, indexes: list[str]) -> list[str]:
    # Under the lock, no other writer appends to the root.
    with output_of(root, is_file=False, mode="append", prefix="shard.").locked():
        parts: dict[str, dict[str, Any]] = {}
        for path in indexes:
            for shard in _shards_of(path, root):
                # The index of an earlier merge lists shards of other parts.
                parts.setdefault(basename_of(shard), shard)
        shards = [*_own_shards(root), *parts.values()]
        if shards:
            check_same_columns(shards, "the parts differ")
        write_index(
            root, shards, is_indented=any(shard.get("format") == "parquet" for shard in shards)
        )
    return [_file_of(root, shard) for shard in shards]


def _own_shards(root: str) -> list[dict[str, Any]]:
    """Return the shards that the index of the root lists directly in the root."""
    path = index_path(root)
    if not _exists(path):
        return []
    own = [shard for shard in read_index(path)["shards"] if "/" not in basename_of(shard)]
    return [_checked(shard, path, root) for shard in own]


def _shards_of(path: str, root: str) -> list[dict[str, Any]]:
    """Return the shards of a part, with paths relative to the root."""
    directory = "/".join(_parts_below(path, root)[:-1])
    return [
        _checked(_below(directory, shard, path), path, root) for shard in read_index(path)["shards"]
    ]


def _checked(shard: dict[str, Any], index: str, root: str) -> dict[str, Any]:
    """Return the entry of a shard, with a path relative to the root.

    Its file must exist and have the listed size.
    """
    name = _file_of(root, shard)
    size = storage.size(name)
    if size is None:
        raise NotFoundError(
            f"{index!r} lists {Path(name).name!r}, which does not exist\nhint: {_SHARD_HINT}"
        )
    expected = (shard.get("zip_data") or shard.get("raw_data") or {}).get("bytes")
    if expected != size:
        shown = f"{expected:,}" if isinstance(expected, int) else repr(expected)
        raise FormatError(
            f"{index!r} lists {Path(name).name!r} with {shown} bytes, but it has {size:,}\n"
            f"hint: {_SHARD_HINT}"
        )
    return shard


def _file_of(root: str, shard: Mapping[str, Any]) -> str:
    name = basename_of(shard)
    return f"{root.rstrip('/')}/{name}" if storage.is_remote(root) else str(Path(root, name))


def _below(directory: str, shard: dict[str, Any], index: str) -> dict[str, Any]:
    """Return the entry with paths relative to the parent directory."""
    moved = dict(shard)
    for key in ("raw_data", "zip_data", "raw_meta", "zip_meta"):
        if (data := shard.get(key)) is not None:
            name = data.get("basename") if isinstance(data, dict) else None
            if not isinstance(name, str) or name.startswith("/") or ".." in name.split("/"):
                raise FormatError(
                    f"{index!r} lists {name!r}, which is not a file below its directory"
                )
            moved[key] = data | {"basename": f"{directory}/{name}"}
    if moved.get("raw_data") is None:
        raise FormatError(f"{index!r} has a shard without raw_data")
    return moved


class _ReadFile(NamedTuple):
    path: str
    schema: Any
    format: str | None


def _compared(directories: list[str]) -> list[str]:
    from shardmill.data._dataset import Dataset

    files: dict[str, None] = {}
    first: _ReadFile | None = None
    for directory in dict.fromkeys(real(directory) for directory in directories):
        dataset = _part(directory)
        if first is not None and dataset.format not in (None, first.format):
            raise PlanError(
                f"the parts differ: {directory!r} has {dataset.format} files, "
                f"and {first.path!r} is {first.format}\n"
                "hint: a data set has one format; `shardmill convert` writes another"
            )
        for path in dataset.files:
            schema = Dataset(path, format=dataset.format).schema
            if first is None:
                first = _ReadFile(path, schema, dataset.format)
            elif not schema.equals(first.schema):
                raise PlanError(
                    f"the parts differ: {path!r} has the columns {_shown(schema)}, "
                    f"{first.path!r} {_shown(first.schema)}"
                )
            files[path] = None
    if not files:
        raise NotFoundError(
            f"there are no parts to merge in {', '.join(map(repr, directories))}\n"
            f"hint: parts are directories that sm.Writer or MosaicML wrote: with an {INDEX_NAME}, "
            "or with files that sm.Dataset reads"
        )
    return list(files)


def _part(directory: str) -> Any:
    from shardmill.data._dataset import Dataset

    with warnings.catch_warnings():
        # The absence of files is reported below.
        warnings.filterwarnings("ignore", message="no data files")
        return Dataset(directory)


def _shown(schema: Any) -> str:
    return ", ".join(
        f"{name}: {of}" for name, of in zip(schema.names, type_names(schema), strict=True)
    )
