"""The explanation of a batch as a table."""

from __future__ import annotations

from typing import Any

from shardmill._extras import pyarrow_for
from shardmill.errors import OptionError


def table_of(answer: dict[str, Any], step: int) -> Any:
    """Return the rows of an explanation as a table; see ``Loader.explain_table``."""
    pa = pyarrow_for("explain_table")
    parts: list[Any] | None = answer.get("packs", answer["rows"])
    if parts is None:
        raise OptionError(f"step {step} is not in the epoch, which has {answer['steps']} steps")
    integer = pa.int64()
    if "packs" in answer:
        names = ("pack", "file", "row", "first_token", "tokens")
        rows = [(number, *piece) for number, pack in enumerate(parts) for piece in pack]
    else:
        names = ("row_of_batch", "file", "row")
        pairs = ((file, first + row) for file, first, count in parts for row in range(count))
        rows = [(number, *pair) for number, pair in enumerate(pairs)]
    schema = pa.schema([(name, pa.string() if name == "file" else integer) for name in names])
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return pa.table(
        [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)], schema
    )
