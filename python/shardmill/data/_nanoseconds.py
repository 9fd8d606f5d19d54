"""Dates, times and durations with nanoseconds, which Python's types cannot hold, as text."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ExactTime:
    """A value with nine digits of a second.

    Its text and its ISO form are those of the types of ``datetime``.
    """

    text: str

    def __str__(self) -> str:
        return self.text

    def isoformat(self) -> str:
        """Return the ISO 8601 form of a date or time; a duration has none and stays as it is."""
        return self.text if "day" in self.text else self.text.replace(" ", "T")


def exact_time(
    scalar: Any,
) -> ExactTime | datetime.datetime | datetime.time | datetime.timedelta | None:
    """Return the value of a ``pyarrow.Scalar`` of nanoseconds.

    It has a type of ``datetime`` if that holds it, and is None for other types and for null.
    """
    import pyarrow as pa
    import pyarrow.types as types

    data_type = scalar.type
    is_moment, is_duration = types.is_timestamp(data_type), types.is_duration(data_type)
    if not (is_moment or is_duration or types.is_time64(data_type)):
        return None
    if data_type.unit != "ns" or not scalar.is_valid:
        return None
    microseconds, nanoseconds = divmod(scalar.value, 1000)
    plain = pa.duration("us") if is_duration else pa.time64("us")
    coarse = pa.timestamp("us", data_type.tz) if is_moment else plain
    value = pa.scalar(microseconds, coarse).as_py()
    return ExactTime(exact_text(value, nanoseconds)) if nanoseconds else value


def exact_text(
    value: datetime.datetime | datetime.time | datetime.timedelta, nanoseconds: int
) -> str:
    """Return ``value`` plus ``nanoseconds`` below 1000 as text with nine digits of a second."""
    if isinstance(value, datetime.timedelta):
        return f"{value}{'' if value.microseconds else '.000000'}{nanoseconds:03}"
    whole = value.isoformat(timespec="microseconds")
    digits = whole.index(".") + 7
    return f"{whole[:digits]}{nanoseconds:03}{whole[digits:]}".replace("T", " ")
