"""The part of a filter that pyiceberg may use to prune files."""

from __future__ import annotations

from typing import Any

from pyiceberg import expressions as to
from pyiceberg.types import IntegerType, LongType, StringType

_OPERATORS: dict[str, Any] = {
    "==": to.EqualTo,
    "<": to.LessThan,
    "<=": to.LessThanOrEqual,
    ">": to.GreaterThan,
    ">=": to.GreaterThanOrEqual,
    "in": to.In,
}


def prunable(tree: Any, schema: Any) -> Any:
    """Return a pyiceberg condition that holds for every row that ``tree`` selects.

    It is ``AlwaysTrue`` if nothing is known. Parts that the two libraries could evaluate
    differently are not used: no negation (because of NaN), no float literal (because of precision),
    no comparison of a column with a literal of another type.
    """

    def fits(name: Any, *values: Any) -> bool:
        try:
            kind = schema.find_type(name) if isinstance(name, str) else None
        except ValueError:
            return False
        if isinstance(kind, StringType):
            return all(isinstance(value, str) for value in values)
        is_whole = isinstance(kind, IntegerType | LongType)
        return is_whole and all(
            type(value) is int and -(2**63) <= value < 2**63 for value in values
        )

    match tree:
        case {"and": parts}:
            return to.And(
                to.AlwaysTrue(), to.AlwaysTrue(), *(prunable(part, schema) for part in parts)
            )
        case {"or": parts}:
            return to.Or(
                to.AlwaysFalse(), to.AlwaysFalse(), *(prunable(part, schema) for part in parts)
            )
        case {"compare": {"column": name, "op": op, "value": value}} if op in _OPERATORS and fits(
            name, value
        ):
            return _OPERATORS[op](name, value)
        case {"is_in": {"column": name, "values": [*values], **options}} if values and fits(
            name, *values
        ):
            return (
                to.AlwaysTrue() if options.get("matches_null") else _OPERATORS["in"](name, values)
            )
    return to.AlwaysTrue()
