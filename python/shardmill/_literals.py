"""Filter literals, in the exact and typed form that is passed to native code."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

from shardmill._option_values import checked_unicode
from shardmill.errors import UnsupportedExpressionError


def literal_of(value: Any) -> Any:
    """Return the wire form of a literal, exact and with its own type.

    Raises:
        TypeError: If no column can be compared with a value of this type.
        ValueError: If it is a string with a surrogate.
    """
    if type(value).__module__ == "numpy":
        value = _of_numpy(value)
    elif (
        type(value).__module__.startswith("pyarrow")
        and hasattr(value, "as_py")
        and value.as_py() is not None
    ):
        return scalar_literal(value)
    match value:
        case str():
            return checked_unicode(f"the string {value!r} in a filter", value)
        case bool() | int():
            # Subclasses, such as enumerations, are serialized as JSON would serialize them.
            return value
        case float():
            return value if math.isfinite(value) else {"float": str(float(value))}
        case bytes() | bytearray() | memoryview():
            return {"binary": bytes(value).hex()}
        case decimal.Decimal() if value.is_finite():
            sign, digits, exponent = value.as_tuple()
            unscaled = "".join(map(str, digits))
            return {
                "decimal": {
                    "unscaled": f"-{unscaled}" if sign else unscaled,
                    "scale": -int(exponent),
                }
            }
        case datetime.datetime():
            return _timestamp(value)
        case datetime.date():
            return {"date": value.toordinal() - _EPOCH.toordinal()}
        case datetime.time() if value.tzinfo is None:
            seconds = (value.hour * 60 + value.minute) * 60 + value.second
            return {"time": {"value": seconds * 1_000_000 + value.microsecond, "unit": "us"}}
        case datetime.timedelta():
            return _counted("duration", value // _MICROSECOND, getattr(value, "nanoseconds", 0))
        case dict() if len(value) == 1 and next(iter(value)) in ("timestamp", "duration"):
            return value
    hint = "; use .is_null()" if value is None else ""
    raise TypeError(
        "a column is compared with a bool, int, float, str, bytes, Decimal, "
        f"date, datetime, time or timedelta, not {value!r}{hint}"
    )


_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)


def _timestamp(value: datetime.datetime) -> dict[str, Any]:
    # A pandas.Timestamp has a finer resolution than its base class.
    nanoseconds = getattr(value, "nanosecond", 0)
    value = datetime.datetime.combine(value.date(), value.timetz())
    if value.utcoffset() is None:
        return _counted(
            "timestamp", (value.replace(tzinfo=None) - _EPOCH) // _MICROSECOND, nanoseconds
        )
    microseconds = (value - _EPOCH.replace(tzinfo=datetime.UTC)) // _MICROSECOND
    return _counted("timestamp", microseconds, nanoseconds, zone="UTC")


def _counted(kind: str, microseconds: int, nanoseconds: int, **more: Any) -> dict[str, Any]:
    if nanoseconds:
        return {kind: {"value": microseconds * 1000 + nanoseconds, "unit": "ns", **more}}
    return {kind: {"value": microseconds, "unit": "us", **more}}


# NumPy units per Arrow unit.
_NUMPY_UNITS = {
    "W": (604_800, "s"),
    "D": (86_400, "s"),
    "h": (3_600, "s"),
    "m": (60, "s"),
    "s": (1, "s"),
    "ms": (1, "ms"),
    "us": (1, "us"),
    "ns": (1, "ns"),
}


def _of_numpy(value: Any) -> Any:
    """Return the Python value of a NumPy scalar without converting it to a coarser type."""
    kind = value.dtype.kind
    if kind not in "mM":
        plain = value.item()
        if kind == "f" and not isinstance(plain, float):
            raise TypeError(
                f"a column is compared with floats of at most 64 bits, not {value.dtype}"
            )
        return plain
    import numpy

    unit, count = numpy.datetime_data(value.dtype)
    if numpy.isnat(value) or unit not in _NUMPY_UNITS:
        raise TypeError(f"a column is not compared with {value!r}")
    steps, arrow_unit = _NUMPY_UNITS[unit]
    total = int(value.astype("int64")) * count * steps
    return {"timestamp" if kind == "M" else "duration": {"value": total, "unit": arrow_unit}}


def scalar_literal(scalar: Any) -> Any:
    """Return a literal in wire form, exact in the scalar's unit."""
    import pyarrow as pa

    kind, types = scalar.type, pa.types
    if types.is_dictionary(kind):
        return scalar_literal(scalar.value)
    if types.is_timestamp(kind):
        return {"timestamp": {"value": scalar.value, "unit": kind.unit, "zone": kind.tz}}
    if types.is_date32(kind):
        return {"date": scalar.value}
    if types.is_date64(kind):
        return {"timestamp": {"value": scalar.value, "unit": "ms", "zone": None}}
    if types.is_time(kind):
        return {"time": {"value": scalar.value, "unit": kind.unit}}
    if types.is_duration(kind):
        return {"duration": {"value": scalar.value, "unit": kind.unit}}
    if types.is_nested(kind) or types.is_interval(kind) or isinstance(kind, pa.BaseExtensionType):
        raise UnsupportedExpressionError(f"a filter compares with no {kind}")
    return literal_of(scalar.as_py())
