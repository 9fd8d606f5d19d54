"""Reports the contents of files and directories: samples, rows, sizes, first texts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from posixpath import commonpath, dirname
from typing import Any

from shardmill._native.check import inspect_files
from shardmill._option_values import whole
from shardmill._terminal import aligned, counted, escape, size_text
from shardmill.curate._inspection_arrayrecord import arrayrecord_lines
from shardmill.curate._report import summed
from shardmill.curate._walk import walk
from shardmill.storage._paths import Paths, is_remote

_MODALITIES = ("metadata", "text", "image", "other")


@dataclass(frozen=True)
class FileInspection:
    """Contents of one file.

    Attributes:
        path: path of the file.
        format: ``tar``, ``parquet``, ``orc``, ``csv``, ``jsonl``, ``arrayrecord``, ``mds``,
            ``mds_index``, ``jsonl_index``, ``megatron``, ``datatrove``, ``image`` or ``unknown``.
        compression: compression of a tar as a whole.
        bytes: size of the file.
        members: number of regular files in a tar.
        samples: number of documents.
        rows: rows by modality.
        bytes_by_modality: bytes of text (UTF-8) and images (as stored), and other bytes under
            ``metadata``.
        content_types: rows by MIME type.
        images: minimum, median and maximum of ``width``, ``height`` and ``pages``; the number
            ``measured``, and their ``formats``.
        columns: name, type and, for Parquet, codecs and bytes of each column.
        row_groups: rows and bytes of each row group of a Parquet file.
        created_by: writer of the Parquet file.
        arrayrecord: for an ArrayRecord file, ``records``, ``chunks``, ``group_size``, ``codec``,
            ``is_transposed``, ``writer_options``, ``stored_bytes``, ``decoded_bytes``, ``shortest``
            and ``longest`` of the ``measured`` records, and the ``first`` ones.
        texts: the first texts with their sample and position.
        image_names: members or locations of the first images.
        damage: parts that could not be read.
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
    """Contents of one or more files.

    ``print`` shows a page for one file, or a summary of several files.

    Attributes:
        files: one entry per file, sorted by path.
    """

    files: list[FileInspection]

    @property
    def samples(self) -> int:
        """Number of documents in all files."""
        return sum(file.samples for file in self.files)

    @property
    def rows(self) -> dict[str, int]:
        """Rows of all files by modality."""
        return summed(file.rows for file in self.files)

    @property
    def bytes_by_modality(self) -> dict[str, int]:
        """Bytes of all files by modality."""
        return summed(file.bytes_by_modality for file in self.files)

    @property
    def content_types(self) -> dict[str, int]:
        """Rows of all files by MIME type."""
        return summed(file.content_types for file in self.files)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        totals = {
            name: getattr(self, name)
            for name in ("samples", "rows", "bytes_by_modality", "content_types")
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
    threads: int | None = None,
    progress: bool = False,
) -> Inspection:
    """Describe data files of all formats and images, without decoding pixels.

    For a tar, headers and JSON are read; for a Parquet file the footer, the small columns and the
    first 64 MiB of images; for an ArrayRecord file the index and the first records, or the first
    64 MiB of them if the index does not have their lengths.

    Args:
        paths: a file, a directory (searched recursively), a glob, or a list of these. An explicit
            path may be an image.
        first: number of texts, image names or records shown for each file.
        texts_field: key of the list of texts in the JSON of a tar.
        images_field: key of the list of images.
        sample_id_field: key of the document's id.
        image_member_field: key that names the member, for entries without a member name.
        ignore_zeros: read tars that were joined with ``cat`` up to their last member, like
            ``tar -i``.
        threads: number of threads, each of which reads one file at a time; the number of cores by
            default.
        progress: show a bar on a terminal if it takes longer than two seconds.

    Returns:
        The contents of the files. Damage is reported there, not raised.

    Raises:
        shardmill.NotFoundError: If a path is missing or has no shard.

    Examples:
        >>> from shardmill.curate import inspect
        >>> inspect("shards/00000.tar").rows  # doctest: +SKIP
        {'metadata': 80, 'text': 353, 'image': 386, 'other': 0}
    """
    files = walk(
        paths,
        inspect_files,
        FileInspection,
        left_out_as="inspected",
        threads=threads,
        progress=progress,
        first=whole("first", first, 0),
        ignore_zeros=ignore_zeros,
        keys={
            "texts_field": texts_field,
            "images_field": images_field,
            "sample_id_field": sample_id_field,
            "image_member_field": image_member_field,
        },
    )
    return Inspection(files)


def _page(file: FileInspection) -> list[str]:
    compression = f", {file.compression}" if file.compression not in (None, "none") else ""
    lines = [file.path, f"  format      {file.format}{compression}, {size_text(file.bytes)}"]
    if file.created_by:
        lines.append(f"  written by  {file.created_by}")
    lines += arrayrecord_lines(file.arrayrecord) if file.arrayrecord else []
    if file.members is not None:
        lines.append(f"  members     {file.members:,}")
    if _has_documents(file):
        lines += [f"  samples     {file.samples:,}", f"  rows        {_counts(file.rows)}"]
        lines.append(f"  bytes       {_sizes(file.bytes_by_modality)}")
    elif file.format != "image" and not file.arrayrecord:
        lines.append(f"  rows        {file.samples:,}")
    lines += [f"  types       {_counts(file.content_types)}"] if file.content_types else []
    lines += _images(file)
    lines += _row_groups(file)
    if file.columns:
        lines.append("  columns")
        columns = aligned(
            [_column(column) for column in file.columns], to_the_right=[False, False, False, True]
        )
        lines += [f"    {column}" for column in columns]
    if file.texts:
        lines.append("  first texts")
        lines += [
            f"    {text['sample']} [{text['position']}]  {_line(text['text'])}"
            for text in file.texts
        ]
    if file.image_names:
        lines.append("  first images")
        lines += [f"    {name}" for name in file.image_names]
    if file.damage:
        lines.append(f"  damage      {len(file.damage):,}")
        lines += [f"    {_damage(damage)}" for damage in file.damage[:10]]
        lines += ["    …"] if len(file.damage) > 10 else []
    return lines


def _overview(inspection: Inspection) -> list[str]:
    directory = _common_directory([file.path for file in inspection.files])
    rows = [_overview_row(file, directory) for file in inspection.files]
    # What no file has is left out.
    shown = [name for name in rows[0] if any(row[name] for row in rows)]
    cells = [tuple(shown), *(tuple(row[name] for name in shown) for row in rows)]
    lines = [
        *([directory] if directory else []),
        *aligned(cells, to_the_right=[False, False, *[True] * (len(shown) - 2)]),
    ]
    size = size_text(sum(file.bytes for file in inspection.files))
    lines += [
        "",
        f"{counted(len(inspection.files), 'file')}, {size}, "
        f"{counted(inspection.samples, 'sample')}",
    ]
    if any(map(_has_documents, inspection.files)):
        lines += [
            f"rows        {_counts(inspection.rows)}",
            f"bytes       {_sizes(inspection.bytes_by_modality)}",
        ]
    lines += (
        [f"types       {_counts(inspection.content_types)}"] if inspection.content_types else []
    )
    columns = [
        [(column["name"], column["data_type"]) for column in file.columns]
        for file in inspection.files
    ]
    if columns[0] and all(others == columns[0] for others in columns):
        lines += ["", "columns of each file", *aligned(columns[0], to_the_right=[False, False])]
    return lines


def _common_directory(paths: list[str]) -> str:
    """Return the directory that contains all files; empty if there is none."""
    roots = {_root(path) for path in paths}
    # Absolute and relative paths, and those of two stores, have no common directory.
    if len(roots) > 1:
        return ""
    root = roots.pop()
    common = commonpath([dirname(path.removeprefix(root)) for path in paths])
    return root + common if common else ""


def _root(path: str) -> str:
    """Return the part of a path that is not split at its slashes: ``s3://``, ``/`` or nothing."""
    if is_remote(path):
        return path[: path.index("://") + 3]
    return "/" if path.startswith("/") else ""


def _overview_row(file: FileInspection, directory: str) -> dict[str, str]:
    sizes = {
        side: f"{file.images[side]['min']}-{file.images[side]['max']}"
        for side in ("width", "height")
    }
    counts = {"samples": file.samples, "texts": file.rows["text"], "images": file.rows["image"]}
    return {
        "file": file.path.removeprefix(directory).lstrip("/") if directory else file.path,
        "format": file.format,
        "size": size_text(file.bytes),
        **{
            name: f"{count:,}" if count or name == "samples" else ""
            for name, count in counts.items()
        },
        **(sizes if file.images["measured"] else dict.fromkeys(sizes, "")),
        "damage": f"{len(file.damage):,}" if file.damage else "",
    }


def _has_documents(file: FileInspection) -> bool:
    """Tell whether the file has interleaved documents instead of rows of a table."""
    return any(file.rows[modality] for modality in ("metadata", "text", "image"))


def _images(file: FileInspection) -> list[str]:
    images = file.images
    if not images["measured"]:
        return []
    unreadable = f", {images['unreadable']:,} without a size" if images["unreadable"] else ""
    formats = ", ".join(f"{count:,} {name}" for name, count in images["formats"].items())
    spreads = [f"    {side:8}  {_spread(images[side])}" for side in ("width", "height")]
    pages = [f"    pages     {_spread(images['pages'])}"] if images["pages"]["max"] > 1 else []
    return [
        f"  images      {images['measured']:,} measured{unreadable}; files: {formats or 'none'}",
        *spreads,
        *pages,
    ]


def _row_groups(file: FileInspection) -> list[str]:
    if file.format != "parquet":
        return []
    if not file.row_groups:
        return ["  row groups  0"]
    rows = [group["rows"] for group in file.row_groups]
    sizes = [group["stored_bytes"] for group in file.row_groups]
    spread = (
        f"{min(rows):,} to {max(rows):,} rows, {size_text(min(sizes))} to {size_text(max(sizes))}"
    )
    return [f"  row groups  {len(rows):,} of {spread}"]


def _column(column: dict[str, Any]) -> tuple[str, str, str, str]:
    stored = column["stored_bytes"]
    codecs, size = ("", "") if stored is None else ("/".join(column["codecs"]), size_text(stored))
    return column["name"], column["data_type"], codecs, size


def _damage(damage: dict[str, Any]) -> str:
    place = [damage["member"] or ""] + (
        [] if damage["offset"] is None else [f"at {damage['offset']}"]
    )
    place = " ".join(filter(None, place))
    return f"{place}: {damage['reason']}" if place else damage["reason"]


def _spread(spread: dict[str, int]) -> str:
    return f"{spread['min']:,} to {spread['max']:,}, median {spread['median']:,}"


def _counts(counts: dict[str, int]) -> str:
    known = {name: count for name, count in counts.items() if count or name not in _MODALITIES}
    return ", ".join(f"{count:,} {name}" for name, count in known.items()) or "none"


def _sizes(sizes: dict[str, int]) -> str:
    return ", ".join(f"{size_text(size)} {name}" for name, size in sizes.items() if size) or "none"


def _line(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 100 else f"{text[:99]}…"
