"""Stages between source and sink.

Native stages run inside the native driver. The others are Python: the driver calls them with the
images or the rows of whole documents, one bounded chunk at a time; chunk boundaries are
unspecified. Several native threads call at once, so user-defined functions and models must be
thread-safe. On Ray they are sent to the workers with cloudpickle.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, fields
from numbers import Real
from typing import Any, ClassVar, Literal

from shardmill._choices import check_fields
from shardmill._extras import pyarrow_for
from shardmill._option_values import flag, whole
from shardmill.curate import _pixels as pixels
from shardmill.errors import OptionError
from shardmill.expressions import Expression, Value, expression_of


@dataclass(frozen=True)
class _Judging:
    """What all filters have in common.

    Args:
        drop_invalid_rows: also drop rows of unknown modality and rows at invalid positions.
    """

    drop_invalid_rows: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        flag("drop_invalid_rows", self.drop_invalid_rows)


class NativeStage(_Judging):
    """A filter of the native driver. Its fields are the options there."""

    _kind: ClassVar[str]

    def _options(self) -> dict[str, Any]:
        """Return the options of the native stage."""
        values = {option.name: getattr(self, option.name) for option in fields(self)}
        return {
            self._kind: {
                name: _plain(value) if isinstance(value, Real) else value
                for name, value in values.items()
            }
        }


@dataclass(frozen=True)
class _RangeFilter(NativeStage):
    min: float
    max: float

    def __post_init__(self) -> None:
        super().__post_init__()
        for option, value in (("min", self.min), ("max", self.max)):
            _number(f"{option} of {type(self).__name__}", value)
        if self.min > self.max:
            raise OptionError(
                f"`min` and `max` are {self.min} and {self.max}; min must not exceed max"
            )


@dataclass(frozen=True)
class AspectRatioFilter(_RangeFilter):
    """Keep images with ``min <= width / height <= max``, according to their headers.

    Width and height are those of the image as displayed, with the orientation of EXIF or XMP
    applied. Images whose size is not known are dropped, and counted as ``image header unreadable``.

    Args:
        min: minimum ratio to keep.
        max: maximum ratio to keep.
        drop_invalid_rows: also drop rows of unknown modality and rows at invalid positions.
    """

    min: float = 1.0
    max: float = 2.0
    _kind: ClassVar[str] = "aspect_ratio"


@dataclass(frozen=True)
class SizeFilter(NativeStage):
    """Keep images that are neither too small nor too large, according to their headers.

    Images whose size is not known are dropped, and counted as ``image header unreadable``.

    Args:
        min_side: minimum length of the shorter side, in pixels.
        max_pixels: maximum of height times width.
        drop_invalid_rows: also drop rows of unknown modality and rows at invalid positions.

    Examples:
        >>> from shardmill.curate import SizeFilter
        >>> SizeFilter(min_side=150, max_pixels=20_000_000).min_side
        150
    """

    _: KW_ONLY
    min_side: int | None = None
    max_pixels: int | None = None
    _kind: ClassVar[str] = "size"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.min_side is None and self.max_pixels is None:
            raise OptionError("a SizeFilter needs min_side or max_pixels")
        for name, most in (("min_side", 2**32 - 1), ("max_pixels", 2**63 - 1)):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, whole(name, value, 1, most))


@dataclass(frozen=True)
class BlurFilter(NativeStage):
    """Keep images whose variance of the Laplacian is at least ``threshold``.

    The variance is computed over the decoded 8-bit RGB pixels of all channels, as in NeMo Curator's
    blur filter. Damaged images are dropped. Images in formats that are not decoded, such as AVIF,
    are kept; ``Report.warnings`` counts them. An image that decodes to more than
    ``max_decoded_bytes`` of the source gets an error.

    Args:
        threshold: minimum variance to keep, in squared 8-bit levels; a solid-color image has 0.
        drop_invalid_rows: also drop rows of unknown modality and rows at invalid positions.

    Raises:
        ValueError: If ``threshold`` is not a number.

    Examples:
        >>> from shardmill.curate import BlurFilter
        >>> BlurFilter(threshold=50).threshold
        50
    """

    threshold: float = 100.0
    _kind: ClassVar[str] = "blur"

    def __post_init__(self) -> None:
        super().__post_init__()
        _number("threshold", self.threshold)


@dataclass(frozen=True)
class DamageFilter(NativeStage):
    """Drop damaged images: those that cannot be decoded, or only in part.

    Images in formats that are not decoded, such as AVIF, HEIC and ICO, are kept;
    ``Report.warnings`` counts them. Bytes in no known format are damaged. An image that decodes to
    more than ``max_decoded_bytes`` of the source gets an error.

    Args:
        drop_invalid_rows: also drop rows of unknown modality and rows at invalid positions.
    """

    _kind: ClassVar[str] = "damage"


@dataclass(frozen=True)
class ImageToTextRatioFilter(_RangeFilter):
    """Keep samples with ``min <= images / words <= max``.

    Words are separated by whitespace; a sample without words counts as one word. Images without
    bytes count too.

    Args:
        min: minimum number of images per word to keep.
        max: maximum number of images per word to keep.
        drop_invalid_rows: also drop rows of unknown modality and rows at invalid positions.

    Raises:
        ValueError: If a bound is not a number, or ``min`` exceeds ``max``.

    Examples:
        >>> from shardmill.curate import ImageToTextRatioFilter
        >>> ImageToTextRatioFilter(max=0.1).max  # at most one image for ten words
        0.1
    """

    min: float = 0.0
    max: float = math.inf
    _kind: ClassVar[str] = "image_to_text_ratio"


@dataclass(frozen=True)
class Filter(NativeStage):
    """Keep rows or samples for which an expression is true.

    Args:
        expression: an expression over any columns, also as text, or a list of
            ``(column, op, literal)``.
        per: ``"sample"`` evaluates the metadata row, which has the sample-level values, for the
            whole sample; ``"row"`` evaluates each content row. The default is ``"row"`` if the
            expression uses a reserved column, else ``"sample"``.
        drop_invalid_rows: also drop rows of unknown modality and rows at invalid positions.

    Examples:
        >>> import shardmill as sm
        >>> from shardmill.curate import Filter
        >>> Filter(sm.col("previous_word_count") > 100).expression
        (col('previous_word_count') > 100)
    """

    expression: Expression | Value | str | list[Any]
    _: KW_ONLY
    per: Literal["sample", "row"] | None = None
    _kind: ClassVar[str] = "filter"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(Filter, vars(self))

    def _options(self) -> dict[str, Any]:
        """Return the options of the native stage."""
        options = super()._options()
        options[self._kind]["expression"] = expression_of(self.expression).tree
        return options


def _number(option: str, value: Any) -> None:
    """Raise ``OptionError`` if ``value`` is not a number."""
    if isinstance(value, bool) or not isinstance(value, Real) or math.isnan(_plain(value)):
        raise OptionError(f"{option} must be a number, not {value!r}")


def _plain(value: Any) -> float:
    """Return a number of Python's own types.

    An integer beyond all doubles is as good as infinite.
    """
    try:
        plain = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    return value if isinstance(value, int) else plain


class ImageStage:
    """A filter on image bytes. Subclasses implement ``keep_images``."""

    kind: ClassVar[str] = "images"
    name: ClassVar[str]
    drop_invalid_rows: bool

    def keep_images(self, images: list[bytes], texts: list[list[str]]) -> list[bool]:
        """Return one verdict per image.

        ``texts[i]`` are the text rows of the sample of ``images[i]``.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class QRCodeFilter(_Judging, ImageStage):
    """Keep images in which QR codes cover less than ``threshold`` of the area.

    The orientation of EXIF or XMP is applied. Images that cannot be decoded are dropped. If the
    detector fails or finds nothing, the image is kept. Requires ``shardmill[images]``.

    Args:
        threshold: covered fraction of the area from which an image is dropped.
        drop_invalid_rows: also drop rows of unknown modality and rows at invalid positions.
    """

    threshold: float = 0.05
    name: ClassVar[str] = "interleaved_qrcode_filter"

    def __post_init__(self) -> None:
        super().__post_init__()
        _number("threshold", self.threshold)
        if not 0 <= self.threshold <= 1:
            raise OptionError(f"threshold must be a fraction from 0 to 1, not {self.threshold!r}")

    def keep_images(self, images: list[bytes], texts: list[list[str]]) -> list[bool]:
        """Return one verdict per image."""
        arrays = map(pixels.decoded, images)
        return [
            array is not None and pixels.qr_code_share(array) < self.threshold for array in arrays
        ]


@dataclass(frozen=True)
class ClipScoreFilter(_Judging, ImageStage):
    """Keep images that match a text of their sample.

    The score of an image is its maximum cosine similarity with any non-blank text of its sample. If
    there is no such text, the image is dropped.

    Args:
        model: computes embeddings: ``embed_images(list[PIL.Image.Image]) -> array (n, d)`` and
            ``embed_texts(list[str]) -> array (n, d)``. Images are upright. It must be thread-safe.
            See ``shardmill.integrations.open_clip.OpenClip``.
        min_score: minimum score to keep.
        drop_invalid_rows: also drop rows of unknown modality and rows at invalid positions.
    """

    model: Any
    _: KW_ONLY
    min_score: float = 0.15
    name: ClassVar[str] = "interleaved_clip_score_filter"

    def __post_init__(self) -> None:
        super().__post_init__()
        for method in ("embed_images", "embed_texts"):
            if not callable(getattr(self.model, method, None)):
                raise OptionError(f"`model` has no method `{method}`")
        _number("min_score", self.min_score)

    def keep_images(self, images: list[bytes], texts: list[list[str]]) -> list[bool]:
        """Return one verdict per image."""
        scores = pixels.clip_scores(self.model, images, texts)
        return [score is not None and score >= self.min_score for score in scores]


@dataclass(frozen=True)
class Map:
    """Run a user-defined function on tables.

    The function gets a ``pyarrow.Table`` and returns one (or anything with ``__arrow_c_stream__``).
    Rows may be changed, dropped and added. Requires ``shardmill[arrow]``.

    For rows of a ``TableSource``, the first result with rows decides the columns of all files of
    the job, together with the ``schema`` or ``schema_overrides`` of the sink: the result of the
    first call of the first group of input files that yields a row. Later results are converted
    without loss; a column that they lack is null. A new column, a value that does not fit, and a
    column of that first result that has only nulls without a type stop the job. So declare a type
    in ``schema_overrides`` where the types of results depend on the rows of a call.

    For interleaved rows, the table has whole documents; ``sample_id``, ``position`` and
    ``modality`` must not become null. ``binary_content`` is null for images that have not been
    fetched yet (``materialize_on_read=False``); they are fetched from their ``source_ref`` when
    they are written.

    Args:
        function: a function from table to table. It must be thread-safe.
        name: name of the stage in reports.
        needs_bytes: fetch all images before the function is called.
        batch_size: number of rows per call, for a ``TableSource``; the last call of an output file
            may get fewer. By default, each call gets a block of the input, at most about
            ``memory_bytes``.

    Examples:
        >>> from shardmill.curate import Map
        >>> Map(lambda table: table, name="identity").name
        'identity'
    """

    function: Callable[[Any], Any]
    _: KW_ONLY
    name: str = "map"
    needs_bytes: bool = False
    batch_size: int | None = None
    kind: ClassVar[str] = "table"

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise OptionError(
                f"a Map needs a function of a table; {self.function!r} is not callable"
            )
        flag("needs_bytes", self.needs_bytes)
        if self.batch_size is not None:
            object.__setattr__(self, "batch_size", whole("batch_size", self.batch_size, 1))

    def map_table(self, batch: Any) -> Any:
        """Call the function with ``batch`` as a ``pyarrow.Table``."""
        return self._called(_as_table(batch))

    def map_rows(self, batch: Any) -> list[Any]:
        """Call the function with consecutive parts of ``batch``.

        Results with the same schema may be concatenated.
        """
        rows = _as_table(batch)
        size = self.batch_size or max(rows.num_rows, 1)
        if rows.num_rows <= size:
            return [self._called(rows)]
        results: list[Any] = []
        for start in range(0, rows.num_rows, size):
            results.append(_as_table(self._called(rows.slice(start, size))))
        return _joined(results)

    def _called(self, table: Any) -> Any:
        result = self.function(table)
        if not hasattr(result, "__arrow_c_stream__") and not hasattr(result, "__arrow_c_array__"):
            raise TypeError(
                f"stage {self.name!r} returned {type(result).__name__}, not an Arrow table"
            )
        return result


def _as_table(rows: Any) -> Any:
    """Convert any Arrow data to a ``pyarrow.Table``."""
    pa = pyarrow_for("Map")
    if isinstance(rows, pa.Table):
        return rows
    return (
        pa.table(rows)
        if hasattr(rows, "__arrow_c_stream__")
        else pa.Table.from_batches([pa.record_batch(rows)])
    )


def _joined(tables: list[Any]) -> list[Any]:
    """Concatenate each run of tables with the same schema.

    The native driver reports a change of schema.
    """
    import pyarrow as pa

    schema = tables[0].schema
    # The values of several dictionaries together may outnumber the keys of one.
    is_joined = not any(pa.types.is_dictionary(field.type) for field in schema)
    if is_joined and all(table.schema.equals(schema) for table in tables[1:]):
        return [pa.concat_tables(tables).combine_chunks()]
    return tables


@dataclass(frozen=True)
class ReencodeImages:
    """Store each image in another codec, upright and at most ``max_side`` large.

    An image that is already stored in this codec, is upright, and is not larger than ``max_side``
    keeps its bytes. This is decided by its header; ``quality`` does not matter, because encoding it
    again would only lose quality. All other images are decoded, turned upright by EXIF or XMP, and
    encoded without metadata. A PNG, TIFF, WebP or AVIF that stays in its codec keeps its alpha;
    otherwise, transparent pixels are composited on white. Larger images are resized with Lanczos;
    images are never enlarged.

    JPEG and PNG are written natively. The bytes of a JPEG equal those of
    ``save(format="JPEG", quality=quality)`` of Pillow for the same pixels; grayscale images stay
    grayscale. Other codecs require ``shardmill[images,arrow]``.

    This is the only stage that changes pixels. Images that cannot be decoded completely, or decode
    to more than ``max_decoded_bytes`` of the source, get an error.

    Args:
        codec: ``"jpeg"``, ``"png"``, or another format that Pillow can write, such as ``"webp"``.
        quality: quality for lossy codecs, 1 to 100.
        max_side: maximum length of the longer side in pixels.
        name: name of the stage in reports.

    Raises:
        ValueError: If Pillow cannot write ``codec``, or a number is out of range.

    Examples:
        >>> from shardmill.curate import ReencodeImages
        >>> ReencodeImages("jpeg", quality=85, max_side=1024).max_side
        1024
    """

    codec: str = "jpeg"
    _: KW_ONLY
    quality: int = 90
    max_side: int | None = None
    name: str = "reencode_images"
    kind: ClassVar[str] = "table"
    needs_bytes: ClassVar[bool] = True
    decodes_images: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "quality", whole("quality", self.quality, 1, 100))
        if not isinstance(self.codec, str):
            raise OptionError(f"codec must be the name of a codec, not {self.codec!r}")
        if not self._is_native and not pixels.can_write(self._codec):
            raise OptionError(
                f"codec must be 'jpeg', 'png' or a format that Pillow can write, not {self.codec!r}"
            )
        if self.max_side is not None:
            object.__setattr__(self, "max_side", whole("max_side", self.max_side, 1, 65_535))

    @property
    def _codec(self) -> str:
        return self.codec.lower().replace("jpg", "jpeg")

    @property
    def _is_native(self) -> bool:
        return self._codec in ("jpeg", "png")

    def _options(self) -> dict[str, Any] | None:
        """Return the options of the native stage; ``None`` for a codec that Pillow writes."""
        options = {
            "name": self.name,
            "codec": self._codec,
            "quality": self.quality,
            "max_side": self.max_side,
        }
        return {"reencode": options} if self._is_native else None

    def map_table(self, batch: Any) -> Any:
        """Return ``batch`` with each image in the new codec, as Pillow writes it."""
        return pixels.reencoded(batch, self._codec, self.quality, self.max_side)


Stage = NativeStage | ImageStage | Map | ReencodeImages


def native_options(stage: Any) -> dict[str, Any] | None:
    """Return the options of a stage of the native driver, ``None`` for any other object."""
    if not isinstance(stage, NativeStage | ReencodeImages):
        return None
    return stage._options()  # pyright: ignore[reportPrivateUsage]
