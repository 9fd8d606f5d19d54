"""Sources of documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, asdict, dataclass, fields
from typing import Any, ClassVar
from urllib.parse import urlsplit

from shardmill._choices import check_fields
from shardmill._native.storage import redacted
from shardmill._option_values import check_kind, checked_schema, keep_iterated, listed, whole
from shardmill._sizes import byte_count
from shardmill._warnings import warn_caller
from shardmill.errors import OptionError
from shardmill.storage._configure import refuse_keys, shown
from shardmill.storage._fsspec import is_file_system, listed_paths, located
from shardmill.storage._paths import Paths, path_list, path_of


def described(options: Any) -> str:
    """Return the ``repr`` of a source or a sink, without its storage options."""
    shown_fields = [field.name for field in fields(options) if field.name != "storage_options"]
    values = ", ".join(f"{name}={getattr(options, name)!r}" for name in shown_fields)
    return redacted(f"{type(options).__qualname__}({values})")


#: Enough rows to make starting a split cheap, few enough to keep all cores busy.
_TABLE_PARTITION_BYTES = 32_000_000


@dataclass(frozen=True, repr=False)
class Source:
    """Base class of all sources.

    Args:
        path: a file, a directory (searched recursively), a glob, or a list of these.
        files_per_partition: number of consecutive files that make one output file; 1 by default.
        partition_bytes: pack consecutive files into partitions of up to this size instead, such as
            ``"128MB"``.
        max_batch_bytes: cut a partition into output files of about this size, between documents.
        schema: the exact columns (anything with ``__arrow_c_schema__``, such as a
            ``pyarrow.Schema``).
        schema_overrides: types and columns that override the inferred ones.
        max_decoded_bytes: the largest decoded size of one page, document or image, such as
            ``"4GiB"``; a larger one is bad input. 1 GiB by default.
        storage_options: options for the store of remote paths, see ``shardmill.storage.configure``.
            Workers on other machines get only non-secret options, and need credentials in their
            environment.
        allowed_roots: additional directories and prefixes, such as ``"s3://bucket/images"``, below
            which paths in rows (``source_ref``) may be read. By default, they are read only below
            the directory or prefix of the input, and in stores that were given ``storage_options``.
            If a path leads elsewhere, also through a link, its row gets an error.
    """

    path: Paths
    _: KW_ONLY
    files_per_partition: int | None = None
    partition_bytes: int | str | None = None
    max_batch_bytes: int | str | None = None
    schema: Any = None
    schema_overrides: Any = None
    storage_options: Any = None
    max_decoded_bytes: int | str | None = None
    allowed_roots: Paths = ()

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        keep_iterated(self)
        checked_schema("schema", self.schema)
        if not isinstance(self.schema_overrides, dict):
            checked_schema("schema_overrides", self.schema_overrides)
        refuse_keys([*self._given_paths(), *path_list(self.allowed_roots)])
        if self.schema is not None and self.schema_overrides is not None:
            warn_caller("`schema` fixes all columns; `schema_overrides` has no effect")

    def paths(self) -> list[str]:
        """Return the paths as a list of strings."""
        paths, _ = located(listed_paths(self.path), self.storage_options)
        return [path_of(path) for path in paths]

    def _given_paths(self) -> list[str]:
        """Return the paths, of which there is at least one."""
        if not (paths := self.paths()):
            raise OptionError("no path was given")
        return paths

    def __getstate__(self) -> dict[str, Any]:
        # Secrets, and objects that hold secrets, are not pickled. The fact that there were options
        # is, because it identifies the store.
        options = shown(self.paths(), options_of_paths(self))
        return {
            **self.__dict__,
            "path": self.paths(),
            "storage_options": options,
            "allowed_roots": _roots(self),
        }

    def __repr__(self) -> str:
        return described(self)

    def _options(self) -> dict[str, Any]:
        """Return the options of the native reader."""
        raise NotImplementedError

    def _named_roots(self) -> list[str]:
        """Return what the user names of the roots of paths in rows."""
        return path_list(self.allowed_roots)

    def _bytes_of(self, option: str) -> int | None:
        size = getattr(self, option)
        return None if size is None else byte_count(size, option)


def source_spec(source: Source) -> dict[str, Any]:
    """Return a source for the native driver."""
    options = source._options()  # pyright: ignore[reportPrivateUsage]
    return {
        "paths": source.paths(),
        "partitioning": _partitioning(source),
        "source": {source.kind: options},
        "allowed_roots": _roots(source),
    }


def options_of_paths(source: Source) -> Any:
    """Return the options for accessing the paths."""
    return source.path if is_file_system(source.path) else source.storage_options


def _partitioning(source: Source) -> dict[str, Any]:
    """Return how files become splits."""
    files, size = source.files_per_partition, source.partition_bytes
    if files is not None and size is not None:
        raise OptionError("`files_per_partition` and `partition_bytes` are mutually exclusive")
    if files is None and size is None and source.kind == "table":
        size = _TABLE_PARTITION_BYTES
    return {
        "files_per_partition": None if files is None else whole("files_per_partition", files, 1),
        "blocksize_bytes": None if size is None else byte_count(size, "partition_bytes"),
    }


def _roots(source: Source) -> list[str]:
    """Return the roots of paths in rows, besides the input.

    These are ``allowed_roots``, and stores with options.
    """
    named = source._named_roots()  # pyright: ignore[reportPrivateUsage]
    if options_of_paths(source):
        urls = [urlsplit(path) for path in source.paths() if "://" in path]
        named += sorted(
            {f"{url.scheme}://{url.netloc}" for url in urls if url.scheme != "file"} - set(named)
        )
    return named


@dataclass(frozen=True, repr=False)
class DocumentSource(Source):
    """Base class of sources of documents."""

    fields: Sequence[str] | None = None

    def _options(self) -> dict[str, Any]:
        """Return the options of the native reader."""
        return {
            "fields": None if self.fields is None else listed("fields", self.fields),
            "max_batch_bytes": self._bytes_of("max_batch_bytes"),
            "max_decoded_bytes": self._bytes_of("max_decoded_bytes"),
        }


@dataclass(frozen=True, kw_only=True)
class SampleKeys:
    """The keys of texts, images and ids in the JSON of a tar, and the extensions of its members.

    Attributes:
        sample_id_field: key of the document's id; by default, the id is the member's name without
            its extension.
        texts_field: key of the list of texts.
        images_field: key of the list of images.
        image_member_field: key that names the member, for entries without a member name.
        json_extensions: extensions of the members that are documents, in lower or upper case. An
            extension that ends with ``.json`` also matches with ``.gz`` or ``.zst`` after it.
            Hidden members are not documents. ``X.Y.json`` next to ``X.json`` is a document if it
            has one of the lists, texts or images.
        image_extensions: extensions that are tried for the document's own image, with or without
            the dot.

    Raises:
        ValueError: If a key or an extension is not a string.

    Examples:
        >>> from shardmill.curate import SampleKeys, WebDatasetSource
        >>> keys = SampleKeys(texts_field="paragraphs", json_extensions=[".meta.json"])
        >>> WebDatasetSource("shards/", keys=keys).keys.json_extensions
        ('.meta.json',)
    """

    sample_id_field: str | None = None
    texts_field: str = "texts"
    images_field: str = "images"
    image_member_field: str | None = None
    json_extensions: Sequence[str] = (".json",)
    image_extensions: Sequence[str] = (
        ".jpg",
        ".jpeg",
        ".png",
        ".tif",
        ".tiff",
        ".webp",
        ".bmp",
        ".gif",
    )

    def __post_init__(self) -> None:
        for name, key in vars(self).items():
            if name.endswith("_extensions"):
                extensions = listed(f"SampleKeys.{name}", key)
                if name == "image_extensions":
                    extensions = [f".{extension.removeprefix('.')}" for extension in extensions]
                object.__setattr__(self, name, tuple(extensions))
            elif not isinstance(key, str) and (
                key is not None or name in ("texts_field", "images_field")
            ):
                raise OptionError(f"SampleKeys.{name} must be the name of a key, not {key!r}")


@dataclass(frozen=True, repr=False)
class WebDatasetSource(DocumentSource):
    """Tar shards in which each JSON member is one document.

    The shards are ``.tar``, ``.tar.gz``, ``.tgz`` or ``.tar.zst`` files.

    The JSON has two parallel lists, texts and images; an image entry names a member of the tar, or
    refers to the next page of the document's TIFF. Pages are extracted by copying, never by
    decoding. JSON without these lists, next to an image and a ``.txt`` of the same name, is a pair
    of an image and a caption, as ``img2dataset`` writes them (LAION, DataComp).

    All outputs of a job have one schema. It is decided before the first one is written, from every
    document, or from a sample if their JSON has more than 64 MiB. Values that it cannot hold are in
    the column ``rescued``.

    Args:
        path: see ``Source``, also for all other arguments that are not listed here.
        fields: JSON keys to copy to columns; all by default.
        per_image_fields: keys whose lists have one value per image. A list that no option names is
            stored as a whole, and keeps the values of dropped images; ``Report.warnings`` names
            such lists.
        per_text_fields: keys whose lists have one value per text. A key in both options has one
            value per text and image, in reading order.
        keys: the keys of texts, images and ids, and the extensions of members.
        ignore_zeros: read past the zeros that end an archive, like ``tar -i``, for archives joined
            with ``cat``. By default, bytes after the end are quarantined.
        materialize_on_read: provide image bytes to every stage; otherwise they are fetched when
            they are written.

    Examples:
        >>> from shardmill.curate import WebDatasetSource
        >>> WebDatasetSource("shards/*.tar", per_image_fields=("image_metadata",)).paths()
        ['shards/*.tar']
    """

    kind = "webdataset"

    per_image_fields: Sequence[str] = ()
    per_text_fields: Sequence[str] = ()
    keys: SampleKeys | None = None
    ignore_zeros: bool = False
    materialize_on_read: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(WebDatasetSource, vars(self))
        check_kind("keys", self.keys, SampleKeys, "sm.curate.SampleKeys(texts_field='text')")

    def _options(self) -> dict[str, Any]:
        """Return the options of the native reader."""
        return super()._options() | {
            "per_image_fields": listed("per_image_fields", self.per_image_fields),
            "per_text_fields": listed("per_text_fields", self.per_text_fields),
            "keys": asdict(self.keys or SampleKeys()),
            "ignore_zeros": self.ignore_zeros,
            "materialize_on_read": self.materialize_on_read,
        }
