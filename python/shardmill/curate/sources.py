"""Where documents come from."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields
from os import PathLike
from typing import Any, ClassVar
from urllib.parse import urlsplit

from shardmill._native.storage import redacted
from shardmill.errors import OptionError
from shardmill.file_systems import is_file_system, located
from shardmill.sizes import byte_count
from shardmill.storage import Paths, path_list, path_of, refuse_keys, shown


def described(options: Any) -> str:
    """The ``repr`` of a source or a sink, without its storage options."""
    shown_fields = [field.name for field in fields(options) if field.name != "storage_options"]
    values = ", ".join(f"{name}={getattr(options, name)!r}" for name in shown_fields)
    return redacted(f"{type(options).__qualname__}({values})")


_IMAGE_EXTENSIONS = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".webp", ".bmp", ".gif")


@dataclass(frozen=True, repr=False)
class Source:
    """What all sources share.

    Args:
        path: a file, a folder (searched recursively), a glob, or a list of these.
        files_per_partition: so many consecutive files make one output file; one, when nothing is said.
        blocksize: files are packed by size up to so many bytes (``128_000_000`` or ``"128MB"``) instead.
        max_batch_bytes: cut a partition into output files of about this many bytes, between documents.
        schema: exactly these columns (anything with ``__arrow_c_schema__``, such as a ``pyarrow.Schema``).
        schema_overrides: types and columns merged over the inferred ones.
        max_decoded_bytes: the largest decoded size of one page, document or image, such as ``"4GiB"``; a larger one is bad input.
            1 GiB when ``None``.
        storage_options: how the store of remote paths is reached, see :func:`shardmill.storage.configure`. Workers on other
            machines get what is no secret, and have credentials in their environment.
        allowed_roots: more directories and prefixes, such as ``"s3://bucket/images"``, below which paths in rows
            (``source_ref``) may be read. By default, they are read only below the input's own directory or prefix, and in stores
            that were given ``storage_options``. If a path leads elsewhere, also through a link, its row gets an error.
    """

    path: Paths
    _: KW_ONLY
    files_per_partition: int | None = None
    blocksize: int | str | None = None
    max_batch_bytes: int | None = None
    schema: Any = None
    schema_overrides: Any = None
    storage_options: Any = None
    max_decoded_bytes: int | str | None = None
    allowed_roots: Paths = ()

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        refuse_keys([*self.paths(), *path_list(self.allowed_roots)])
        if self.schema is not None and self.schema_overrides is not None:
            warnings.warn("`schema` fixes all columns; `schema_overrides` has no effect beside it", stacklevel=3)

    def paths(self) -> list[str]:
        """The paths as a list of strings."""
        paths = [self.path] if isinstance(self.path, str | PathLike) or is_file_system(self.path) else list(self.path)
        return [path_of(path) for path in located(paths, self.storage_options)[0]]

    def options_of_paths(self) -> Any:
        """What the paths are reached with."""
        return self.path if is_file_system(self.path) else self.storage_options

    def __getstate__(self) -> dict[str, Any]:
        # Secrets do not travel, nor objects that hold some. That there were options does, for it names the store.
        options = shown(self.paths(), self.options_of_paths())
        return {**self.__dict__, "path": self.paths(), "storage_options": options, "allowed_roots": self.roots()}

    def __repr__(self) -> str:
        return described(self)

    def roots(self) -> list[str]:
        """The roots of paths in rows, besides the input's own directory: ``allowed_roots``, and stores with options."""
        named = path_list(self.allowed_roots)
        if self.options_of_paths():
            urls = [urlsplit(path) for path in self.paths() if "://" in path]
            named += sorted({f"{url.scheme}://{url.netloc}" for url in urls if url.scheme != "file"} - set(named))
        return named

    def options(self) -> dict[str, Any]:
        """What the native reader needs to know."""
        raise NotImplementedError

    def decode_limit(self) -> int | None:
        """``max_decoded_bytes`` as a number."""
        return None if self.max_decoded_bytes is None else byte_count(self.max_decoded_bytes, "max_decoded_bytes")

    def partitioning(self) -> dict[str, Any]:
        """How files become splits."""
        if self.files_per_partition is not None and self.blocksize is not None:
            raise OptionError("`files_per_partition` and `blocksize` exclude each other")
        for option in ("files_per_partition", "max_batch_bytes"):
            value = getattr(self, option)
            if value is not None and value <= 0:
                raise OptionError(f"`{option}` must be positive")
        return {
            "files_per_partition": self.files_per_partition,
            "blocksize_bytes": None if self.blocksize is None else byte_count(self.blocksize, "blocksize"),
        }


def names_of(names: Sequence[str], option: str) -> list[str]:
    """The names as a list; a lone string would be taken for its letters."""
    if isinstance(names, str):
        raise OptionError(f"`{option}` is the string {names!r}\nhint: write ({names!r},)")
    return list(names)


@dataclass(frozen=True, repr=False)
class WebDatasetSource(Source):
    """Tar shards (``.tar``, ``.tar.gz``, ``.tgz``) in which each JSON member is one document.

    The JSON has two parallel lists, texts and images; an image entry names a member of the tar, or stands for the
    next page of the document's TIFF. Pages are extracted by copying, never by decoding.

    Args:
        path: see :class:`Source`, as for all further arguments that are not listed here.
        fields: JSON keys to carry along as columns; all, when nothing is said.
        per_image_fields: keys whose lists have one value an image.
        per_text_fields: keys whose lists have one value a text. A key that is named in both has one value a text and
            image, in reading order.
        sample_id_field: key of the document's id; else the member's name without its extension.
        texts_field: key of the list of texts.
        images_field: key of the list of images.
        image_member_field: key that names the member for entries that name none.
        json_extensions: endings of the members that are documents.
        image_extensions: endings that are tried for the document's own image, with or without the dot.
        ignore_zeros: read past the zeros that end an archive, as ``tar -i`` does, for archives that were joined by ``cat``. Without it,
            bytes after the end are quarantined.
        materialize_on_read: image bytes are there for every stage; else they are fetched when they are written.

    Example:
        >>> from shardmill.curate import WebDatasetSource
        >>> WebDatasetSource("shards/*.tar", per_image_fields=("image_metadata",)).paths()
        ['shards/*.tar']
    """

    kind = "webdataset"

    fields: Sequence[str] | None = None
    per_image_fields: Sequence[str] = ()
    per_text_fields: Sequence[str] = ()
    sample_id_field: str | None = None
    texts_field: str = "texts"
    images_field: str = "images"
    image_member_field: str | None = None
    json_extensions: Sequence[str] = (".json",)
    image_extensions: Sequence[str] = _IMAGE_EXTENSIONS
    ignore_zeros: bool = False
    materialize_on_read: bool = False

    def options(self) -> dict[str, Any]:
        """What the native reader needs to know."""
        return {
            "fields": None if self.fields is None else names_of(self.fields, "fields"),
            "per_image_fields": names_of(self.per_image_fields, "per_image_fields"),
            "per_text_fields": names_of(self.per_text_fields, "per_text_fields"),
            "keys": {
                "sample_id_field": self.sample_id_field,
                "texts_field": self.texts_field,
                "images_field": self.images_field,
                "image_member_field": self.image_member_field,
                "json_extensions": names_of(self.json_extensions, "json_extensions"),
                "image_extensions": [
                    f".{extension.removeprefix('.')}"
                    for extension in names_of(self.image_extensions, "image_extensions")
                ],
            },
            "ignore_zeros": self.ignore_zeros,
            "max_batch_bytes": self.max_batch_bytes,
            "materialize_on_read": self.materialize_on_read,
            "max_decoded_bytes": self.decode_limit(),
        }


@dataclass(frozen=True, repr=False)
class InterleavedParquetSource(Source):
    """Parquet files with one row a text, image or metadata entry.

    Rows without bytes but with a ``source_ref`` are fetched from where it points when they are written.

    Args:
        path: see :class:`Source`, as for all further arguments that are not listed here.
        fields: passthrough columns to keep; all when ``None``. A column that no file of the job has is an error. For files that lack
            a column, it is null.

    Example:
        >>> from shardmill.curate import InterleavedParquetSource
        >>> InterleavedParquetSource(["a.parquet", "b.parquet"], files_per_partition=2).paths()
        ['a.parquet', 'b.parquet']
    """

    kind = "parquet"

    fields: Sequence[str] | None = None

    def options(self) -> dict[str, Any]:
        """What the native reader needs to know."""
        fields = None if self.fields is None else names_of(self.fields, "fields")
        return {
            "fields": fields,
            "max_batch_bytes": self.max_batch_bytes,
            "max_decoded_bytes": self.decode_limit(),
        }
