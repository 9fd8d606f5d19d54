"""Decoding of values that a file stores as strings or bytes.

A format declares this in the metadata of a field. If rows become Python objects (rows,
``output="rows"`` and ``"dict"``), such values are decoded; tensors, arrays and Arrow batches
contain the stored values. Invariant: no content of a file is ever executed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from shardmill.errors import FormatError

#: Decodes a value that is not null.
Decoding = Callable[[Any], Any]


def json_value(text: str) -> Any:
    """Parse a JSON string, which may start with a byte order mark.

    Raises:
        ValueError: If it is not valid JSON.
    """
    try:
        return json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise FormatError(
            f"a value is not valid JSON: {error}: {text[:40]!r}\n"
            "hint: output='arrow' and Dataset.take() return the stored string"
        ) from error


def _of_text(name: str) -> Decoding | None:
    return json_value if name == "json" else None


#: By metadata key: the function that finds the decoding for its value.
DECODINGS: dict[str, Callable[[str], Decoding | None]] = {
    "shardmill.decoding": _of_text,
    "mds.encoding": {
        "json": json_value,
        "str_int": int,
        "str_float": float,
        "str_decimal": Decimal,
    }.get,
}


def decodings_of(metadata: Sequence[Mapping[str, str]]) -> list[Decoding | None]:
    """Return the decoding of each field by its metadata.

    It is ``None`` if values are stored as they are.
    """
    found = (
        (DECODINGS[key](value) for key, value in field.items() if key in DECODINGS)
        for field in metadata
    )
    return [next(decodings, None) for decodings in found]


def decoded(values: Sequence[Any], decoding: Decoding | None) -> Sequence[Any]:
    """Return ``values`` with ``decoding`` applied to those that are not null."""
    return (
        values
        if decoding is None
        else [None if value is None else decoding(value) for value in values]
    )
