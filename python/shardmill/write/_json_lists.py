"""Lists of one type that MDS stores as JSON."""

from __future__ import annotations

from typing import Any

from shardmill.data._cells import mds_json
from shardmill.write._exact_values import first_changed


class JsonLists:
    """Converts lists to JSON, and checks the type of their items.

    Args:
        schema: Arrow schema of one column, the lists.
    """

    def __init__(self, schema: Any) -> None:
        self._schema = schema

    def __call__(self, value: Any) -> str:
        """Return the JSON of a list.

        Raises:
            TypeError, ValueError: If the items are of another type.
        """
        import pyarrow as pa

        data_type = pa.schema(self._schema).field(0).type
        if (
            value is not None
            and first_changed([value], pa.array([value], type=data_type)) is not None
        ):
            raise ValueError(f"{data_type} cannot hold it exactly")
        return mds_json(value)
