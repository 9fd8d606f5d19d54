"""Rows as the pixels that a loader delivers in an epoch.

The pixels come from a ``Loader`` over the same rows, so the page shows what a training run gets:
the decoder, the resize, the random crop and the flip of that row in that epoch, and the error of an
image that cannot be decoded.
"""

from __future__ import annotations

from typing import Any

from shardmill.curate._pictures import has_pillow
from shardmill.data._images import RandomCrop
from shardmill.errors import Error
from shardmill.load._nested import Ragged
from shardmill.view._png import NO_PILLOW, png_of
from shardmill.view._query import Query, Refused
from shardmill.view._row_pages import row_page
from shardmill.view._session import Opened

#: As many as the page offers to show at once.
_MOST_ROWS = 100
#: Maximum number of images of a list that the page shows.
_MOST_ITEMS = 12
_EPOCHS = 4


def pixels_page(opened: Opened, query: Query) -> dict[str, Any]:
    """Return rows, as ``row_page``, and the epochs whose pixels are shown for each row."""
    images = opened.images
    first = query.number("epoch", 0)
    is_random = images.flip > 0 or isinstance(images.fit, RandomCrop)
    return row_page(opened, query, opened.places_of, most=_MOST_ROWS) | {
        "epoch": first,
        # Without a random crop or flip, all epochs look the same.
        "epochs": list(range(first, first + _EPOCHS)) if is_random else [first],
        "is_random": is_random,
        "column": images.column,
    }


def pixels(opened: Opened, query: Query) -> tuple[str, bytes]:
    """Return the images of ``row`` in ``epoch`` side by side in one PNG.

    The error of a bad image becomes that of the response.
    """
    row, epoch = query.number("row"), query.number("epoch", 0)
    images = opened.images
    if row >= len(opened.dataset):
        raise Refused(404, "there is no such row")
    if not has_pillow():
        raise Refused(415, NO_PILLOW)
    try:
        batch = opened.pixels_of(row, epoch)
    except Error as error:
        raise Refused(415, str(error)) from error
    pictures = _pictures(batch, images.column)
    if not pictures:
        raise Refused(404, "this row has no image")
    return "image/png", png_of(_side_by_side(pictures[:_MOST_ITEMS]))


def _pictures(batch: dict[str, Any], column: str) -> list[Any]:
    """Return the images of the only row of the batch as arrays ``[height, width, channels]``."""
    found = batch[column]
    shapes = batch.get(f"{column}__shape")
    inner = found[0]
    if shapes is None:
        # One image, or a list of images of the same size.
        return list(inner) if inner.ndim == 4 else [inner]
    if not isinstance(shapes, Ragged):
        return [inner.reshape(*shapes[0].tolist(), -1)]
    return [flat.reshape(*shape, -1) for flat, shape in zip(inner, shapes[0].tolist(), strict=True)]


def _side_by_side(pictures: list[Any]) -> Any:
    import numpy as np

    height = max(picture.shape[0] for picture in pictures)
    padded = [
        np.pad(one, ((0, height - one.shape[0]), (0, 0), (0, 0)), constant_values=255)
        for one in pictures
    ]
    return np.concatenate(padded, axis=1)
