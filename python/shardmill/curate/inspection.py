"""Says what is in a file or a folder: samples, rows, sizes, first texts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from posixpath import commonpath, dirname
from typing import Any

from shardmill._native import inspect as native
from shardmill._native.verify import checkable_files
from shardmill.curate.inspection_arrayrecord import arrayrecord_lines
from shardmill.curate.progress import Progress
from shardmill.curate.verification import worker_count
from shardmill.dataset import warn_of_left_out
from shardmill.storage import Paths, path_list
from shardmill.terminal import escape

_MODALITIES = ("metadata", "text", "image", "other")


@dataclass(frozen=True)
class FileInspection:
    """What is in one file.

    Attributes:
        path: the file.
        format: ``tar``, ``parquet``, ``orc``, ``csv``, ``jsonl``, ``arrayrecord``, ``mds``, ``mds_index``, ``jsonl_index``, ``image`` or
            ``unknown``.
        compression: of a tar as a whole.
        bytes: size of the file.
        members: regular files in a tar.
        samples: documents.
        rows: rows by modality.
        bytes_by_modality: text in UTF-8, images as stored, and the rest under ``metadata``.
        content_types: rows by MIME type.
        images: smallest, middle and largest ``width``, ``height`` and ``pages``; how many were ``measured``, and their
            ``formats``.
        columns: name, type and, for Parquet, codecs and bytes of each column.
        row_groups: rows and bytes of each row group of a Parquet file.
        created_by: who wrote the Parquet file.
        arrayrecord: of an ArrayRecord file, ``records``, ``chunks``, ``group_size``, ``codec``, ``is_transposed``, ``writer_options``,
            ``stored_bytes``, ``decoded_bytes``, ``shortest`` and ``longest`` of the ``measured`` records, and the ``first`` ones.
        texts: the first texts with their sample and position.
        image_names: members or locations of the first images.
        damage: what could not be read.
    """

    path: str
    format: str
    compression: str | None
    bytes: int
    members: int | None
    samples: int
    rows: dict[str, int]
    bytes_by_modality: dict[str, int]
    content_types: dict[str, int]
    images: dict[str, Any]
    columns: list[dict[str, Any]]
    row_groups: list[dict[str, int]]
    created_by: str | None
    arrayrecord: dict[str, Any] | None
    texts: list[dict[str, Any]]
    image_names: list[str]
    damage: list[dict[str, Any]]

    def __str__(self) -> str:
        return "\n".join(map(escape, _page(self)))


@dataclass(frozen=True)
class Inspection:
    """What is in one file or in many. ``print`` it for a page, or for a summary of several files.

    Attributes:
        files: one entry a file, sorted by path.
    """

    files: list[FileInspection]

    @property
    def samples(self) -> int:
        """Documents in all files."""
        return sum(file.samples for file in self.files)

    @property
    def rows(self) -> dict[str, int]:
        """Rows of all files by modality."""
        return _summed(file.rows for file in self.files)

    @property
    def bytes_by_modality(self) -> dict[str, int]:
        """Bytes of all files by modality."""
        return _summed(file.bytes_by_modality for file in self.files)

    @property
    def content_types(self) -> dict[str, int]:
        """Rows of all files by MIME type."""
        return _summed(file.content_types for file in self.files)

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        totals = {
            "samples": self.samples,
            "rows": self.rows,
            "bytes_by_modality": self.bytes_by_modality,
            "content_types": self.content_types,
        }
        return totals | {"files": [asdict(file) for file in self.files]}

    def __str__(self) -> str:
        if len(self.files) == 1:
            return str(self.files[0])
        return "\n".join(map(escape, _overview(self)))


def inspect(
    paths: Paths,
    *,
    first: int = 3,
    texts_field: str = "texts",
    images_field: str = "images",
    sample_id_field: str | None = None,
    image_member_field: str | None = None,
    ignore_zeros: bool = False,
    workers: int | None = None,
    progress: bool = False,
) -> Inspection:
    """Describes data files of all formats and images without decoding a pixel.

    Of a tar, headers and JSON are read; of a Parquet file the footer, the small columns and the first 64 MiB of images; of an ArrayRecord file
    the index and the first records, or the first 64 MiB of them where the index does not tell their lengths.

    Args:
        paths: a file, a folder (searched recursively), a glob, or a list of these. A file that is named outright may
            be an image.
        first: so many texts, image names or records are told of each file.
        texts_field: key of the list of texts in the JSON of a tar.
        images_field: key of the list of images.
        sample_id_field: key of the document's id.
        image_member_field: key that names the member for entries that name none.
        ignore_zeros: read tars that were joined by ``cat`` up to their last member, as ``tar -i`` does.
        workers: files that are read at once; the number of cores, when nothing is said.
        progress: show a bar on a terminal when it takes longer than two seconds.

    Returns:
        What is in the files. Damage is told there, not raised.

    Raises:
        shardmill.NotFoundError: a path is missing or holds no shard.

    Example:
        >>> from shardmill.curate import inspect
        >>> inspect("shards/00000.tar").rows  # doctest: +SKIP
        {'metadata': 80, 'text': 353, 'image': 386, 'other': 0}
    """
    options = {
        "first": first,
        "ignore_zeros": ignore_zeros,
        "keys": {
            "texts_field": texts_field,
            "images_field": images_field,
            "sample_id_field": sample_id_field,
            "image_member_field": image_member_field,
        },
    }
    files, left_out = checkable_files(path_list(paths))
    warn_of_left_out(left_out, outcome="of an unknown format and not inspected", stacklevel=3)
    found: list[FileInspection] = []
    with Progress(total=len(files), is_shown=progress, noun="files") as bar:

        def on_inspection(text: str) -> None:
            found.append(FileInspection(**json.loads(text)))
            bar.count(samples=found[-1].samples, size=found[-1].bytes)

        native.inspect_files(files, json.dumps(options), worker_count(workers), on_inspection)
    return Inspection(found)


def _page(file: FileInspection) -> list[str]:
    compression = f", {file.compression}" if file.compression not in (None, "none") else ""
    lines = [file.path, f"  format      {file.format}{compression}, {_size(file.bytes)}"]
    if file.created_by:
        lines.append(f"  written by  {file.created_by}")
    lines += arrayrecord_lines(file.arrayrecord) if file.arrayrecord else []
    if file.members is not None:
        lines.append(f"  members     {file.members:,}")
    if file.format in ("tar", "parquet"):
        lines += [f"  samples     {file.samples:,}", f"  rows        {_counts(file.rows)}"]
    if any(file.bytes_by_modality.values()) and not file.arrayrecord:
        lines.append(f"  bytes       {_sizes(file.bytes_by_modality)}")
    lines += [f"  types       {_counts(file.content_types)}"] if file.content_types else []
    lines += _images(file)
    lines += _row_groups(file)
    if file.columns:
        lines.append("  columns")
        width = max(len(column["name"]) for column in file.columns)
        lines += [f"    {column['name']:{width}}  {_column(column)}".rstrip() for column in file.columns]
    if file.texts:
        lines.append("  first texts")
        lines += [f"    {text['sample']} [{text['position']}]  {_line(text['text'])}" for text in file.texts]
    if file.image_names:
        lines.append("  first images")
        lines += [f"    {name}" for name in file.image_names]
    if file.damage:
        lines.append(f"  damage      {len(file.damage):,}")
        lines += [f"    {_damage(damage)}" for damage in file.damage[:10]]
        lines += ["    …"] if len(file.damage) > 10 else []
    return lines


def _overview(inspection: Inspection) -> list[str]:
    folders = [dirname(file.path) for file in inspection.files]
    # Absolute and relative paths have nothing in common.
    folder = commonpath(folders) if len({path.startswith("/") for path in folders}) == 1 else ""
    rows = [("file", "format", "size", "samples", "texts", "images", "width", "height", "damage")]
    rows += [_overview_row(file, folder) for file in inspection.files]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [folder] if folder else []
    for row in rows:
        cells = [row[0].ljust(widths[0]), row[1].ljust(widths[1]), *map(str.rjust, row[2:], widths[2:])]
        lines.append("  ".join(cells).rstrip())
    size = _size(sum(file.bytes for file in inspection.files))
    lines += [
        "",
        f"{len(inspection.files):,} files, {size}, {inspection.samples:,} samples",
        f"rows        {_counts(inspection.rows)}",
        f"bytes       {_sizes(inspection.bytes_by_modality)}",
    ]
    lines += [f"types       {_counts(inspection.content_types)}"] if inspection.content_types else []
    return lines


def _overview_row(file: FileInspection, folder: str) -> tuple[str, ...]:
    name = file.path.removeprefix(folder).lstrip("/") if folder else file.path
    width, height = (f"{file.images[side]['min']}-{file.images[side]['max']}" for side in ("width", "height"))
    counts = (f"{file.samples:,}", f"{file.rows['text']:,}", f"{file.rows['image']:,}")
    damage = f"{len(file.damage):,}" if file.damage else ""
    return (name, file.format, _size(file.bytes), *counts, width, height, damage)


def _images(file: FileInspection) -> list[str]:
    images = file.images
    if not images["measured"]:
        return []
    unreadable = f", {images['unreadable']:,} without a size" if images["unreadable"] else ""
    formats = ", ".join(f"{count:,} {name}" for name, count in images["formats"].items())
    spreads = [f"    {side:8}  {_spread(images[side])}" for side in ("width", "height")]
    pages = [f"    pages     {_spread(images['pages'])}"] if images["pages"]["max"] > 1 else []
    return [f"  images      {images['measured']:,} measured{unreadable}; files: {formats or 'none'}", *spreads, *pages]


def _row_groups(file: FileInspection) -> list[str]:
    if file.format != "parquet":
        return []
    if not file.row_groups:
        return ["  row groups  0"]
    rows = [group["rows"] for group in file.row_groups]
    sizes = [group["stored_bytes"] for group in file.row_groups]
    spread = f"{min(rows):,} to {max(rows):,} rows, {_size(min(sizes))} to {_size(max(sizes))}"
    return [f"  row groups  {len(rows):,} of {spread}"]


def _column(column: dict[str, Any]) -> str:
    if column["stored_bytes"] is None:
        return column["data_type"]
    codecs = "/".join(column["codecs"])
    return f"{column['data_type']:12}  {codecs:8}  {_size(column['stored_bytes'])}"


def _damage(damage: dict[str, Any]) -> str:
    place = [damage["member"] or ""] + ([] if damage["offset"] is None else [f"at {damage['offset']}"])
    place = " ".join(filter(None, place))
    return f"{place}: {damage['reason']}" if place else damage["reason"]


def _spread(spread: dict[str, int]) -> str:
    return f"{spread['min']:,} to {spread['max']:,}, median {spread['median']:,}"


def _counts(counts: dict[str, int]) -> str:
    known = {name: count for name, count in counts.items() if count or name not in _MODALITIES}
    return ", ".join(f"{count:,} {name}" for name, count in known.items()) or "none"


def _sizes(sizes: dict[str, int]) -> str:
    return ", ".join(f"{_size(size)} {name}" for name, size in sizes.items() if size) or "none"


def _line(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 100 else f"{text[:99]}…"


def _size(size: int) -> str:
    for unit, power in (("GB", 9), ("MB", 6), ("kB", 3)):
        if size >= 10**power:
            return f"{size / 10**power:.1f} {unit}"
    return f"{size} B"


def _summed(counters: Iterable[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for counter in counters:
        total.update(counter)
    return dict(total)
