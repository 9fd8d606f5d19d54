"""Sources of documents that are rows of Parquet files, or JSON objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from shardmill._option_values import check_filled, check_kind, listed
from shardmill.curate._sources import DocumentSource
from shardmill.errors import OptionError
from shardmill.storage._paths import PathLike, path_of


@dataclass(frozen=True, kw_only=True)
class DocumentKeys:
    """The fields with the texts, images and messages of documents that are rows or JSON objects.

    Fields that are not named are recognized where only one reading is possible:

    - a list of messages, ``messages`` or ``conversations``, with its images in ``images``;
    - ``text_list`` and ``image_info`` of MMC4;
    - parallel lists, ``texts`` and ``images``, in which each index has a text or an image;
    - an image and a text: ``image`` or ``images``, or the only column with bytes of images; and
      ``text``, ``caption``, or the only column of strings.

    An image is bytes, a struct of bytes and path, base64 (also after ``data:``), a path or a URL.

    Attributes:
        sample_id_field: the id of the document; by default, the name of the file and the number of
            the row in it.
        texts_field: the text, or the list of texts.
        images_field: the image, or the list of images.
        messages_field: the list of messages, or its JSON. A message has ``role`` and ``content``,
            or ``from`` and ``value``.
        parts: fields with texts and images, in reading order, such as ``("image", "caption")``.
        per_image_fields: lists with one value for each image, or for each index of ``texts`` and
            ``images``. Each value is stored with its image.
        marker: what stands in a text for the next image. A document with more or fewer images than
            markers is quarantined.
        image_root: the directory or prefix that paths of images are relative to; by default, the
            directory of the file. A path that leaves it is an error for its row.

    Raises:
        ValueError: If a field is not a string.

    Examples:
        >>> from shardmill.curate import DocumentKeys, InterleavedParquetSource
        >>> keys = DocumentKeys(parts=("photo", "alt"), images_field="photo")
        >>> InterleavedParquetSource("photos.parquet", keys=keys).keys.parts
        ('photo', 'alt')
    """

    sample_id_field: str | None = None
    texts_field: str | None = None
    images_field: str | None = None
    messages_field: str | None = None
    parts: Sequence[str] | None = None
    per_image_fields: Sequence[str] = ()
    marker: str = "<image>"
    image_root: PathLike | None = None

    def __post_init__(self) -> None:
        for name in ("sample_id_field", "texts_field", "images_field", "messages_field", "marker"):
            value = getattr(self, name)
            check_filled(f"DocumentKeys.{name}", value, is_optional=name != "marker")
        for name in ("parts", "per_image_fields"):
            if (names := getattr(self, name)) is not None:
                object.__setattr__(self, name, tuple(listed(f"DocumentKeys.{name}", names)))
        if self.parts is not None and len(set(self.parts)) < max(1, len(self.parts)):
            raise OptionError(
                f"DocumentKeys.parts must name fields, each of them once, not {self.parts!r}"
            )


@dataclass(frozen=True, repr=False)
class RecordSource(DocumentSource):
    """Base class of sources whose files have no members."""

    keys: DocumentKeys | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        example = "sm.curate.DocumentKeys(parts=('image', 'caption'))"
        check_kind("keys", self.keys, DocumentKeys, example)

    def _options(self) -> dict[str, Any]:
        """Return the options of the native reader."""
        options = super()._options()
        if self.keys in (None, DocumentKeys()):
            # Checkpoints of jobs without it stay valid.
            return options
        return options | {"keys": asdict(self.keys) | {"image_root": self._image_root()}}

    def _image_root(self) -> str | None:
        root = None if self.keys is None else self.keys.image_root
        return None if root is None else path_of(root)

    def _named_roots(self) -> list[str]:
        """Return what the user names of the roots of paths in rows."""
        named, root = super()._named_roots(), self._image_root()
        return named if root is None or root in named else [*named, root]


@dataclass(frozen=True, repr=False)
class InterleavedParquetSource(RecordSource):
    """Parquet files with one row per text, image or metadata entry, or with one per document.

    Texts and images that have a ``source_ref`` but no bytes are fetched from there when they are
    written. Files with one row per document are OBELICS, OmniCorpus, image columns of Hugging Face
    ``datasets``, and chats with images; see ``DocumentKeys``.

    All files of a job have one schema, which does not depend on how they are divided. Types that
    have no common type become JSON text. Values that the common type cannot hold exactly are in the
    column ``rescued``.

    Args:
        path: see ``Source``, also for all other arguments that are not listed here.
        fields: passthrough columns to keep; all by default. A column that no file of the job has is
            an error. For files that lack a column, it is null.
        keys: the columns with texts, images and messages, of files with one row per document.

    Raises:
        KeyError: When the job runs, if the documents of a file have no layout that is recognized.

    Examples:
        >>> from shardmill.curate import InterleavedParquetSource
        >>> InterleavedParquetSource(["a.parquet", "b.parquet"], files_per_partition=2).paths()
        ['a.parquet', 'b.parquet']
    """

    kind = "parquet"


@dataclass(frozen=True, repr=False)
class InterleavedJsonlSource(RecordSource):
    """JSON Lines, or arrays of JSON objects, in which each object is one document.

    These are MMC4, OmniCorpus, chats with images and pairs of images and captions; see
    ``DocumentKeys``. Files may be compressed with gzip or zstd. An object that is not a document is
    quarantined with its line.

    All outputs of a job have one schema, decided as for ``WebDatasetSource``.

    Args:
        path: see ``Source``, also for all other arguments that are not listed here.
        fields: keys to copy to columns; all by default.
        keys: the keys of texts, images and messages.

    Raises:
        KeyError: When the job runs, if no object is a document with a layout that is recognized.

    Examples:
        >>> import json, pyarrow.parquet as pq
        >>> from pathlib import Path
        >>> from shardmill.curate import InterleavedJsonlSource, ParquetSink, Pipeline
        >>> document = {"texts": ["A cat.", None], "images": [None, "https://example.org/cat.jpg"]}
        >>> _ = Path("web.jsonl").write_text(json.dumps(document))
        >>> sink = ParquetSink("documents", materialize_on_write=False)
        >>> _ = Pipeline(source=InterleavedJsonlSource("web.jsonl"), sink=sink).run()
        >>> pq.read_table("documents")["modality"].to_pylist()
        ['metadata', 'text', 'image']
    """

    kind = "jsonl"
