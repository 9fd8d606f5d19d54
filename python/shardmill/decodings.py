"""What values stand for that a file keeps as texts or bytes.

A format says so in the metadata of a field. Where rows become Python objects (rows, ``output="rows"`` and ``"dict"``), such values are
decoded; tensors, arrays and Arrow batches have them as the file does. The invariant: nothing that a file holds is ever run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from shardmill.errors import FormatError

#: Makes an object of a value that is not null.
Decoding = Callable[[Any], Any]


def json_value(text: str) -> Any:
    """The value of a JSON text, which may begin with a byte order mark.

    Raises:
        ValueError: when it is no JSON.
    """
    try:
        return json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise FormatError(
            f"a value is no JSON: {error}: {text[:40]!r}\nhint: output='arrow' and Dataset.take() give the text as it is"
        ) from error


def _of_text(name: str) -> Decoding | None:
    return json_value if name == "json" else None


#: By key of the metadata: what finds the decoding that a value of it names.
DECODINGS: dict[str, Callable[[str], Decoding | None]] = {
    "shardmill.decoding": _of_text,
    "mds.encoding": {"json": json_value, "str_int": int, "str_float": float, "str_decimal": Decimal}.get,
}


def decodings_of(metadata: Sequence[Mapping[str, str]]) -> list[Decoding | None]:
    """The decoding of each field, by its metadata; ``None`` for one whose values are what they stand for."""
    return [_decoding_of(field) for field in metadata]


def _decoding_of(field: Mapping[str, str]) -> Decoding | None:
    return next((DECODINGS[key](value) for key, value in field.items() if key in DECODINGS), None)


def decoded(values: Sequence[Any], decoding: Decoding | None) -> Sequence[Any]:
    """``values`` with ``decoding`` done to those that are not null."""
    return values if decoding is None else [None if value is None else decoding(value) for value in values]
