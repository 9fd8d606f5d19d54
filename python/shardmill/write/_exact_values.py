"""Checks that Arrow data holds the exact values of Python objects.

pyarrow truncates fractions, time zones and unknown fields if the column type requires it.
Invariant: a writer stores exactly what it was given, except for the rounding of floating-point
numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

from shardmill.write._arrow_values import is_no_time

#: Python types that either fit a column exactly, or are rejected by pyarrow.
_STRICT = ("bool", "null")
TEXTS = ("string", "large_string", "string_view")
BINARIES = ("binary", "large_binary", "binary_view")


def first_changed(values: Sequence[Any], array: Any) -> int | None:
    """Return the index of the first value that ``array`` does not hold exactly.

    It is ``None`` if all are equal.
    """
    kind = str(array.type)
    if kind in TEXTS:
        return _first_of(values, (bytes, bytearray, memoryview))
    if kind in BINARIES:
        return _first_of(values, (str,))
    if kind in _STRICT or _is_inferred(values, array):
        return None
    pairs = zip(values, array.to_pylist(), strict=True)
    return next(
        (number for number, (value, held) in enumerate(pairs) if not _is_same(value, held)), None
    )


def first_of_other_kind(values: Sequence[Any]) -> int | None:
    """Return the index of the first string after binaries, or binary after strings.

    pyarrow takes them together as binaries.
    """
    first = next((value for value in values if value is not None), None)
    if isinstance(first, str):
        return _first_of(values, (bytes, bytearray, memoryview))
    return _first_of(values, (str,)) if isinstance(first, bytes | bytearray | memoryview) else None


def _first_of(values: Sequence[Any], kinds: tuple[type, ...]) -> int | None:
    if not any(issubclass(kind, kinds) for kind in set(map(type, values))):
        return None
    return next(number for number, value in enumerate(values) if isinstance(value, kinds))


def _is_inferred(values: Sequence[Any], array: Any) -> bool:
    """Return whether the type of ``array`` follows from the values themselves.

    Many values are checked at once, if possible.
    """
    import pyarrow

    # For mixed dates and times, or several time zones, pyarrow infers a type that loses
    # information. It infers binaries for strings among them. A NumPy array has one type.
    if not _is_numpy_time(values) and _has(array.type, ("binary", "date", "time", "duration")):
        return False
    try:
        inferred = pyarrow.array(values)
        # Several chunks exceed the offsets of one.
        is_chunked = isinstance(array, pyarrow.ChunkedArray) or isinstance(
            inferred, pyarrow.ChunkedArray
        )
        return (
            not is_chunked
            and not _has(inferred.type, ("binary",))
            and array.cast(inferred.type).equals(inferred)
        )
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError):
        return False


def _is_numpy_time(value: Any) -> bool:
    return getattr(getattr(value, "dtype", None), "kind", None) in ("M", "m")


def _has(data_type: Any, kinds: tuple[str, ...]) -> bool:
    """Return whether the type, or a type nested in it, is of one of the kinds."""
    import pyarrow

    if pyarrow.types.is_dictionary(data_type):
        return _has(data_type.value_type, kinds)
    if isinstance(data_type, pyarrow.BaseExtensionType):
        return _has(data_type.storage_type, kinds)
    if data_type.num_fields:
        return any(
            _has(data_type.field(number).type, kinds) for number in range(data_type.num_fields)
        )
    # The name of a type without fields has no names of users.
    return any(kind in str(data_type) for kind in kinds)


def _is_same(value: Any, held: Any) -> bool:
    if _is_numpy_time(value) and not value.shape:
        import pyarrow

        # NumPy has numbers in place of times of nanoseconds.
        value = pyarrow.scalar(value).as_py()
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
    return is_no_time(value) or (isinstance(value, float) and math.isnan(value))


def _is_rounded(value: float, held: float) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return value == held
    return math.isnan(held) if math.isnan(value) else math.isinf(held) == math.isinf(value)


def _is_same_time(value: date, held: date) -> bool:
    if isinstance(value, datetime) != isinstance(held, datetime):
        return False
    if (
        isinstance(value, datetime)
        and isinstance(held, datetime)
        and (value.tzinfo is None) != (held.tzinfo is None)
    ):
        return False
    return value == held
