"""Arrow data of native code as what the user's Arrow library knows."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        return None
    return pyarrow


def as_pyarrow(data: Any) -> Any:
    """``data`` as a pyarrow object without a copy; unchanged, with its Arrow PyCapsule methods, where pyarrow is not installed."""
    pyarrow = _pyarrow()
    if pyarrow is None:
        return data
    return (
        pyarrow.schema(data)
        if hasattr(data, "__arrow_c_schema__") and not hasattr(data, "num_rows")
        else pyarrow.record_batch(data)
    )


def as_pyarrow_array(data: Any) -> Any:
    """As :func:`as_pyarrow`, for chunked arrays; one chunk is a plain array."""
    pyarrow = _pyarrow()
    if pyarrow is None:
        return data
    chunked = pyarrow.chunked_array(data)
    return chunked.chunk(0) if chunked.num_chunks == 1 else chunked
