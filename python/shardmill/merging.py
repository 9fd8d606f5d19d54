"""Parts that were written apart, as one data set."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from shardmill._native import storage
from shardmill.errors import FormatError, NotFoundError, PlanError
from shardmill.shard_index import basename_of, check_same_columns, index_path, read_index, write_index
from shardmill.shards import INDEX_NAME, output_of
from shardmill.storage import configure_all, served_path

PathLike = str | os.PathLike[str]


def merge(
    out: PathLike, parts: Iterable[PathLike] | None = None, *, storage_options: Mapping[str, Any] | None = None
) -> list[str]:
    """Makes one data set of parts below ``out``; data files stay as they are.

    Parts with an ``index.json`` (MDS, and Parquet with ``index="chinidataset"``) get one that lists the shards of all, with paths
    relative to ``out``. It appears whole, when every part was checked. Parts without one (Parquet, ArrayRecord, JSONL, WebDataset)
    need none: a data set reads the folder. Their schemas are compared, and nothing is written.

    Args:
        out: the folder that has the parts, at any depth; also in an object store.
        parts: their folders or index files, in the order in which rows shall come; all below ``out`` in the order of their paths
            when ``None``. One that is named twice counts once.
        storage_options: see :func:`shardmill.storage.configure`.

    Returns:
        The paths of all data files, in order.

    Raises:
        FileNotFoundError: when there are no parts, or a shard of one is missing.
        ValueError: when the columns of parts differ.

    Example:
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
    if not _is_folder(root):
        raise NotFoundError(f"there is no folder {root!r}")
    if parts is None:
        indexes = _found(root)
        folders = [] if indexes else [root]
    else:
        given = [served_path(part) for part in parts]
        indexes = _named(root, given)
        folders = [part for part in given if _is_folder(part) and not _exists(index_path(part))]
        if indexes and folders:
            raise PlanError(
                f"the part {folders[0]!r} has no {INDEX_NAME}, and others have\n"
                "hint: `shardmill repair-index` makes one of MDS shards; or leave the part out of parts="
            )
    return _merged(root, indexes) if indexes else _compared(folders)


def _found(root: str) -> list[str]:
    """Every index below the root but its own, in the order of their paths."""
    if storage.is_remote(root):
        found = {path: _parts_below(path, root) for path in storage.files(root) if path.endswith(f"/{INDEX_NAME}")}
    else:
        found = {str(path): path.relative_to(root).parts for path in Path(root).rglob(INDEX_NAME)}
    visible = [
        path for path, names in found.items() if len(names) > 1 and not any(name.startswith(".") for name in names)
    ]
    return sorted(visible, key=found.__getitem__)


def _parts_below(path: str, root: str) -> tuple[str, ...]:
    """The names on the way from the root to what lies below it; none for what does not."""
    real, real_root = _real(path), _real(root)
    return tuple(real[len(real_root) + 1 :].split("/")) if real.startswith(f"{real_root.rstrip('/')}/") else ()


def _real(path: str) -> str:
    return path.rstrip("/") if storage.is_remote(path) else os.path.realpath(path)


def _exists(path: str) -> bool:
    return storage.size(path) is not None


def _is_folder(path: str) -> bool:
    return bool(storage.names(path)) if storage.is_remote(path) else Path(path).is_dir()


def _named(root: str, parts: list[str]) -> list[str]:
    indexes: dict[str, str] = {}
    for part in parts:
        path = part if Path(part).name == INDEX_NAME else index_path(part)
        if not _exists(path):
            if _is_folder(part):
                continue
            raise NotFoundError(f"there is no part {part!r}")
        names = _parts_below(path, root)
        if not names:
            raise PlanError(
                f"the part {part!r} does not lie below {root!r}\nhint: an index names files below its folder only"
            )
        if len(names) == 1:
            raise PlanError(f"{part!r} is the index that is to be written")
        indexes.setdefault(_real(path), path)
    return list(indexes.values())


def _merged(root: str, indexes: list[str]) -> list[str]:
    shards: list[dict[str, Any]] = []
    for path in indexes:
        folder = "/".join(_parts_below(path, root)[:-1])
        for shard in read_index(path)["shards"]:
            moved = _below(folder, shard, path)
            size = storage.size(_file_of(root, moved))
            if size is None:
                raise NotFoundError(f"{path!r} lists {basename_of(shard)!r}, and there is no such file")
            expected = (moved.get("zip_data") or moved["raw_data"]).get("bytes")
            if expected != size:
                raise FormatError(
                    f"{path!r} says that {basename_of(shard)!r} has {expected} bytes, and it has {size:,}"
                )
            shards.append(moved)
    if shards:
        check_same_columns(shards, "the parts differ")
    is_indented = any(shard.get("format") == "parquet" for shard in shards)
    with output_of(root, is_file=False, mode="append", prefix="shard.").locked():
        write_index(root, shards, is_indented=is_indented)
    return [_file_of(root, shard) for shard in shards]


def _file_of(root: str, shard: Mapping[str, Any]) -> str:
    name = basename_of(shard)
    return f"{root.rstrip('/')}/{name}" if storage.is_remote(root) else str(Path(root, name))


def _below(folder: str, shard: dict[str, Any], index: str) -> dict[str, Any]:
    """The entry as the index of the folder above has it."""
    moved = dict(shard)
    for key in ("raw_data", "zip_data", "raw_meta", "zip_meta"):
        if (data := shard.get(key)) is not None:
            name = data.get("basename") if isinstance(data, dict) else None
            if not isinstance(name, str) or name.startswith("/") or ".." in name.split("/"):
                raise FormatError(f"{index!r} lists {name!r}, which is no file below its folder")
            moved[key] = data | {"basename": f"{folder}/{name}"}
    if moved.get("raw_data") is None:
        raise FormatError(f"{index!r} has a shard without raw_data")
    return moved


def _compared(folders: list[str]) -> list[str]:
    from shardmill.dataset import Dataset

    files: list[str] = []
    first: Any = None
    for folder in dict.fromkeys(_real(folder) for folder in folders):
        dataset = _part(folder)
        if first is not None and dataset.format not in (None, first[2]):
            raise PlanError(
                f"the parts differ: {folder!r} has {dataset.format} files, and {first[0]!r} is {first[2]}\n"
                "hint: a data set has one format; `shardmill convert` writes another"
            )
        for path in dataset.files:
            schema = Dataset(path, format=dataset.format).schema
            if first is None:
                first = (path, schema, dataset.format)
            elif not schema.equals(first[1]):
                raise PlanError(
                    f"the parts differ: {path!r} has the columns {_shown(schema)}, {first[0]!r} {_shown(first[1])}"
                )
            files.append(path)
    if not files:
        raise NotFoundError(
            f"there are no parts to merge in {', '.join(map(repr, folders))}\n"
            f"hint: parts are folders that sm.Writer or MosaicML wrote: with an {INDEX_NAME}, or with files that sm.Dataset reads"
        )
    return files


def _part(folder: str) -> Any:
    from shardmill.dataset import Dataset

    with warnings.catch_warnings():
        # Whether there are files is said below.
        warnings.filterwarnings("ignore", message="no data files")
        return Dataset(folder)


def _shown(schema: Any) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)
