"""Parts that were written apart, as one data set."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from shardmill.errors import FormatError, NotFoundError, PlanError
from shardmill.shard_index import basename_of, check_same_columns, read_index, write_index
from shardmill.shards import INDEX_NAME, OutputFolder

PathLike = str | os.PathLike[str]


def merge(out: PathLike, parts: Iterable[PathLike] | None = None) -> list[str]:
    """Makes one data set of parts below ``out``; data files stay as they are.

    Parts with an ``index.json`` (MDS, and Parquet with ``index="chinidataset"``) get one that lists the shards of all, with paths
    relative to ``out``. It appears whole, when every part was checked. Parts without one (Parquet, ArrayRecord, JSONL, WebDataset)
    need none: a data set reads the folder. Their schemas are compared, and nothing is written.

    Args:
        out: the folder that has the parts, at any depth.
        parts: their folders or index files, in the order in which rows shall come; all below ``out`` in the order of their paths
            when ``None``. One that is named twice counts once.

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
    if not Path(root).is_dir():
        raise NotFoundError(f"there is no folder {root!r}")
    if parts is None:
        indexes = _found(root)
        folders = [] if indexes else [root]
    else:
        given = [os.fspath(part) for part in parts]
        indexes = _named(root, given)
        folders = [part for part in given if Path(part).is_dir() and not Path(part, INDEX_NAME).exists()]
        if indexes and folders:
            raise PlanError(
                f"the part {folders[0]!r} has no {INDEX_NAME}, and others have\n"
                "hint: `shardmill repair-index` makes one of MDS shards; or leave the part out of parts="
            )
    return _merged(root, indexes) if indexes else _compared(folders)


def _found(root: str) -> list[str]:
    """Every index below the root but its own, in the order of their paths."""
    found = [
        str(path) for path in Path(root).rglob(INDEX_NAME) if path.parent != Path(root) and _is_visible(path, root)
    ]
    return sorted(found, key=lambda path: Path(path).relative_to(root).parts)


def _is_visible(path: Path, root: str) -> bool:
    return not any(part.startswith(".") for part in path.relative_to(root).parts)


def _named(root: str, parts: list[str]) -> list[str]:
    indexes: dict[str, str] = {}
    for part in parts:
        path = part if Path(part).name == INDEX_NAME else str(Path(part, INDEX_NAME))
        if not Path(path).exists():
            if Path(part).is_dir():
                continue
            raise NotFoundError(f"there is no part {part!r}")
        real = os.path.realpath(path)
        if os.path.commonpath([real, os.path.realpath(root)]) != os.path.realpath(root):
            raise PlanError(
                f"the part {part!r} does not lie below {root!r}\nhint: an index names files below its folder only"
            )
        if Path(real).parent == Path(root).resolve():
            raise PlanError(f"{part!r} is the index that is to be written")
        indexes.setdefault(real, path)
    return list(indexes.values())


def _merged(root: str, indexes: list[str]) -> list[str]:
    shards: list[dict[str, Any]] = []
    for path in indexes:
        folder = Path(path).parent.resolve().relative_to(Path(root).resolve()).as_posix()
        for shard in read_index(path)["shards"]:
            moved = _below(folder, shard, path)
            stored = Path(root, basename_of(moved))
            if not stored.is_file():
                raise NotFoundError(f"{path!r} lists {basename_of(shard)!r}, and there is no such file")
            expected, size = (moved.get("zip_data") or moved["raw_data"]).get("bytes"), stored.stat().st_size
            if expected != size:
                raise FormatError(
                    f"{path!r} says that {basename_of(shard)!r} has {expected} bytes, and it has {size:,}"
                )
            shards.append(moved)
    if shards:
        check_same_columns(shards, "the parts differ")
    is_indented = any(shard.get("format") == "parquet" for shard in shards)
    with OutputFolder(root, is_file=False, mode="append", prefix="shard.").locked():
        write_index(root, shards, is_indented=is_indented)
    return [str(Path(root, basename_of(shard))) for shard in shards]


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
    for folder in dict.fromkeys(os.path.realpath(folder) for folder in folders):
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
