"""Arrow data from native code as pyarrow objects, and rows as an Arrow stream for any library."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from shardmill._extras import pyarrow_for
from shardmill._native.load import row_stream
from shardmill.errors import OptionError


@cache
def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        return None
    return pyarrow


def as_pyarrow(data: Any) -> Any:
    """Return ``data`` as a pyarrow object without a copy.

    Without pyarrow, return it unchanged, with its Arrow PyCapsule methods.
    """
    pyarrow = _pyarrow()
    if pyarrow is None:
        return data
    return (
        pyarrow.schema(data)
        if hasattr(data, "__arrow_c_schema__") and not hasattr(data, "num_rows")
        else pyarrow.record_batch(data)
    )


def as_pyarrow_array(data: Any) -> Any:
    """Return ``data`` as a pyarrow chunked array, or as a plain array if it has one chunk.

    See ``as_pyarrow``.
    """
    pyarrow = _pyarrow()
    if pyarrow is None:
        return data
    chunked = pyarrow.chunked_array(data)
    return chunked.chunk(0) if chunked.num_chunks == 1 else chunked


def arrow_batches(rows: ArrowRows) -> Iterator[Any]:
    """Return the rows, as objects with ``__arrow_c_array__``.

    A failure keeps its type, which it loses in the C interface.
    """
    return rows._arrow_batches()  # pyright: ignore[reportPrivateUsage]


class ArrowRows:
    """Rows that other libraries read through the Arrow PyCapsule interface, batch by batch."""

    def _arrow_schema(self) -> Any:
        """Return the schema of the stream, an object with ``__arrow_c_schema__``."""
        raise NotImplementedError

    def _arrow_batches(self) -> Iterator[Any]:
        """Return the rows, as objects with ``__arrow_c_array__``.

        Threads start with the first batch.
        """
        raise NotImplementedError

    def __arrow_c_schema__(self) -> Any:
        return self._arrow_schema().__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        stream = row_stream(self._arrow_schema(), self._arrow_batches())
        if requested_schema is None:
            return stream.__arrow_c_stream__()
        pyarrow = pyarrow_for("an Arrow stream with a requested schema")
        reader = pyarrow.RecordBatchReader.from_stream(stream)
        try:
            return reader.__arrow_c_stream__(requested_schema)
        except (pyarrow.ArrowException, ValueError, TypeError) as error:
            raise OptionError(
                f"the rows cannot be converted to the requested schema: {error}"
                "\nhint: read the rows with their own schema, then cast them"
            ) from error
