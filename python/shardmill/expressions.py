"""Filters on columns, written as Python comparisons.

An expression means what the same one of ``pyarrow.compute`` means to ``Table.filter``: a row is kept only where the whole
expression is true. A null compares as unknown, never equal and never unequal. NaN is equal to nothing. ``is_in`` is never
unknown: a null is simply not found, and NaN finds NaN. Where pyarrow rounds or gives up, as for a 64-bit integer beside a
float, values are compared exactly.

Example:
    >>> import shardmill as sm
    >>> (sm.col("language") == "en") & ~(sm.col("words") < 10)
    ((col('language') == 'en') & ~(col('words') < 10))
"""

from __future__ import annotations

import datetime
import decimal
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from shardmill.literals import literal_of

Literal = (
    bool
    | int
    | float
    | str
    | bytes
    | decimal.Decimal
    | datetime.date
    | datetime.datetime
    | datetime.time
    | datetime.timedelta
)

# So many values of a list are shown.
_SHOWN_VALUES = 10


@dataclass(frozen=True, eq=False, repr=False)
class Expression:
    """A condition on rows. Combine with ``&``, ``|`` and ``~``."""

    tree: dict[str, Any]
    text: str

    def __and__(self, other: Expression) -> Expression:
        return Expression(_joined("and", self.tree, _expression(other).tree), f"({self.text} & {other.text})")

    def __or__(self, other: Expression) -> Expression:
        return Expression(_joined("or", self.tree, _expression(other).tree), f"({self.text} | {other.text})")

    def __invert__(self) -> Expression:
        return Expression({"not": self.tree}, f"~{self.text}")

    def __bool__(self) -> bool:
        raise TypeError("an expression has no truth value; use & | ~ instead of and, or, not")

    def __repr__(self) -> str:
        return self.text

    def to_json(self) -> str:
        """The form in which native code takes it."""
        return json.dumps(self.tree)


def _joined(kind: str, *trees: dict[str, Any]) -> dict[str, Any]:
    """Flat, so that a filter of many parts is not a deep one."""
    return {kind: [part for tree in trees for part in tree.get(kind, [tree])]}


class Column:
    """A column by name; comparing it gives an :class:`Expression`."""

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __init__(self, name: str) -> None:
        self.name = name

    def _compare(self, op: str, value: Any) -> Expression:
        if isinstance(value, Column):
            tree = {"compare_columns": {"left": self.name, "op": op, "right": value.name}}
        else:
            tree = {"compare": {"column": self.name, "op": op, "value": literal_of(value)}}
        return Expression(tree, f"({self!r} {op} {value!r})")

    def __eq__(self, value: Literal | Column) -> Expression:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._compare("==", value)

    def __ne__(self, value: Literal | Column) -> Expression:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._compare("!=", value)

    def __lt__(self, value: Literal | Column) -> Expression:
        return self._compare("<", value)

    def __le__(self, value: Literal | Column) -> Expression:
        return self._compare("<=", value)

    def __gt__(self, value: Literal | Column) -> Expression:
        return self._compare(">", value)

    def __ge__(self, value: Literal | Column) -> Expression:
        return self._compare(">=", value)

    def is_in(self, values: Iterable[Literal]) -> Expression:
        """True where the value is one of ``values``, false elsewhere, also for a null."""
        if isinstance(values, str | bytes):
            raise TypeError(f"is_in takes a list of values, not {values!r}")
        # The order of a set differs from process to process, and with it would the filter in a saved state.
        values = sorted(values, key=repr) if isinstance(values, set | frozenset) else list(values)
        tree = {"is_in": {"column": self.name, "values": [literal_of(value) for value in values]}}
        more = f" and {len(values) - _SHOWN_VALUES} more" if len(values) > _SHOWN_VALUES else ""
        return Expression(tree, f"{self!r}.is_in({values[:_SHOWN_VALUES]!r}{more})")

    def between(self, low: Literal, high: Literal) -> Expression:
        """True from ``low`` to ``high``, both included."""
        return (self >= low) & (self <= high)

    def starts_with(self, prefix: str | bytes) -> Expression:
        """True where a string or binary begins with ``prefix``."""
        if not isinstance(prefix, str | bytes):
            raise TypeError(f"a prefix is a str or bytes, not {prefix!r}")
        tree = {"starts_with": {"column": self.name, "prefix": literal_of(prefix)}}
        return Expression(tree, f"{self!r}.starts_with({prefix!r})")

    def is_null(self, *, nan_is_null: bool = False) -> Expression:
        """True where there is no value; with ``nan_is_null`` also where it is NaN."""
        if nan_is_null:
            tree = {"is_null": {"column": self.name, "nan_is_null": True}}
            return Expression(tree, f"{self!r}.is_null(nan_is_null=True)")
        return Expression({"is_null": {"column": self.name}}, f"{self!r}.is_null()")

    def is_valid(self) -> Expression:
        """True where there is a value."""
        return Expression({"not": {"is_null": {"column": self.name}}}, f"{self!r}.is_valid()")

    def is_nan(self) -> Expression:
        """True where a value is NaN, unknown where there is none."""
        return Expression({"is_nan": {"column": self.name}}, f"{self!r}.is_nan()")

    def __repr__(self) -> str:
        return f"col({self.name!r})"


def col(name: str) -> Column:
    """The column ``name``, to be compared with a literal or another column.

    Example:
        >>> import shardmill as sm
        >>> sm.col("label") == 0
        (col('label') == 0)
    """
    return Column(name)


_OPERATORS = {"==", "=", "!=", "<", "<=", ">", ">="}


def expression_of(value: Any) -> Expression:
    """``value`` as an expression.

    It may be one already, also one of ``pyarrow.compute``; a list of ``(column, op, literal)``, which is their conjunction;
    or a list of such lists, which is the disjunction of those.

    Raises:
        TypeError: for anything else.
        ValueError: for an unknown operator, or a list of another shape.
        UnsupportedExpressionError: for a function of ``pyarrow.compute`` that has no counterpart.
    """
    if isinstance(value, Expression):
        return value
    compute = sys.modules.get("pyarrow.compute")
    if compute is not None and isinstance(value, compute.Expression):
        from shardmill.integrations.arrow import tree_of

        return Expression(tree_of(value), str(value))
    if not isinstance(value, list):
        raise TypeError(f"a filter is an expression or a list of (column, op, literal), not {value!r}")
    if not value:
        raise ValueError("an empty list is no filter")
    if isinstance(value[0], list):
        parts = [expression_of(part) for part in value]
        result = parts[0]
        for part in parts[1:]:
            result = result | part
        return result
    result = _condition(value[0])
    for part in value[1:]:
        result = result & _condition(part)
    return result


def _condition(part: Any) -> Expression:
    if not (isinstance(part, tuple) and len(part) == 3):
        raise ValueError(f"a condition is (column, op, literal), not {part!r}")
    name, op, value = part
    if op == "in":
        return col(name).is_in(value)
    if op == "not in":
        return ~col(name).is_in(value)
    if op not in _OPERATORS:
        raise ValueError(f"unknown operator {op!r}; one of {sorted(_OPERATORS | {'in', 'not in'})}")
    return col(name)._compare("==" if op == "=" else op, value)


def _expression(value: Any) -> Expression:
    if not isinstance(value, Expression):
        raise TypeError(f"expected an expression, got {value!r}")
    return value
