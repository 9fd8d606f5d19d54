"""Checks that Arrow data holds the exact values of Python objects.

pyarrow truncates fractions, time zones and unknown fields if the column type requires it. Invariant: a writer stores exactly what it
was given, except for the rounding of floating-point numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

#: Python types that either fit a column exactly, or are rejected by pyarrow.
_STRICT = ("bool", "null")
TEXTS = ("string", "large_string", "string_view")
BINARIES = ("binary", "large_binary", "binary_view")


def first_changed(values: Sequence[Any], array: Any) -> int | None:
    """Return the index of the first value that ``array`` does not hold exactly; ``None`` if all are equal."""
    kind = str(array.type)
    if kind in TEXTS:
        return _first_of(values, (bytes, bytearray, memoryview))
    if kind in BINARIES:
        return _first_of(values, (str,))
    if kind in _STRICT or _is_inferred(values, array):
        return None
    pairs = zip(values, array.to_pylist(), strict=True)
    return next((number for number, (value, held) in enumerate(pairs) if not _is_same(value, held)), None)


def first_of_other_kind(values: Sequence[Any]) -> int | None:
    """Return the index of the first string after binaries, or binary after strings, which pyarrow takes together as binaries."""
    first = next((value for value in values if value is not None), None)
    if isinstance(first, str):
        return _first_of(values, (bytes, bytearray, memoryview))
    return _first_of(values, (str,)) if isinstance(first, bytes | bytearray | memoryview) else None


def _first_of(values: Sequence[Any], kinds: tuple[type, ...]) -> int | None:
    if not any(issubclass(kind, kinds) for kind in set(map(type, values))):
        return None
    return next(number for number, value in enumerate(values) if isinstance(value, kinds))


def _is_inferred(values: Sequence[Any], array: Any) -> bool:
    """Return whether the type of ``array`` follows from the values themselves; checked for many values at once, if possible."""
    import pyarrow

    # For mixed dates and times, or several time zones, pyarrow infers a type that loses information. It infers binaries for strings among them.
    if _has(array.type, _is_time) or _has(array.type, _is_binary):
        return False
    try:
        inferred = pyarrow.array(values)
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError):
        return False
    # Several chunks exceed the offsets of one.
    if isinstance(array, pyarrow.ChunkedArray) or isinstance(inferred, pyarrow.ChunkedArray):
        return False
    if _has(inferred.type, _is_binary):
        return False
    try:
        return array.cast(inferred.type).equals(inferred)
    except pyarrow.ArrowException:
        return False


def _is_time(data_type: Any) -> bool:
    from pyarrow import types

    return types.is_temporal(data_type) and not types.is_interval(data_type)


def _is_binary(data_type: Any) -> bool:
    from pyarrow import types

    return (
        types.is_binary(data_type)
        or types.is_large_binary(data_type)
        or types.is_binary_view(data_type)
        or types.is_fixed_size_binary(data_type)
    )


def _has(data_type: Any, is_kind: Callable[[Any], bool]) -> bool:
    """Return whether the type, or a type nested in it, is of a kind."""
    import pyarrow

    if is_kind(data_type):
        return True
    if pyarrow.types.is_dictionary(data_type):
        return _has(data_type.value_type, is_kind)
    if isinstance(data_type, pyarrow.BaseExtensionType):
        return _has(data_type.storage_type, is_kind)
    return any(_has(data_type.field(number).type, is_kind) for number in range(data_type.num_fields))


def _is_same(value: Any, held: Any) -> bool:
    if value is None or held is None:
        return value is held or _is_nan(value)
    if hasattr(value, "tolist"):
        value = value.tolist()
    elif hasattr(value, "as_py"):
        value = value.as_py()
    if isinstance(held, dict) and isinstance(value, Mapping):
        absent = [name for name in held if name not in value]
        return (
            all(name in held for name in value)
            and all(held[name] is None for name in absent)
            and all(_is_same(part, held[name]) for name, part in value.items())
        )
    if isinstance(held, list) and not isinstance(value, str | bytes):
        # Also a mapping, whose entries are pairs.
        parts = list(value.items()) if isinstance(value, Mapping) else list(value)
        return len(parts) == len(held) and all(map(_is_same, parts, held))
    if isinstance(held, tuple):
        return len(value) == len(held) and all(map(_is_same, value, held))
    if isinstance(held, float) and isinstance(value, int | float):
        return _is_rounded(value, held)
    if isinstance(held, date) and isinstance(value, date):
        return _is_same_time(value, held)
    return bool(value == held)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _is_rounded(value: float, held: float) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return value == held
    return math.isnan(held) if math.isnan(value) else math.isinf(held) == math.isinf(value)


def _is_same_time(value: date, held: date) -> bool:
    if isinstance(value, datetime) != isinstance(held, datetime):
        return False
    if isinstance(value, datetime) and isinstance(held, datetime) and (value.tzinfo is None) != (held.tzinfo is None):
        return False
    return value == held
