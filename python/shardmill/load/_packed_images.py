"""Images of packs, in arrays for all packs of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from shardmill.data._sequences import mean_values

if TYPE_CHECKING:
    import numpy.typing as npt

    from shardmill.data._image_tokens import ImageTokens
    from shardmill.data._sequences import Sequences

#: Columns that packs of documents with images have.
IMAGE_INDEX = "image_index"
_PIXELS = "pixel_values"

#: The column with the shapes of images, by rule.
IMAGE_SHAPES = {
    "qwen2_vl": "image_grid_thw",
    "tiles": "image_tiles",
    "pixtral": "image_sizes",
    "idefics3": "image_tiles",
    "siglip2": "spatial_shapes",
}


def patches_of(images: ImageTokens, shapes: Any) -> npt.NDArray[np.int64]:
    """Return the patches of images by their shapes."""
    shapes = np.asarray(shapes, np.int64)
    patches = shapes.prod(1) if shapes.ndim > 1 else shapes
    return patches // images.parameters["patch_size"] ** 2 if images.rule == "pixtral" else patches


def joined(batch: Any, sequences: Sequences) -> Any:
    """Return a batch whose images are those of all packs.

    ``image_index`` gets the number of the pack as its first number, and positions of three axes
    become ``[3, packs, length]``.
    """
    index = batch[IMAGE_INDEX]
    values, counts = index.values, index.offsets[1:] - index.offsets[:-1]
    if isinstance(values, np.ndarray):
        packs = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        batch[IMAGE_INDEX] = np.concatenate([packs[:, None], values], 1)
    else:
        import torch  # pyright: ignore[reportMissingImports] - an extra, and slow to import

        packs = torch.arange(len(counts), dtype=torch.int32).repeat_interleave(counts)
        batch[IMAGE_INDEX] = torch.cat([packs[:, None], values], 1)
    shape = IMAGE_SHAPES.get(sequences.images.rule) if sequences.images else None
    names = (shape, _PIXELS, "image_valid")
    batch.update((name, batch[name].values) for name in names if name in batch)
    if sequences.image_output.pad:
        _pad(batch, sequences)
    if batch["positions"].ndim > 2:
        batch["positions"] = batch["positions"].swapaxes(0, 1)
    return batch


def _pad(batch: Any, sequences: Sequences) -> None:
    """Pad all images of a batch to the same shape, with the mean."""
    images, values = sequences.images, batch[_PIXELS]
    if images is None or images.rule not in ("pixtral", "siglip2"):
        return
    shapes = np.asarray(batch[IMAGE_SHAPES[images.rule]])
    if images.rule == "siglip2":
        patches = images.parameters["max_patches"]
        mask = np.arange(patches) < shapes.prod(1)[:, None]
        padded = _filled(values, (len(shapes), patches, values.shape[1]), sequences)
        batch["pixel_attention_mask"] = _like(values, mask.astype(np.int32))
        padded[_like(values, mask)] = values
    else:
        height, width = shapes.max(0, initial=0).tolist()
        padded = _filled(values, (len(shapes), 3, height, width), sequences)
        start = 0
        for image, (rows, columns) in zip(padded, shapes.tolist(), strict=True):
            end = start + 3 * rows * columns
            image[:, :rows, :columns] = values[start:end].reshape(3, rows, columns)
            start = end
    batch[_PIXELS] = padded


def _filled(values: Any, shape: tuple[int, ...], sequences: Sequences) -> Any:
    """Return an array of the type of the pixels, filled with the mean (0 if normalized)."""
    if isinstance(values, np.ndarray):
        padded = np.zeros(shape, values.dtype)
    else:
        padded = values.new_zeros(shape)
    if sequences.image_output.dtype == "uint8":
        mean = _like(values, np.array(mean_values(sequences), np.uint8))
        if len(shape) == 3:
            padded.reshape(-1, 3)[:] = mean
        else:
            padded[:] = mean[:, None, None]
    return padded


def _like(values: Any, array: Any) -> Any:
    """Return a NumPy array as an array of the same kind as the values."""
    if isinstance(values, np.ndarray):
        return array
    import torch  # pyright: ignore[reportMissingImports] - an extra, and slow to import

    return torch.from_numpy(array)
