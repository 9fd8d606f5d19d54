"""Images for display: their format, size and thumbnails.

The format comes from the first bytes, the size from the header. Every browser can show the
thumbnails. Only thumbnails decode pixels, with Pillow, and only for the few images that a page
shows.
"""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from shardmill._native import images as native
from shardmill.curate._pixels import turn_upright

# Twice the width at which a page shows an image, so that it is sharp on high-density screens.
_LONGEST_SIDE = 560
# Decoding a larger image would take seconds and gigabytes, just for a thumbnail.
_MOST_PIXELS = 80_000_000
_JPEG_QUALITY = 80


def image_format(buffer: Any) -> str | None:
    """Return the format from the first bytes: jpeg, png, webp, gif, bmp or tiff."""
    return native.image_format(bytes(buffer[:64]))


def image_size(payload: bytes) -> tuple[int, int] | None:
    """Return width and height from the header, or None if it does not have them."""
    try:
        return native.image_size(payload)
    except ValueError:
        return None


def has_pillow() -> bool:
    """Return whether thumbnails can be created."""
    return find_spec("PIL") is not None


@dataclass(frozen=True)
class Thumbnail:
    """A small image in a format that browsers show; ``kind`` is png or jpeg."""

    kind: str
    payload: bytes
    width: int
    height: int

    @property
    def uri(self) -> str:
        """Return the image as a data URI."""
        return f"data:image/{self.kind};base64,{base64.b64encode(self.payload).decode('ascii')}"


def thumbnail_of(payload: bytes) -> Thumbnail | str:
    """Return the image for a browser, or a sentence that explains why there is none."""
    if not has_pillow():
        return "Pillow is not installed."
    from PIL import Image

    size = image_size(payload)
    if size is not None and size[0] * size[1] > _MOST_PIXELS:
        return f"Not shown: {size[0]:,} × {size[1]:,} pixels are too many for a thumbnail."
    try:
        with Image.open(io.BytesIO(payload)) as image:
            shown = _for_display(image)
        kind = "png" if shown.mode == "RGBA" else "jpeg"
        target = io.BytesIO()
        shown.save(target, format=kind, optimize=kind == "png", quality=_JPEG_QUALITY)
        return Thumbnail(kind, target.getvalue(), *shown.size)
    except Exception as error:
        return f"Pillow cannot show this image: {error or type(error).__name__}"


def _for_display(image: Any) -> Any:
    """Return the image in a mode that browsers show, at thumbnail size."""
    # Draft mode decodes a large JPEG at a fraction of its size.
    image.draft("RGB", (_LONGEST_SIDE, _LONGEST_SIDE))
    image.load()
    turn_upright(image)
    if image.mode.startswith(("I", "F")):
        # 16 or more bits per sample: scale the value range to 8 bits.
        low, high = image.getextrema()
        scale = 255.0 / (high - low) if high > low else 1.0
        image = image.point(lambda value: value * scale - low * scale).convert("L")
    if image.mode not in ("L", "RGB"):
        image = image.convert(
            "RGBA" if "transparency" in image.info or image.mode in ("LA", "PA", "RGBA") else "RGB"
        )
    image.thumbnail((_LONGEST_SIDE, _LONGEST_SIDE))
    return image
