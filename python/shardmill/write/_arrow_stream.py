"""Arrow data of any library as record batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from shardmill.data._arrow import ArrowRows, arrow_batches


def arrow_stream(data: Any) -> tuple[Any, Iterable[Any]]:
    """Return the schema of Arrow data, and its parts, which are read on demand.

    The schema is a ``pyarrow.Schema``, or ``None`` without pyarrow and for arrays of records. A
    failure of the source is raised by the parts. It keeps its type if the source is a data set or a
    reader of pyarrow; the C interface passes on only the message of others.

    Raises:
        TypeError: If the object has no Arrow data.
    """
    if not hasattr(data, "__arrow_c_stream__"):
        if not hasattr(data, "__arrow_c_array__"):
            raise TypeError(
                f"{type(data).__name__} holds no Arrow data: "
                "it has neither __arrow_c_stream__ nor __arrow_c_array__\n"
                "hint: collect() a LazyFrame; "
                'write each batch of ds.with_format("arrow").iter(1000) of a Hugging Face data set'
            )
        return None, [data]
    try:
        import pyarrow as pa
    except ImportError:
        return None, arrow_batches(data) if isinstance(data, ArrowRows) else [data]
    if isinstance(data, ArrowRows):
        schema = pa.schema(data)
        return schema, _with_schema(schema, arrow_batches(data))
    try:
        # An attribute such as `schema` may be anything: with pandas and DuckDB, it may be a column.
        reader = (
            data
            if isinstance(data, pa.RecordBatchReader)
            else pa.RecordBatchReader.from_stream(data)
        )
    except pa.ArrowInvalid:
        # A stream of arrays.
        return None, [data]
    return reader.schema, _with_schema(reader.schema, reader)


def _with_schema(schema: Any, batches: Iterable[Any]) -> Iterator[Any]:
    """Yield the batches, or one without rows if there are none.

    So the files get the columns of the stream.
    """
    import pyarrow as pa

    batch = None
    for batch in batches:
        yield batch
    if batch is None and len(schema):
        yield pa.RecordBatch.from_pylist([], schema=schema)
