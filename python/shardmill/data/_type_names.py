"""Names of Arrow types, as errors and commands print them."""

from __future__ import annotations

from typing import Any

from shardmill._native.formats import type_names


def type_name(data_type: Any) -> str:
    """Return the name of a ``pyarrow.DataType``: that of pyarrow, without the names of list items.

    Examples:
        >>> import pyarrow as pa
        >>> type_name(pa.list_(pa.float64())), type_name(pa.timestamp("us"))
        ('list<double>', 'timestamp[us]')
    """
    import pyarrow

    (name,) = type_names(pyarrow.schema([("", data_type)]))
    return name
