"""Decoded images, the input of the QR code and CLIP filters.

Pillow and OpenCV are imported at the first image, since most pipelines never decode one. Several
native threads call in at once: each call has its own images and its own detector, and shares only
the loaded modules. Invariant: for intact images the array equals that of OpenCV's `imdecode`, which
NeMo Curator's filters use; a damaged image, which `imdecode` fills with gray, is not decoded at
all.
"""

from __future__ import annotations

import io
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from shardmill._extras import package_for, pyarrow_for
from shardmill._native import pixels as _native
from shardmill.errors import FormatError

if TYPE_CHECKING:
    import numpy as np

# Formats of Pillow in which an image keeps its alpha; PNG is written natively.
_WITH_ALPHA = frozenset({"AVIF", "TIFF", "WEBP"})
# Number of decoded images passed to a model at once: they are much larger than a chunk's bytes.
_CLIP_BATCH = 64


@cache
def _pillow() -> Any:
    image_module = package_for("this stage", "PIL.Image", name="Pillow", extra="images")
    # Otherwise the first images of several threads would load the codecs at once.
    image_module.init()
    return image_module


@cache
def _opencv() -> Any:
    cv2 = package_for("this stage", "cv2", name="OpenCV", extra="images")
    # The thread pool of the driver already uses all cores.
    cv2.setNumThreads(1)
    return cv2


def _is_too_large(error: Exception) -> bool:
    """Tell whether Pillow refuses an image for its size.

    Its limit is that of the process, and a warning may be an error there.
    """
    image_module = _pillow()
    return isinstance(
        error, image_module.DecompressionBombError | image_module.DecompressionBombWarning
    )


def _decoded_natively(payload: bytes, **options: Any) -> Any:
    """Return an image that is larger than Pillow's limit.

    The native driver has checked it against ``max_decoded_bytes``.
    """
    return _pillow().fromarray(_native.decode(payload, max_pixels=2**64 - 1, **options))


def opened(payload: bytes) -> Any | None:
    """Return the image as RGB and upright, or None if it cannot be decoded."""
    image_module = _pillow()
    try:
        with image_module.open(io.BytesIO(payload)) as image:
            turn_upright(image)
            return (_with_8_bits(image) if image.mode.startswith("I;16") else image).convert("RGB")
    except Exception as error:  # Pillow's decoders raise nearly any exception on damaged data
        if not _is_too_large(error):
            return None
    try:
        return _decoded_natively(payload, background=None)
    except FormatError:
        return None


def turn_upright(image: Any) -> None:
    """Apply the orientation of EXIF or XMP to an image in place.

    Records that cannot be read are ignored.
    """
    from PIL import ImageOps

    # Pillow's parsers raise nearly any exception on damaged records; damaged pixels fail again when
    # they are used.
    with suppress(Exception):
        ImageOps.exif_transpose(image, in_place=True)


def _with_8_bits(image: Any) -> Any:
    """Scale 16-bit grayscale to 8 bits: `convert` would clip values above 255."""
    import numpy as np

    return _pillow().fromarray((np.asarray(image) >> 8).astype(np.uint8))


def decoded(payload: bytes) -> np.ndarray | None:
    """Return the image as a uint8 array of shape (height, width, 3).

    The result is ``None`` if the image cannot be decoded.
    """
    import numpy as np

    image = opened(payload)
    return None if image is None else np.asarray(image)


def qr_code_share(array: np.ndarray) -> float:
    """Return the area of all detected QR codes over the area of the image.

    It is 0 if none is found or the detector fails.
    """
    import numpy as np

    cv2 = _opencv()
    area = float(array.shape[0] * array.shape[1])
    if area <= 0:
        return 0.0
    try:
        is_found, _texts, points, _codes = cv2.QRCodeDetector().detectAndDecodeMulti(array)
        if not is_found or points is None:
            return 0.0
        polygons = np.asarray(points, dtype=np.float32)
        return sum(cv2.contourArea(polygon.reshape(-1, 1, 2)) for polygon in polygons) / area
    except cv2.error:
        return 0.0


def clip_scores(model: Any, images: list[bytes], texts: list[list[str]]) -> list[float | None]:
    """Return the maximum cosine similarity of each image with the texts of its sample.

    It is ``None`` without text or a decodable image.
    """
    scores: list[float | None] = []
    for start in range(0, len(images), _CLIP_BATCH):
        batch = slice(start, start + _CLIP_BATCH)
        scores += _scores_of_batch(model, images[batch], texts[batch])
    return scores


def _scores_of_batch(model: Any, images: list[bytes], texts: list[list[str]]) -> list[float | None]:
    import numpy as np

    scores: list[float | None] = [None] * len(images)
    pending: list[tuple[int, Any, list[int]]] = []
    vocabulary: dict[str, int] = {}
    for index, (payload, lines) in enumerate(zip(images, texts, strict=True)):
        stripped = [line.strip() for line in lines if line.strip()]
        image = opened(payload) if stripped else None
        if image is not None:
            pending.append(
                (index, image, [vocabulary.setdefault(line, len(vocabulary)) for line in stripped])
            )
    if not pending:
        return scores
    image_vectors = _normalized(
        model.embed_images([image for _, image, _ in pending]), len(pending), "embed_images"
    )
    text_vectors = _normalized(model.embed_texts(list(vocabulary)), len(vocabulary), "embed_texts")
    for vector, (index, _image, lines) in zip(image_vectors, pending, strict=True):
        scores[index] = float(np.max(text_vectors[lines] @ vector))
    return scores


def _normalized(vectors: Any, count: int, method: str) -> np.ndarray:
    import numpy as np

    array = np.asarray(vectors, dtype=np.float64)
    if array.ndim != 2 or len(array) != count:
        raise ValueError(
            f"`{method}` returned an array of shape {array.shape} for {count} inputs; "
            f"it must be ({count}, n)"
        )
    lengths = np.linalg.norm(array, axis=1, keepdims=True)
    return array / np.where(lengths == 0, 1, lengths)


def phash(image: bytes) -> str:
    """Return the perceptual hash of an encoded image.

    It equals ``str(imagehash.phash(image))`` except for 16-bit gray. Similar images have hashes
    that differ in few bits: ``(int(one, 16) ^ int(other, 16)).bit_count()`` is the distance of two
    hashes. As with imagehash and Pillow, the orientation is applied to a TIFF and to no other
    format, and alpha is dropped. The GIL is released while the image is decoded.

    Args:
        image: bytes of a JPEG, PNG, WebP, GIF, BMP or TIFF file.

    Returns:
        64 bits as 16 hexadecimal digits.

    Raises:
        FormatError: If the image cannot be decoded.

    Examples:
        >>> import io
        >>> from PIL import Image
        >>> from shardmill.curate import phash
        >>> content = io.BytesIO()
        >>> Image.new("L", (64, 64), "gray").save(content, "PNG")
        >>> phash(content.getvalue())
        '8000000000000000'
    """
    return f"{_native.phash(image):016x}"


def can_write(codec: str) -> bool:
    """Tell whether Pillow writes images in ``codec``."""
    image_module = _pillow()
    image_module.init()
    return codec.upper() in image_module.SAVE


def reencoded(batch: Any, codec: str, quality: int, max_side: int | None) -> Any:
    """Return ``batch`` with each image stored in ``codec``.

    An image that cannot be decoded gets an error.
    """
    pa = pyarrow_for("this stage")
    table = pa.Table.from_batches([pa.record_batch(batch)])
    columns = {
        name: table.column(name).to_pylist()
        for name in ("binary_content", "content_type", "materialize_error")
    }
    is_image = [modality == "image" for modality in table.column("modality").to_pylist()]
    content_type = _pillow().MIME.get(codec.upper(), f"image/{codec}")
    for row, payload in enumerate(columns["binary_content"]):
        if payload is None or not is_image[row]:
            continue
        content, error = _reencoded(payload, codec, quality, max_side)
        columns["binary_content"][row] = content
        if error is None:
            columns["content_type"][row] = content_type
        else:
            columns["materialize_error"][row] = error
    for name, values in columns.items():
        index = table.schema.get_field_index(name)
        table = table.set_column(
            index, table.schema.field(index), pa.array(values, table.schema.field(index).type)
        )
    return table


def _reencoded(
    payload: bytes, codec: str, quality: int, max_side: int | None
) -> tuple[bytes | None, str | None]:
    """Return one image as the native stage would encode it, or the error."""
    try:
        image = _resized(payload, codec, max_side)
    except Exception:  # as in `opened`
        return None, "failed to decode image"
    if image is None:
        return payload, None
    target = io.BytesIO()
    try:
        image.save(target, format=codec.upper(), quality=quality)
    except Exception as error:
        return None, f"failed to encode image as {codec}: {error}"
    return target.getvalue(), None


def _resized(payload: bytes, codec: str, max_side: int | None) -> Any:
    """Return an image upright, on white unless it keeps its codec, never larger.

    The result is ``None`` if nothing has to change.
    """
    try:
        image = _upright(payload, codec, max_side)
    except Exception as error:
        if not _is_too_large(error):
            raise
        image = _decoded_natively(payload)
    if image is None or max_side is None or max(image.size) <= max_side:
        return image
    width, height = image.size
    return image.resize(_contained(width, height, max_side), _pillow().Resampling.LANCZOS)


def _upright(payload: bytes, codec: str, max_side: int | None) -> Any:
    """Return an image upright; ``None`` if nothing has to change.

    Nothing has to change if it is stored in ``codec``, upright, and not larger than ``max_side``.
    Transparent pixels are composited on white, unless the image is already stored in ``codec`` and
    ``codec`` keeps them.
    """
    image_module = _pillow()
    from PIL import ImageOps

    with image_module.open(io.BytesIO(payload)) as stored:
        is_upright = stored.getexif().get(0x0112, 1) not in range(2, 9)
        if (
            stored.format == codec.upper()
            and is_upright
            and (max_side is None or max(stored.size) <= max_side)
        ):
            return None
        upright = ImageOps.exif_transpose(stored)
        image = _with_8_bits(upright) if upright.mode.startswith("I;16") else upright
        if (
            image.has_transparency_data
            and stored.format in _WITH_ALPHA
            and stored.format == codec.upper()
        ):
            return image.convert("RGBA")
        if image.has_transparency_data:
            white = image_module.new("RGBA", image.size, "white")
            image = image_module.alpha_composite(white, image.convert("RGBA"))
        return image.convert("RGB")


def _contained(width: int, height: int, largest: int) -> tuple[int, int]:
    """Return the size that ``ImageOps.contain`` chooses, but at least one pixel."""
    if width >= height:
        return largest, max(1, round(height / width * largest))
    return max(1, round(width / height * largest)), largest
