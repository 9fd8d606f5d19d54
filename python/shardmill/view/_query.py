"""The arguments of a request."""

from __future__ import annotations

import datetime
import json
import re
from typing import Any
from urllib.parse import parse_qs

from shardmill.data._nanoseconds import exact_text
from shardmill.data._type_names import type_name
from shardmill.errors import OptionError
from shardmill.expressions import Expression, Literal, col, parse_filter

_LARGEST_NUMBER = 2**63 - 1
_LONGEST_FILTER = 10_000
#: Digits of a second, of which Python's times keep six.
_FRACTION = re.compile(r"[.,](\d+)")
_NANOSECOND_DIGITS = 9


class Refused(Exception):  # noqa: N818 - it is a response, not a failure
    """The response is an HTTP status and a message."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Query:
    """Arguments by name. An invalid argument raises ``Refused`` or an error of the package."""

    def __init__(self, text: str) -> None:
        try:
            self._values = parse_qs(
                text, keep_blank_values=True, max_num_fields=32, errors="strict"
            )
        except ValueError as error:
            raise Refused(400, f"the arguments cannot be read: {error}") from None

    def text(self, name: str) -> str:
        """Return the last value; empty if there is none."""
        return self._values.get(name, [""])[-1]

    def number(self, name: str, default: int | None = None) -> int:
        """Return an integer of at least 0."""
        text = self.text(name)
        if not text and default is not None:
            return default
        if not (
            text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= _LARGEST_NUMBER
        ):
            raise Refused(400, f"{name} must be an integer of at least 0, not {text[:40]!r}")
        return int(text)

    def path(self) -> list[Any]:
        """Return a column, then positions within lists and structs."""
        try:
            path = json.loads(self.text("path"))
        except (ValueError, RecursionError):
            path = None
        if (
            isinstance(path, list)
            and 0 < len(path) < 32
            and [*map(type, path)] == [str] + [int] * (len(path) - 1)
        ):
            return path
        raise Refused(400, "path must be a list of a column and positions in it")

    def condition(self, schema: Any) -> Expression | None:
        """Return the filter combined with the search for a value in a column.

        It is None if neither is given.
        """
        text, column = self.text("filter"), self.text("column")
        if len(text) > _LONGEST_FILTER:
            raise OptionError(f"a filter has at most {_LONGEST_FILTER:,} characters")
        condition = parse_filter(text) if text.strip() else None
        if not column:
            return condition
        if column not in schema.names:
            raise OptionError(f"there is no column {column!r}")
        found = col(column) == _literal(schema.field(column).type, self.text("value"), column)
        return found if condition is None else condition & found


def _literal(data_type: Any, value: str, column: str) -> Literal:
    """Return ``value`` as a literal of the column's type."""
    import pyarrow as pa
    import pyarrow.types as types

    if types.is_dictionary(data_type):
        data_type = data_type.value_type
    try:
        if types.is_timestamp(data_type):
            moment = datetime.datetime.fromisoformat(value.strip())
            moment = (
                moment.replace(tzinfo=moment.tzinfo or datetime.UTC) if data_type.tz else moment
            )
            return _with_nanoseconds(value, moment)
        if types.is_time(data_type):
            return _with_nanoseconds(value, datetime.time.fromisoformat(value.strip()))
        is_exact = any(name in str(data_type) for name in ("string", "binary"))
        return pa.scalar(value if is_exact else value.strip()).cast(data_type).as_py()
    except pa.ArrowNotImplementedError:
        raise OptionError(
            f"column {column!r} is {type_name(data_type)}; only plain values can be searched"
        ) from None
    except ValueError:
        raise OptionError(
            f"{value!r} is not a valid value of column {column!r}, which is {type_name(data_type)}"
        ) from None


def _with_nanoseconds(value: str, read: datetime.datetime | datetime.time) -> Literal:
    """Return a date or time as it was read, or as text.

    It is text if ``value`` has digits that Python does not keep.

    Raises:
        ValueError: If ``value`` has more digits than nanoseconds.
    """
    fraction = _FRACTION.search(value)
    digits = fraction[1] if fraction else ""
    if len(digits) > _NANOSECOND_DIGITS:
        raise ValueError("more than nine digits of a second")
    if not digits[6:].strip("0"):
        return read
    exact = exact_text(read, int(digits[6:].ljust(3, "0")))
    return exact.replace(" ", "T")
