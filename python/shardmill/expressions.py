"""Filters on columns, written as Python comparisons.

Comparisons follow SQL: a null is unknown, never equal and never unequal; a row is kept only where the whole expression is true.

Example:
    >>> import shardmill as sm
    >>> (sm.col("language") == "en") & ~(sm.col("words") < 10)
    ((col('language') == 'en') & ~(col('words') < 10))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Literal = bool | int | float | str


@dataclass(frozen=True, eq=False, repr=False)
class Expression:
    """A condition on rows. Combine with ``&``, ``|`` and ``~``."""

    tree: dict[str, Any]
    text: str

    def __and__(self, other: Expression) -> Expression:
        return Expression({"and": [self.tree, _expression(other).tree]}, f"({self.text} & {other.text})")

    def __or__(self, other: Expression) -> Expression:
        return Expression({"or": [self.tree, _expression(other).tree]}, f"({self.text} | {other.text})")

    def __invert__(self) -> Expression:
        return Expression({"not": self.tree}, f"~{self.text}")

    def __bool__(self) -> bool:
        raise TypeError("an expression has no truth value; use & | ~ instead of and, or, not")

    def __repr__(self) -> str:
        return self.text


class Column:
    """A column by name; comparing it gives an :class:`Expression`."""

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __init__(self, name: str) -> None:
        self.name = name

    def _compare(self, op: str, value: Literal) -> Expression:
        tree = {"compare": {"column": self.name, "op": op, "value": _literal(value)}}
        return Expression(tree, f"({self!r} {op} {value!r})")

    def __eq__(self, value: Literal) -> Expression:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._compare("==", value)

    def __ne__(self, value: Literal) -> Expression:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._compare("!=", value)

    def __lt__(self, value: Literal) -> Expression:
        return self._compare("<", value)

    def __le__(self, value: Literal) -> Expression:
        return self._compare("<=", value)

    def __gt__(self, value: Literal) -> Expression:
        return self._compare(">", value)

    def __ge__(self, value: Literal) -> Expression:
        return self._compare(">=", value)

    def is_in(self, values: list[Literal] | tuple[Literal, ...] | set[Literal]) -> Expression:
        """True where the value is one of ``values``."""
        tree = {"is_in": {"column": self.name, "values": [_literal(value) for value in values]}}
        return Expression(tree, f"{self!r}.is_in({list(values)!r})")

    def is_null(self) -> Expression:
        """True where there is no value."""
        return Expression({"is_null": {"column": self.name}}, f"{self!r}.is_null()")

    def __repr__(self) -> str:
        return f"col({self.name!r})"


def col(name: str) -> Column:
    """The column ``name``, to be compared with a literal.

    Example:
        >>> import shardmill as sm
        >>> sm.col("label") == 0
        (col('label') == 0)
    """
    return Column(name)


_OPERATORS = {"==", "=", "!=", "<", "<=", ">", ">="}


def expression_of(value: Expression | list[Any]) -> Expression:
    """``value`` as an expression; a list of ``(column, op, literal)`` is their conjunction, a list of lists a disjunction of those.

    Raises:
        ValueError: for an unknown operator or another shape.
    """
    if isinstance(value, Expression):
        return value
    if not isinstance(value, list) or not value:
        raise ValueError(f"a filter is an expression or a list of (column, op, literal), not {value!r}")
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


def _literal(value: Any) -> Literal:
    if hasattr(value, "item"):
        value = value.item()
    if hasattr(value, "isoformat"):
        value = value.isoformat()
    if isinstance(value, bool | int | float | str):
        return value
    hint = "; use .is_null()" if value is None else ""
    raise TypeError(f"a column is compared with a bool, int, float, str or date, not {value!r}{hint}")
