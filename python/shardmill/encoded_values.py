"""Values that a format stores as text become what they were written from."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

#: By MDS encoding.
_DECODERS: dict[str, Callable[[str], Any]] = {
    "json": json.loads,
    "str_int": int,
    "str_float": float,
    "str_decimal": Decimal,
}

#: By column, what makes a value of its text.
Decoders = dict[str, Callable[[str], Any]]


def decoders_of(encodings: Mapping[str, str], columns: Sequence[str]) -> Decoders:
    """What rows as dicts need: one function for each of ``columns`` whose values are stored as text."""
    known = {name: _DECODERS.get(encodings.get(name, "")) for name in columns}
    return {name: decoder for name, decoder in known.items() if decoder is not None}


def decode_batch(decoders: Decoders, batch: dict[str, Any]) -> dict[str, Any]:
    """``batch`` with lists of values in place of lists of texts."""
    for name, decode in decoders.items():
        batch[name] = [None if text is None else decode(text) for text in batch[name]]
    return batch


def decode_row(decoders: Decoders, row: dict[str, Any]) -> dict[str, Any]:
    """``row`` with values in place of texts."""
    for name, decode in decoders.items():
        if row[name] is not None:
            row[name] = decode(row[name])
    return row
