"""Converts every supported form of a filter to an expression."""

from __future__ import annotations

import sys
from typing import Any

from shardmill.errors import OptionError
from shardmill.expressions._conditions import Condition, Expression, combined, condition
from shardmill.expressions._text import parse_filter
from shardmill.expressions._values import col

_OPERATORS = {"==", "=", "!=", "<", "<=", ">", ">="}


def expression_of(value: Any) -> Expression:
    """Return ``value`` as an expression.

    ``value`` is an ``Expression``, a boolean column, a string such as
    ``"quality > 0.5 and lang in ('en', 'de')"``, a ``pyarrow.compute`` expression, a list of
    ``(column, op, literal)`` tuples, which are joined with "and", or a list of such lists, which
    are joined with "or".

    Raises:
        TypeError: If ``value`` is anything else.
        OptionError: If a string is not a valid filter, with its position; if an operator is
            unknown, or a list has another form.
        UnsupportedExpressionError: If a ``pyarrow.compute`` function has no counterpart.
    """
    if isinstance(value, Condition):
        return condition(value)
    if isinstance(value, str):
        return parse_filter(value)
    compute = sys.modules.get("pyarrow.compute")
    if compute is not None and isinstance(value, compute.Expression):
        from shardmill.integrations._arrow import tree_of

        return Expression(tree_of(value), str(value))
    if not isinstance(value, list):
        raise TypeError(
            "a filter must be an expression, a str or a list of (column, op, literal), "
            f"not {value!r}"
        )
    if not value:
        raise OptionError("an empty list is not a filter")
    if isinstance(value[0], list):
        return combined("or", [expression_of(part) for part in value])
    return combined("and", [_condition(part) for part in value])


def _condition(part: Any) -> Expression:
    if not (isinstance(part, tuple) and len(part) == 3):
        raise OptionError(f"a condition must be (column, op, literal), not {part!r}")
    name, op, value = part
    if op == "in":
        return col(name).is_in(value)
    if op == "not in":
        return ~col(name).is_in(value)
    if op not in _OPERATORS:
        raise OptionError(
            f"unknown operator {op!r}; use one of "
            f"{', '.join(sorted(_OPERATORS | {'in', 'not in'}))}"
        )
    return col(name).compare("==" if op == "=" else op, value)
