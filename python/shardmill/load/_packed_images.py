"""Images of packs, in arrays for all packs of a batch."""

from __future__ import annotations

from typing import Any

import numpy as np

#: Columns that packs of documents with images have.
IMAGE_INDEX = "image_index"
IMAGE_GRID = "image_grid_thw"
_OTHERS = (IMAGE_GRID, "pixel_values", "image_valid")


def joined(batch: Any) -> Any:
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
    batch.update((name, batch[name].values) for name in _OTHERS if name in batch)
    if batch["positions"].ndim > 2:
        batch["positions"] = batch["positions"].swapaxes(0, 1)
    return batch
