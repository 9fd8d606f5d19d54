"""The rows of a column that a boolean mask or a list of row numbers selects."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardmill._option_values import row_at
from shardmill.errors import RowIndexError


def is_selection(index: Any) -> bool:
    """Whether ``index`` is a list, or a tensor or array that is not a scalar."""
    return isinstance(index, list) or getattr(index, "ndim", 0) > 0


def rows_at(selection: Any, rows: int) -> np.ndarray:
    """Return the row numbers, as int64, that a boolean mask or a list of row numbers selects.

    Raises:
        IndexError: If a row is out of range, or the mask does not have one value per row.
    """
    chosen = on_host(selection)
    if chosen.dtype != bool:
        return np.array([row_at(place, rows) for place in chosen.tolist()], dtype=np.int64)
    if chosen.shape != (rows,):
        raise RowIndexError(f"the mask has the shape {chosen.shape}, but there are {rows} rows")
    return np.flatnonzero(chosen)


def on_host(values: Any) -> np.ndarray:
    """Return a tensor, an array or a list as an array in host memory."""
    return np.asarray(values.cpu() if hasattr(values, "cpu") else values)
