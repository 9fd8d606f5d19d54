"""What somebody types into the page, as an expression on rows."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

from shardmill.cli.filter_text import parse_filter
from shardmill.errors import OptionError
from shardmill.expressions import Expression, Literal, col

_LONGEST_FILTER = 10_000


def condition_of(schema: Any, *, filter_text: str = "", column: str = "", value: str = "") -> Expression | None:
    """Both the filter and the search, or None where neither is given.

    Args:
        schema: of the columns that are shown, for the type of the value.
        filter_text: as for ``--filter``.
        column: where ``value`` is searched; nothing is searched when it is empty.
        value: the whole value.

    Raises:
        OptionError: for a text that makes no sense.
    """
    condition = _filter_of(filter_text) if filter_text.strip() else None
    if not column:
        return condition
    if column not in schema.names:
        raise OptionError(f"there is no column {column!r}")
    found = col(column) == _literal(schema.field(column).type, value, column)
    return found if condition is None else condition & found


def _filter_of(text: str) -> Expression:
    if len(text) > _LONGEST_FILTER:
        raise OptionError(f"a filter has at most {_LONGEST_FILTER:,} characters")
    try:
        return parse_filter(text)
    except RecursionError:
        raise OptionError("the filter has too many parentheses inside one another") from None


def _literal(data_type: Any, value: str, column: str) -> Literal:
    """``value`` as a literal of the column's type."""
    import pyarrow.types as types

    if types.is_dictionary(data_type):
        data_type = data_type.value_type
    text = value.strip()
    try:
        if types.is_string(data_type) or types.is_large_string(data_type) or types.is_string_view(data_type):
            return value
        if types.is_boolean(data_type):
            return {"true": True, "false": False}[text.lower()]
        if types.is_integer(data_type):
            return int(text)
        if types.is_floating(data_type):
            return float(text)
        if types.is_decimal(data_type):
            return decimal.Decimal(text)
        if types.is_date(data_type):
            return datetime.date.fromisoformat(text)
        if types.is_timestamp(data_type):
            moment = datetime.datetime.fromisoformat(text)
            has_zone = data_type.tz is not None
            return moment.replace(tzinfo=moment.tzinfo or datetime.UTC) if has_zone else moment
        if types.is_time(data_type):
            return datetime.time.fromisoformat(text)
        if _is_binary(types, data_type):
            return value.encode()
    except (ValueError, KeyError, ArithmeticError):
        raise OptionError(f"{value!r} is no value of column {column!r}, which is {data_type}") from None
    raise OptionError(f"column {column!r} is {data_type}; only plain values are searched")


def _is_binary(types: Any, data_type: Any) -> bool:
    kinds = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    return any(is_kind(data_type) for is_kind in kinds)
