"""Draws the pages: figures, photos and scans in miniature, cheap enough for 33,000 of them.

Enters: a size and a random generator. Leaves: an RGB image, or one TIFF with every page of a document.
Called by ``shards``. Invariant: the same generator state gives the same pixels.
"""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from functools import cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

# Pillow's name of each TIFF codec; quality applies to JPEG alone.
CODECS = {"jpeg": "jpeg", "raw": None, "lzw": "tiff_lzw", "deflate": "tiff_adobe_deflate"}
JPEG_QUALITY = 77

# Larger than any page of the plan plus the 512 pixels by which the grain is shifted.
_LARGEST_SIDE = 2048


def draw_page(rng: random.Random, width: int, height: int, caption: str) -> Image.Image:
    """Returns an RGB picture: a coloured gradient with paper grain, some shapes and a caption."""
    image = Image.fromarray(_gradient_with_grain(rng, width, height))
    draw = ImageDraw.Draw(image)
    for _ in range(3 + int(rng.random() * 5)):
        _draw_shape(rng, draw, width, height)
    draw.text((6, 6), caption, fill=(20, 20, 20), font=_font())
    draw.text((6, height - 18), f"{width} x {height}", fill=(20, 20, 20), font=_font())
    return image


def tiff_of(pages: Sequence[Image.Image], codec: str) -> bytes:
    """Returns one TIFF that holds all pages in order.

    Args:
        pages: At least one image.
        codec: A key of ``CODECS``.
    """
    options: dict[str, object] = {"compression": CODECS[codec]} if CODECS[codec] else {}
    if codec == "jpeg":
        options["quality"] = JPEG_QUALITY
    out = io.BytesIO()
    pages[0].save(out, format="TIFF", save_all=True, append_images=list(pages[1:]), **options)
    return out.getvalue()


def _gradient_with_grain(rng: random.Random, width: int, height: int) -> np.ndarray:
    ramp = np.arange(_LARGEST_SIDE, dtype=np.int32)
    pixels = np.empty((height, width, 3), dtype=np.uint8)
    grain = _grain()
    for channel in range(3):
        row = ramp[:width] * round(rng.random() * 190 / width * 256) >> 8
        column = ramp[:height] * round(rng.random() * 190 / height * 256) >> 8
        plane = 240 - (row[np.newaxis, :] + column[:, np.newaxis]) // 2
        top, left = int(rng.random() * 512), int(rng.random() * 512)
        pixels[:, :, channel] = plane + grain[top : top + height, left : left + width]
    return pixels


def _draw_shape(rng: random.Random, draw: ImageDraw.ImageDraw, width: int, height: int) -> None:
    left, top = int(rng.random() * width * 0.8), int(rng.random() * height * 0.8)
    right = left + 4 + int(rng.random() * width * 0.5)
    bottom = top + 4 + int(rng.random() * height * 0.5)
    colour = tuple(int(rng.random() * 256) for _ in range(3))
    kind = int(rng.random() * 4)
    if kind == 0:
        draw.ellipse((left, top, right, bottom), outline=colour, width=3)
    elif kind == 1:
        draw.rectangle((left, top, right, bottom), outline=colour, width=2)
    elif kind == 2:
        draw.line((left, bottom, (left + right) // 2, top, right, bottom), fill=colour, width=2)
    else:
        draw.pieslice((left, top, right, bottom), 0, int(rng.random() * 330) + 20, fill=colour)


@cache
def _grain() -> np.ndarray:
    # RandomState streams are frozen; those of default_rng may change between NumPy versions.
    return np.random.RandomState(20_240_418).randint(-6, 7, (_LARGEST_SIDE, _LARGEST_SIDE)).astype(np.int16)


@cache
def _font() -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default_imagefont()
