"""Python values for pyarrow: in the forms that it takes, and why it does not take others."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from shardmill.data._cells import without_torch
from shardmill.data._type_names import type_name

_SHOWN_LENGTH = 60

_INT64 = 2**63


def misfits(arrow: Any) -> tuple[type[Exception], ...]:
    # ArrowInvalid is a ValueError, ArrowTypeError a TypeError.
    return arrow.ArrowNotImplementedError, OverflowError, TypeError, ValueError


def is_no_time(value: Any) -> bool:
    """Return whether it is the missing time of pandas, which is a datetime."""
    return isinstance(value, datetime) and value != value


def nested(value: Any) -> Any:
    """Return what pyarrow takes.

    Arrays of a higher rank become lists of arrays of rank 1, and those of rank 0 become scalars.
    """
    value = without_torch(value)
    if is_no_time(value):
        return None
    if isinstance(value, dict):
        return {name: nested(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return (tuple if isinstance(value, tuple) else list)(map(nested, value))
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.datetime64) and value.dtype == "M8[D]":
        return value.item()
    if numpy is None or not isinstance(value, numpy.ndarray):
        return value
    if value.dtype.kind in "OSU":
        return nested(value.tolist())
    if value.ndim > 1:
        return list(map(nested, value))
    native = value.astype(value.dtype.newbyteorder("="), copy=False)
    return native if native.ndim else native[()]


def unmasked(values: Sequence[Any]) -> Sequence[Any]:
    """Return masked arrays as lists with ``None``, because pyarrow takes what is masked."""
    masked = sys.modules.get("numpy.ma")
    if masked is None or masked.MaskedArray not in set(map(type, values)):
        return values
    return [value.tolist() if isinstance(value, masked.MaskedArray) else value for value in values]


def type_of_arrays(arrow: Any, values: Sequence[Any]) -> Any:
    """Return the type of numeric arrays of one type and rank; ``None`` for others.

    Empty arrays imply it too.
    """
    kinds = {
        (getattr(value, "dtype", None), getattr(value, "ndim", 0))
        for value in values
        if value is not None
    }
    dtype, rank = kinds.pop() if len(kinds) == 1 else (None, 0)
    if dtype is None or rank == 0 or dtype.kind not in "biuf":
        return None
    data_type = arrow.from_numpy_dtype(dtype.newbyteorder("="))
    for _ in range(rank):
        data_type = arrow.list_(data_type)
    return data_type


def number_of(value: Any, *, has_bools: bool) -> Any:
    """Return the Python number of a NumPy scalar; a bool as 0 or 1, if ``has_bools``."""
    if type(value).__module__ == "numpy" and value.shape == ():
        value = value.item()
    return int(value) if has_bools and isinstance(value, bool) else value


def with_passed_bytes(values: Sequence[Any], data_type: Any) -> Sequence[Any]:
    """Return the numbers whose bytes are given.

    MosaicML's writer passes bytes of the right length through.
    """
    types = pyarrow_of_rows().types
    is_number = types.is_integer(data_type) or types.is_floating(data_type)
    if not is_number or bytes not in set(map(type, values)):
        return values
    import numpy

    dtype = numpy.dtype(data_type.to_pandas_dtype()).newbyteorder("<")
    return [
        numpy.frombuffer(value, dtype)[0].item()
        if type(value) is bytes and len(value) == dtype.itemsize
        else value
        for value in values
    ]


def first_misfit(arrow: Any, values: Sequence[Any], data_type: Any) -> int:
    """Return the index of the first value that is incompatible with those before it."""
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            arrow.array(values[:middle], type=data_type)
            low = middle
        except misfits(arrow):
            high = middle
    return low


def diagnosis(
    values: Sequence[Any], place: int, given: Any, data_type: Any, error: Exception
) -> tuple[str, str | None]:
    """Return why a value is incompatible with those before it.

    ``given`` is the value as it was passed. The second result is a hint for such values, if there
    is one.
    """
    arrow, value = pyarrow_of_rows(), values[place]
    if isinstance(error, UnicodeEncodeError):
        return "is not valid Unicode", "replace the surrogates, or encode the strings to bytes"
    if data_type is not None:
        return f"is not of type {type_name(data_type)}", None
    if isinstance(value, int) and not -_INT64 <= value < _INT64:
        hint = "convert the integers to strings, or pass schema= with a decimal type for the column"
        if 0 <= value < 2 * _INT64:
            hint = "pass schema= with the type uint64 for the column"
        return "does not fit in int64, the type of integers", hint
    try:
        arrow.array([value])
    except misfits(arrow):
        kind = type(given).__name__
        if hasattr(given, "dtype") and hasattr(given, "__len__"):
            kind += f" of {given.dtype}"
            if str(given.dtype) == "object" and given.size:
                kind += f", of which one is of type {type(given.flat[0]).__name__}"
        return (
            f"has the Python type {kind}, "
            "which has no column type (convert it to a number, string or bytes)",
            None,
        )
    return (
        "has another type than the values before it "
        f"({type_name(arrow.array(values[:place]).type)})",
        None,
    )


def misfit_text(row: int, name: str, value: Any, reason: str, hint: str) -> str:
    shown = repr(value)
    if len(shown) > _SHOWN_LENGTH:
        shown = shown[: _SHOWN_LENGTH - 1] + "…"
    return f"row {row} has the value {shown} in column {name!r}, which {reason}\nhint: {hint}"


def pyarrow_of_rows() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(
            "rows of Python objects require pyarrow\n"
            "hint: pip install 'shardmill[arrow]', "
            "or pass Arrow data of another library to write_batch()"
        ) from error
    return pyarrow
