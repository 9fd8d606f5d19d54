"""Sizes and counts of images, as arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from shardmill.errors import OptionError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

ImageFunction = Callable[["npt.NDArray[np.int32]", "npt.NDArray[np.int32]"], Mapping[str, Any]]

#: Longest side of an image that is decoded, and of a patch, a tile and a target.
MOST_SIDE = 65_535

_MOST = 2**31 - 1


class ImageCounts(NamedTuple):
    """Sizes and counts of images: int32 arrays of equal shape."""

    height: npt.NDArray[np.int32]
    width: npt.NDArray[np.int32]
    tokens: npt.NDArray[np.int32]
    patches: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int32]
    cols: npt.NDArray[np.int32]


def sides_of(heights: npt.ArrayLike, widths: npt.ArrayLike) -> npt.NDArray[np.int32]:
    """Return heights and widths as one array.

    Raises:
        ValueError: If they are not integers or their shapes differ.
    """
    import numpy as np

    pair = [np.asarray(heights), np.asarray(widths)]
    for name, array in zip(("heights", "widths"), pair, strict=True):
        if array.size and array.dtype.kind not in "iu":
            raise OptionError(f"{name} must be integers, not {array.dtype}")
    if pair[0].shape != pair[1].shape:
        raise OptionError(
            f"heights and widths must have the same shape, not {pair[0].shape} and {pair[1].shape}"
        )
    # A side outside of these limits is refused like the limits themselves.
    return np.stack(
        [np.clip(array.astype(np.int64), 0, MOST_SIDE + 1).astype(np.int32) for array in pair]
    )


def counted(
    function: ImageFunction, name: str, sides: npt.NDArray[np.int32], *, has_grid: bool
) -> npt.NDArray[np.int32]:
    """Return what a function says about images, as six rows in the order of ``ImageCounts``.

    Images that are not decoded are not given to the function, and are 0.

    Args:
        function: returns a mapping with arrays, those of rows and columns only with a grid.
        name: name of the function, for errors.
        sides: heights and widths of images.
        has_grid: whether an image has rows and columns of patches or tiles.

    Raises:
        ValueError: If the function returns something else.
    """
    import numpy as np

    numbers = np.zeros((6, sides.shape[1]), np.int32)
    valid = ((sides >= 1) & (sides <= MOST_SIDE)).all(0)
    if valid.any():
        numbers[:, valid] = _called(function, name, sides[:, valid], has_grid)
    return numbers


def _called(
    function: ImageFunction, name: str, sides: npt.NDArray[np.int32], has_grid: bool
) -> npt.NDArray[np.int64]:
    import numpy as np

    result = function(*sides)
    names = ["height", "width", "tokens", *(["rows", "cols"] if has_grid else [])]
    if not isinstance(result, Mapping) or any(key not in result for key in names):
        found = list(result) if isinstance(result, Mapping) else type(result).__name__
        raise OptionError(f"{name} must return a dict with {', '.join(names)}, not {found}")
    length = sides.shape[1]
    columns = {key: _column(f"{key} of {name}", result[key], length) for key in names}
    ones = np.ones(length, np.int64)
    rows, cols = columns.get("rows", ones), columns.get("cols", ones)
    numbers = np.stack([*list(columns.values())[:3], rows * cols, rows, cols])
    tokens = columns["tokens"]
    wrong = (tokens > 0) & ((numbers == 0) | (numbers > _MOST)).any(0)
    if wrong.any():
        index = wrong.argmax()
        values = {key: int(column[index]) for key, column in columns.items()}
        height, width = sides[:, index]
        raise OptionError(
            f"{name} returns {values} for an image of {height} x {width} pixels\n"
            "hint: return 0 tokens for an image that has no target, and patches below 2^31"
        )
    return np.where(tokens > 0, numbers, 0)


def _column(name: str, values: Any, length: int) -> npt.NDArray[np.int64]:
    import numpy as np

    array = np.asarray(values)
    if array.shape != (length,) or array.dtype.kind not in "iu":
        raise OptionError(
            f"{name} must be an array of integers with the shape ({length},), "
            f"not of {array.dtype} with the shape {array.shape}"
        )
    if array.min() < 0 or array.max() > _MOST:
        raise OptionError(
            f"{name} must be from 0 to {_MOST}, not from {array.min()} to {array.max()}"
        )
    return array.astype(np.int64)
