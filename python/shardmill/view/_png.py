"""Pixels as PNG."""

from __future__ import annotations

import io
from typing import Any

NO_PILLOW = "pixels are sent as PNG, which requires Pillow\nhint: pip install pillow"


def png_of(pixels: Any, *, longest_side: int | None = None) -> bytes:
    """Return ``[height, width, channels]`` as PNG.

    The image is scaled down if a side is longer than ``longest_side``.
    """
    from PIL import Image

    image = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    if longest_side is not None:
        image.thumbnail((longest_side, longest_side))
    target = io.BytesIO()
    image.save(target, format="png", compress_level=1)
    return target.getvalue()
