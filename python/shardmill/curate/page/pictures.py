"""Thumbnails for the page: image bytes enter, a data URI or the reason why there is none leaves.

This is the one place where a curation run decodes pixels without being asked for it, and only for the few images that are shown.
"""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass, field
from typing import Any

from shardmill._native import images as native

# Twice the width at which the page shows a picture, so that it is sharp on a dense screen.
_LONGEST_SIDE = 560
# Decoding a larger image takes seconds and gigabytes, for a thumbnail.
_MOST_PIXELS = 80_000_000
_BUDGET_BYTES = 3_000_000
_JPEG_QUALITY = 80


@dataclass(frozen=True)
class Thumbnail:
    """A picture that stands in the page itself."""

    uri: str
    width: int
    height: int


@dataclass(frozen=True)
class Picture:
    """An image at the size of a thumbnail, as a file that browsers show; ``kind`` is png or jpeg."""

    kind: str
    payload: bytes
    width: int
    height: int


@dataclass
class Thumbnailer:
    """Makes thumbnails until the page is full.

    Attributes:
        is_available: False where Pillow is not installed; then there are none.
    """

    left_bytes: int = _BUDGET_BYTES
    is_available: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_available = _pillow() is not None

    def thumbnail(self, payload: bytes | None) -> Thumbnail | str:
        """The picture, or a sentence that says why it cannot be shown."""
        if payload is None:
            return "There are no bytes of this image."
        if self.left_bytes <= 0 and _pillow() is not None:
            return "Not shown, to keep this page small."
        picture = picture_of(payload)
        if isinstance(picture, str):
            return picture
        uri = f"data:image/{picture.kind};base64,{base64.b64encode(picture.payload).decode('ascii')}"
        self.left_bytes -= len(uri)
        return Thumbnail(uri, picture.width, picture.height)


def picture_of(payload: bytes) -> Picture | str:
    """The image for a browser, or a sentence that says why there is none."""
    image_module = _pillow()
    if image_module is None:
        return "Pillow is not installed."
    try:
        size = native.image_size(payload)
    except ValueError:
        size = None
    if size is not None and size[0] * size[1] > _MOST_PIXELS:
        return f"Not shown: {size[0]:,} × {size[1]:,} pixels are too many for a thumbnail."
    try:
        with image_module.open(io.BytesIO(payload)) as image:
            shown = _for_display(image)
            return Picture(*_encoded(shown), *shown.size)
    except Exception as error:
        return f"Pillow cannot show this image: {error or type(error).__name__}"


def _for_display(image: Any) -> Any:
    """The image in a mode that browsers show, at the size of a thumbnail."""
    # Draft mode decodes a large JPEG at a fraction of its size.
    image.draft("RGB", (_LONGEST_SIDE, _LONGEST_SIDE))
    image.load()
    if image.mode.startswith(("I", "F")):
        # Sixteen and more bits a sample: spread what is there over eight.
        low, high = image.getextrema()
        scale = 255.0 / (high - low) if high > low else 1.0
        image = image.point(lambda value: value * scale - low * scale).convert("L")
    if image.mode not in ("L", "RGB"):
        image = image.convert("RGBA" if "transparency" in image.info or image.mode in ("LA", "PA", "RGBA") else "RGB")
    image.thumbnail((_LONGEST_SIDE, _LONGEST_SIDE))
    return image


def _encoded(image: Any) -> tuple[str, bytes]:
    target = io.BytesIO()
    if image.mode == "RGBA":
        image.save(target, format="PNG", optimize=True)
        kind = "png"
    else:
        image.save(target, format="JPEG", quality=_JPEG_QUALITY)
        kind = "jpeg"
    return kind, target.getvalue()


def _pillow() -> Any | None:
    try:
        from PIL import Image
    except ImportError:
        return None
    return Image
