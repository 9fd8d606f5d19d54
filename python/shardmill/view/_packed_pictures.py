"""The images of a pack, reassembled from the pixels that a loader delivers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shardmill.curate._pictures import has_pillow
from shardmill.load._packed_images import IMAGE_SHAPES, patches_of
from shardmill.view._png import png_of

if TYPE_CHECKING:
    from shardmill import ImageTokens

#: Twice the height at which the page shows images.
_LONGEST_SIDE = 240


@dataclass(frozen=True)
class PackedPicture:
    """An image that is shown in place of its tokens.

    Attributes:
        start: place of its first placeholder in the pack.
        tokens: number of tokens from the first to the last placeholder.
        sides: height and width of its pixels.
        is_valid: whether it was decoded.
        png: the pixels, scaled down; ``None`` without Pillow.
    """

    start: int
    tokens: int
    sides: tuple[int, int]
    is_valid: bool
    png: bytes | None


def pictures_of(batch: dict[str, Any], rule: ImageTokens) -> list[PackedPicture]:
    """Return the images of a batch of one pack, whose pixels are uint8."""
    columns = (batch["image_index"].tolist(), batch["image_valid"].tolist(), _pixels(batch, rule))
    return [
        PackedPicture(
            start=start,
            tokens=tokens,
            sides=(pixels.shape[0], pixels.shape[1]),
            is_valid=is_valid,
            png=png_of(pixels, longest_side=_LONGEST_SIDE) if has_pillow() else None,
        )
        for (_, start, tokens), is_valid, pixels in zip(*columns, strict=True)
    ]


def _pixels(batch: dict[str, Any], rule: ImageTokens) -> Iterator[Any]:
    """Yield each image as ``[height, width, channels]``; of tiles, the one with the whole image."""
    import numpy as np

    values, shapes = batch["pixel_values"], batch.get(IMAGE_SHAPES.get(rule.rule, ""))
    if shapes is None:
        yield from (image.transpose(1, 2, 0) for image in values)
        return
    # Pixtral has no patches: the values of its images follow one another.
    counts = 3 * shapes.prod(1) if rule.rule == "pixtral" else patches_of(rule, shapes)
    for part, shape in zip(np.split(values, np.cumsum(counts)[:-1]), shapes.tolist(), strict=True):
        yield _whole(part, shape, rule)


def _whole(part: Any, shape: Any, rule: ImageTokens) -> Any:
    """Assemble an image from its patches, its tiles or its values."""
    if rule.rule in ("tiles", "idefics3"):
        return part[-1].transpose(1, 2, 0)
    if rule.rule == "pixtral":
        return part.reshape(3, *shape).transpose(1, 2, 0)
    rows, columns = shape[-2:]
    size = rule.parameters["patch_size"]
    if rule.rule == "siglip2":
        patches = part.reshape(rows, columns, size, size, 3)
    else:
        merge = rule.parameters["merge_size"]
        squares = part.reshape(rows // merge, columns // merge, merge, merge, 3, -1, size, size)
        # All frames are equal; the first one is shown.
        patches = squares[..., 0, :, :].transpose(0, 2, 1, 3, 5, 6, 4)
        patches = patches.reshape(rows, columns, size, size, 3)
    return patches.transpose(0, 2, 1, 3, 4).reshape(rows * size, columns * size, 3)
