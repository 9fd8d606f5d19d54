"""The part of a filter that pyiceberg may use to prune files."""

from __future__ import annotations

from typing import Any, cast


def prunable(tree: Any, schema: Any) -> Any:
    """Return a pyiceberg condition that holds for every row that ``tree`` selects, or ``None`` if nothing is known.

    Parts that the two libraries could evaluate differently are not used: no negation (because of NaN), no float literal (because of
    precision), no comparison of a column with a literal of another type.
    """
    from pyiceberg import expressions, types

    if "and" in tree:
        parts = [part for part in (prunable(part, schema) for part in tree["and"]) if part is not None]
        return None if not parts else parts[0] if len(parts) == 1 else expressions.And(*parts)
    if "or" in tree:
        parts = [prunable(part, schema) for part in tree["or"]]
        if not parts or any(part is None for part in parts):
            return None
        return parts[0] if len(parts) == 1 else expressions.Or(*parts)
    operators: dict[str, Any] = {
        "==": expressions.EqualTo,
        "<": expressions.LessThan,
        "<=": expressions.LessThanOrEqual,
        ">": expressions.GreaterThan,
        ">=": expressions.GreaterThanOrEqual,
    }
    whole_numbers, texts = (types.IntegerType, types.LongType), (types.StringType,)

    def fits(name: str, value: Any) -> bool:
        try:
            kind = schema.find_type(name) if isinstance(name, str) else None
        except ValueError:
            return False
        if isinstance(value, int) and not isinstance(value, bool):
            return isinstance(kind, whole_numbers) and -(2**63) <= value < 2**63
        return isinstance(value, str) and isinstance(kind, texts)

    if "compare" in tree:
        name, op, value = (tree["compare"][part] for part in ("column", "op", "value"))
        return operators[op](name, value) if op in operators and fits(name, value) else None
    if "is_in" in tree and not tree["is_in"].get("matches_null"):
        name, values = tree["is_in"]["column"], tree["is_in"]["values"]
        return (
            cast(Any, expressions.In)(name, values) if values and all(fits(name, value) for value in values) else None
        )
    return None
