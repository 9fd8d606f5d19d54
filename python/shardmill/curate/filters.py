"""Stages between source and sink.

Native stages run inside the native driver. The others are Python: the driver calls them with the images or the rows of whole documents, one
bounded chunk at a time; where a chunk ends is no promise. Several native threads call at once, so a function or model of the user's own must
be safe to call from many threads; on Ray it travels to the workers by cloudpickle.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

from shardmill.curate import pixels
from shardmill.errors import OptionError
from shardmill.expressions import Expression, expression_of


@dataclass(frozen=True)
class AspectRatioFilter:
    """Keeps images with ``min <= width / height <= max``, judged by their headers.

    Args:
        min: smallest ratio that is kept.
        max: largest ratio that is kept.
        drop_invalid_rows: also drop rows of unknown modality and rows at impossible positions.
    """

    min: float = 1.0
    max: float = 2.0
    _: KW_ONLY
    drop_invalid_rows: bool = True

    def options(self) -> dict[str, Any]:
        """What the native stage needs to know."""
        return _range_options("aspect_ratio", self.min, self.max, self.drop_invalid_rows)


@dataclass(frozen=True)
class ImageToTextRatioFilter:
    """Keeps samples with ``min <= images / words <= max``.

    Words are separated by white space, and no word counts as one.

    Args:
        min: smallest ratio that is kept.
        max: largest ratio that is kept.
        drop_invalid_rows: also drop rows of unknown modality and rows at impossible positions.
    """

    min: float = 0.0
    max: float = math.inf
    _: KW_ONLY
    drop_invalid_rows: bool = True

    def options(self) -> dict[str, Any]:
        """What the native stage needs to know."""
        return _range_options("image_to_text_ratio", self.min, self.max, self.drop_invalid_rows)


@dataclass(frozen=True)
class Filter:
    """Keeps what an expression is true for.

    Args:
        expression: over any columns; also a list of ``(column, op, literal)``.
        per: ``"sample"`` judges the metadata row, where sample-level values sit, for the whole sample; ``"row"``
            judges each content row. Without it: ``"row"`` when a reserved column is named, else ``"sample"``.
        drop_invalid_rows: also drop rows of unknown modality and rows at impossible positions.

    Example:
        >>> import shardmill as sm
        >>> from shardmill.curate import Filter
        >>> Filter(sm.col("previous_word_count") > 100).expression
        (col('previous_word_count') > 100)
    """

    expression: Expression | list[Any]
    _: KW_ONLY
    per: Literal["sample", "row"] | None = None
    drop_invalid_rows: bool = True

    def options(self) -> dict[str, Any]:
        """What the native stage needs to know."""
        if self.per not in (None, "sample", "row"):
            raise OptionError(f'`per` is {self.per!r}; "sample" or "row"')
        tree = expression_of(self.expression).tree
        return {"filter": {"expression": tree, "per": self.per, "drop_invalid_rows": self.drop_invalid_rows}}


def _range_options(kind: str, low: float, high: float, drop_invalid_rows: bool) -> dict[str, Any]:
    if math.isnan(low) or math.isnan(high) or low > high:
        raise OptionError(f"`min` and `max` are {low} and {high}; min must not exceed max")
    # JSON has no infinity; no ratio of two counts comes near the largest double.
    bounds = {"min": max(low, -1.7e308), "max": min(high, 1.7e308)}
    return {kind: bounds | {"drop_invalid_rows": drop_invalid_rows}}


class ImageStage:
    """A filter that looks into image bytes. Subclasses decide in :meth:`keep_images`."""

    kind: ClassVar[str] = "images"
    name: ClassVar[str]
    drop_invalid_rows: bool

    def keep_images(self, images: list[bytes], texts: list[list[str]]) -> list[bool]:
        """One verdict an image; ``texts[i]`` are the text rows of the sample of ``images[i]``."""
        raise NotImplementedError


@dataclass(frozen=True)
class BlurFilter(ImageStage):
    """Keeps images whose variance of the Laplacian is at least ``threshold``.

    The variance is taken over the decoded 8-bit RGB array, all channels pooled, in 64-bit floats (as in NeMo
    Curator's blur filter). Images that cannot be decoded are dropped. Needs ``shardmill[images]``.

    Args:
        threshold: smallest score that is kept; a solid image scores 0.
        drop_invalid_rows: also drop rows of unknown modality and rows at impossible positions.
    """

    threshold: float = 100.0
    _: KW_ONLY
    drop_invalid_rows: bool = True
    name: ClassVar[str] = "interleaved_blur_filter"

    def keep_images(self, images: list[bytes], texts: list[list[str]]) -> list[bool]:
        """One verdict an image."""
        arrays = map(pixels.decoded, images)
        return [array is not None and pixels.sharpness(array) >= self.threshold for array in arrays]


@dataclass(frozen=True)
class QRCodeFilter(ImageStage):
    """Keeps images of which QR codes cover less than ``threshold`` of the area.

    Images that cannot be decoded are dropped; where the detector fails or finds nothing, the image is kept. Needs
    ``shardmill[images]``.

    Args:
        threshold: the covered share that is already too much.
        drop_invalid_rows: also drop rows of unknown modality and rows at impossible positions.
    """

    threshold: float = 0.05
    _: KW_ONLY
    drop_invalid_rows: bool = True
    name: ClassVar[str] = "interleaved_qrcode_filter"

    def keep_images(self, images: list[bytes], texts: list[list[str]]) -> list[bool]:
        """One verdict an image."""
        arrays = map(pixels.decoded, images)
        return [array is not None and pixels.qr_code_share(array) < self.threshold for array in arrays]


@dataclass(frozen=True)
class ClipScoreFilter(ImageStage):
    """Keeps images that fit a text of their own sample.

    The score of an image is its largest cosine with any non-blank text of its sample. Without such a text the image
    is dropped.

    Args:
        model: gives embeddings: ``embed_images(list[PIL.Image.Image]) -> array (n, d)`` and ``embed_texts(list[str]) -> array (n, d)``,
            from many threads at once. :class:`shardmill.integrations.open_clip.OpenClip` is one.
        min_score: smallest score that is kept.
        drop_invalid_rows: also drop rows of unknown modality and rows at impossible positions.
    """

    model: Any
    _: KW_ONLY
    min_score: float = 0.15
    drop_invalid_rows: bool = True
    name: ClassVar[str] = "interleaved_clip_score_filter"

    def __post_init__(self) -> None:
        for method in ("embed_images", "embed_texts"):
            if not callable(getattr(self.model, method, None)):
                raise OptionError(f"`model` has no method `{method}`")

    def keep_images(self, images: list[bytes], texts: list[list[str]]) -> list[bool]:
        """One verdict an image."""
        scores = pixels.clip_scores(self.model, images, texts)
        return [score is not None and score >= self.min_score for score in scores]


@dataclass(frozen=True)
class Map:
    """Runs the user's own function on tables.

    The function gets a ``pyarrow.Table`` and returns one (or anything with ``__arrow_c_stream__``). Rows may be changed,
    dropped and added; all tables must come back with the same columns. Needs ``shardmill[arrow]``.

    Of interleaved rows, the table has whole documents; ``sample_id``, ``position`` and ``modality`` must stay filled.
    ``binary_content`` is null for images that were not fetched yet (``materialize_on_read=False``); such rows are fetched
    by their ``source_ref`` when they are written.

    Args:
        function: from table to table. Many threads call it at once.
        name: what reports call the stage.
        needs_bytes: fetch all images before the function is called.
        batch_size: for a :class:`TableSource`: each call gets so many rows, the last one of an output file what is left.
            Without it, a call gets a block of the input, at most about ``memory_bytes``.

    Example:
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
        if self.batch_size is not None and self.batch_size < 1:
            raise OptionError("`batch_size` must be positive")

    def map_table(self, batch: Any) -> Any:
        """Calls the function with ``batch`` as a ``pyarrow.Table``."""
        return self._called(_as_table(batch))

    def map_rows(self, batch: Any) -> list[Any]:
        """Calls the function with consecutive parts of ``batch``; results of one schema are put together."""
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
            raise TypeError(f"stage {self.name!r} returned {type(result).__name__}, not an Arrow table")
        return result


def _as_table(rows: Any) -> Any:
    """Anything of Arrow as a ``pyarrow.Table``."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ImportError("Map needs pyarrow\nhint: pip install 'shardmill[arrow]'") from error
    if isinstance(rows, pa.Table):
        return rows
    return pa.table(rows) if hasattr(rows, "__arrow_c_stream__") else pa.Table.from_batches([pa.record_batch(rows)])


def _joined(tables: list[Any]) -> list[Any]:
    """Each run of tables of one schema as one table; a stage that changes its mind is for the native driver to name."""
    import pyarrow as pa

    if all(table.schema.equals(tables[0].schema) for table in tables[1:]):
        return [pa.concat_tables(tables).combine_chunks()]
    return tables


@dataclass(frozen=True)
class ReencodeImages:
    """Decodes each image and stores it in another codec.

    This is the only stage that changes pixels, and only when it is asked for. Images that cannot be decoded get an
    error. Needs ``shardmill[images,arrow]``.

    Args:
        codec: a format name that Pillow writes, such as ``"jpeg"``, ``"webp"`` or ``"png"``.
        quality: for lossy codecs, 1 to 100.
    """

    codec: str = "jpeg"
    _: KW_ONLY
    quality: int = 90
    name: str = "reencode_images"
    kind: ClassVar[str] = "table"
    needs_bytes: ClassVar[bool] = True

    def map_table(self, batch: Any) -> Any:
        """Returns ``batch`` with each image in the new codec."""
        return pixels.reencoded(batch, self.codec, self.quality)


NativeStage = AspectRatioFilter | ImageToTextRatioFilter | Filter
Stage = NativeStage | ImageStage | Map | ReencodeImages


def stage_options(stages: Sequence[Any]) -> tuple[list[dict[str, Any]], list[Any]]:
    """The stages as the native driver takes them: a list of options, and the Python objects that these refer to.

    Raises:
        OptionError: for something that is no stage.
    """
    options: list[dict[str, Any]] = []
    user_stages: list[Any] = []
    for stage in stages:
        if isinstance(stage, NativeStage):
            options.append(stage.options())
        elif hasattr(stage, "kind") and hasattr(stage, "name"):
            options.append({"user": {"index": len(user_stages)}})
            user_stages.append(stage)
        else:
            raise OptionError(f"{stage!r} is no stage\nhint: wrap a function of tables in Map(function)")
    return options, user_stages
