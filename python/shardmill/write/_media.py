"""Columns of files within rows, ``{bytes, path}`` as in Hugging Face data sets.

They are for formats that store the bytes of a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import PurePosixPath
from typing import Any

from shardmill._native import images as _native
from shardmill.data._arrow import as_pyarrow
from shardmill.errors import FormatError

#: Extensions of members, from the path of a file or from its first bytes.
_EXTENSIONS = (
    *(
        "jpg",
        "jpeg",
        "png",
        "webp",
        "gif",
        "bmp",
        "tiff",
        "tif",
        "ppm",
        "pgm",
        "pbm",
        "pnm",
        "jp2",
        "avif",
        "heic",
    ),
    *("wav", "flac", "mp3", "ogg", "opus", "m4a", "mp4", "webm", "pdf"),
)
_BY_START = {
    b"fLaC": "flac",
    b"OggS": "ogg",
    b"ID3": "mp3",
    b"\xff\xfb": "mp3",
    b"%PDF": "pdf",
    b"\0\0\0\x0cjP  ": "jp2",
    b"P4": "pbm",
    b"P5": "pgm",
    b"P6": "ppm",
}
#: The end of the path to the bytes of a file.
_CONTENT = ".bytes"
#: Bytes that tell the format.
_HEAD = 64
#: Formats that store the bytes of a file.
MEDIA_FORMATS = ("mds", "webdataset", "arrayrecord")
#: Encodings of MDS that store the bytes of a file.
MEDIA_ENCODINGS = ("jpeg", "png", "bytes")
_PICTURES = {"jpg": "jpeg", "jpeg": "jpeg", "png": "png"}


def extension_of(head: bytes, path: str | None) -> str | None:
    """Return the extension of a file: that of its path, else the one its first bytes imply."""
    named = PurePosixPath(path or "").suffix.lower().removeprefix(".")
    if named in _EXTENSIONS:
        return named
    if (format := _native.image_format(head)) is not None:
        return "jpg" if format == "jpeg" else format
    if head[:4] == b"RIFF" and head[8:12] == b"WAVE":
        return "wav"
    return next((name for start, name in _BY_START.items() if head.startswith(start)), None)


def mds_encoding_of(head: bytes, path: str | None) -> str:
    """Return the MDS encoding of a file.

    MosaicML opens pictures of all formats with both encodings of images.
    """
    extension = extension_of(head, path)
    is_picture = _native.image_format(head) is not None or extension in _PICTURES
    return _PICTURES.get(extension or "", "png") if is_picture else "bytes"


def members_of(column: str, names: Iterable[str], *, is_alone: bool) -> dict[str | None, str]:
    """Return the extension of a member for each extension of a file.

    That of ``None`` is for other files.

    Args:
        column: the media column.
        names: all columns.
        is_alone: whether there is no other media column.
    """
    # A column whose name says what it holds keeps it.
    if column.rpartition(".")[2] in _EXTENSIONS:
        return {None: column}
    is_short = is_alone and {*names}.isdisjoint(_EXTENSIONS)
    # The part of the name of a member after the first dot.
    stem = column.removesuffix(_CONTENT).lower().replace("/", ".").lstrip("_.")
    base = stem or "file"
    other = column if column.endswith(_CONTENT) else base
    return {None: other, **{name: name if is_short else f"{base}.{name}" for name in _EXTENSIONS}}


def without_bytes(row: int, column: str, path: str) -> FormatError:
    """Return the error for a row that names a file without its bytes."""
    return FormatError(
        f"row {row} has a path in column {column!r}, {path!r}, but not the bytes of the file"
        "\nhint: embed the files first, for example with datasets.table.embed_table_storage"
    )


class Media:
    """The media columns of a schema, and the columns that store their bytes.

    Args:
        schema: the Arrow schema of the rows.
        format: ``"mds"``, ``"webdataset"`` or ``"arrayrecord"``.
        first: the first rows that are not empty, if there are any.
        others: columns that are stored as they are.
    """

    def __init__(
        self, schema: Any, format: str, first: Any = None, *, others: Iterable[str] = ()
    ) -> None:
        import pyarrow as pa

        self._pa, self._given, self._format = pa, schema, format
        others = {*others}
        found = [field for field in schema if field.name not in others and self._holds_files(field)]
        #: By media column, the column of each extension; that of ``None`` has the other files.
        self.columns: dict[str, dict[str | None, str]] = {}
        self._encodings: dict[str, str] = {}
        for field in found:
            self.columns[field.name] = self._targets(field.name, is_alone=len(found) == 1)
            if format == "mds":
                self._encodings[field.name] = self._encoding(field.name, first)

    @property
    def schema(self) -> Any:
        """The schema of the stored rows."""
        fields = []
        for field in self._given:
            encoding = self._encodings.get(field.name)
            metadata = None if encoding is None else {"mds.encoding": encoding}
            names = self.columns.get(field.name)
            stored = [] if names is None else [*dict.fromkeys(names.values())]
            fields += (
                [field]
                if names is None
                else [self._pa.field(name, self._pa.binary(), metadata=metadata) for name in stored]
            )
        return self._pa.schema(fields)

    def stored(self, batch: Any, first_row: int = 0) -> Any:
        """Return the rows with the bytes of the files in place of the media columns.

        Raises:
            ValueError: If a row has a path without bytes.
        """
        if not self.columns:
            return batch
        pa, arrays = self._pa, []
        for field, array in zip(batch.schema, batch.columns, strict=True):
            if (names := self.columns.get(field.name)) is None:
                arrays.append(array)
                continue
            content, paths = self._parts(array)
            self._check(field.name, content, paths, first_row)
            if len({*names.values()}) == 1:
                arrays.append(content)
                continue
            heads = pa.compute.binary_slice(content, 0, _HEAD).to_pylist()
            targets = [
                None if head is None else names.get(extension_of(head, path), names[None])
                for head, path in zip(heads, paths.to_pylist(), strict=True)
            ]
            present, of_row = {*targets}, pa.array(targets, pa.string())
            missing, nothing = pa.scalar(None, content.type), pa.nulls(len(content), content.type)
            for name in dict.fromkeys(names.values()):
                is_here = pa.compute.equal(of_row, name)
                arrays.append(
                    pa.compute.if_else(is_here, content, missing) if name in present else nothing
                )
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _holds_files(self, field: Any) -> bool:
        types = self._pa.types
        if types.is_struct(field.type):
            parts = {part.name: str(part.type) for part in field.type}
            is_text = parts.get("path", "").removeprefix("large_").removesuffix("_view") in (
                "string",
                "null",
            )
            return parts.keys() == {"bytes", "path"} and "binary" in parts["bytes"] and is_text
        # The bytes of such a file that were selected alone, and a picture of MDS, have no path.
        if field.name.endswith(_CONTENT) and "binary" in str(field.type):
            return True
        encoding = (field.metadata or {}).get(b"mds.encoding", b"").decode()
        return (
            self._format == "webdataset"
            and encoding in _PICTURES.values()
            and "binary" in str(field.type)
        )

    def _targets(self, column: str, *, is_alone: bool) -> dict[str | None, str]:
        if self._format != "webdataset":
            return {None: column}
        return members_of(column, self._given.names, is_alone=is_alone)

    def _encoding(self, column: str, first: Any) -> str:
        content, paths = self._parts(first.column(column)) if first is not None else ([], [])
        for value, path in zip(content, paths, strict=True):
            if value.is_valid:
                return mds_encoding_of(value.as_py(), path.as_py())
        return "bytes"

    def _parts(self, array: Any) -> tuple[Any, Any]:
        """Return the bytes and the paths of a column."""
        pa = self._pa
        if not pa.types.is_struct(array.type):
            return array.cast(pa.binary()), pa.nulls(len(array), pa.string())
        parts = dict(zip((field.name for field in array.type), array.flatten(), strict=True))
        return parts["bytes"].cast(pa.binary()), parts["path"].cast(pa.string())

    def _check(self, column: str, content: Any, paths: Any, first_row: int) -> None:
        compute = self._pa.compute
        is_elsewhere = compute.and_(compute.is_null(content), compute.is_valid(paths))
        if (place := compute.index(is_elsewhere, True).as_py()) >= 0:
            raise without_bytes(first_row + place, column, paths[place].as_py())


def stored_stream(
    schema: Any, parts: Iterable[Any], format: str, *, others: Iterable[str] = ()
) -> tuple[Any, Iterable[Any], frozenset[str]]:
    """Return the schema and the record batches of a stream as they are stored.

    The third value is the columns that are alternatives of one another.
    """
    if not Media(schema, format, others=others).columns:
        return schema, parts, frozenset()
    batches, empty = map(as_pyarrow, parts), []
    first = next(batches, None)
    while first is not None and first.num_rows == 0:
        empty.append(first)
        first = next(batches, None)
    media = Media(schema, format, first, others=others)
    alternatives = {
        name for names in media.columns.values() if len(names) > 1 for name in names.values()
    }
    batches = chain(empty, [] if first is None else [first], batches)
    return media.schema, _stored(media, batches), frozenset(alternatives)


def _stored(media: Media, batches: Iterable[Any]) -> Iterator[Any]:
    row = 0
    for batch in batches:
        yield media.stored(batch, row)
        row += batch.num_rows
