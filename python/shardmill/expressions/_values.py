"""Columns, and values computed from columns.

Comparing them gives conditions, and a boolean column is one.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from shardmill._literals import literal_of
from shardmill._option_values import checked_unicode
from shardmill.expressions._conditions import Condition, Expression, check_depth

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
Number = int | float | decimal.Decimal

#: Methods by the names that polars, pandas and pyarrow give them.
_NAMES_ELSEWHERE = {
    **dict.fromkeys(("is_not_null", "notnull", "notna", "is_not_none"), "is_valid"),
    **dict.fromkeys(("isnull", "isna", "is_none"), "is_null"),
    "is_between": "between",
    **dict.fromkeys(("len", "str_len", "len_chars"), "length"),
    **dict.fromkeys(("to_lowercase", "lowercase"), "lower"),
}
# Number of list values shown in the repr.
_SHOWN_VALUES = 10


@dataclass(frozen=True, eq=False, repr=False)
class Value(Condition):
    """A column, or a value computed from columns. Comparing it gives an ``Expression``."""

    #: The name of a column, or an object for a computed value.
    tree: str | dict[str, Any]
    text: str
    #: Nesting depth of computations.
    depth: int = 1

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __post_init__(self) -> None:
        check_depth(self.depth)

    def __eq__(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, value: Literal | Value
    ) -> Expression:
        return self.compare("==", value)

    def __ne__(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, value: Literal | Value
    ) -> Expression:
        return self.compare("!=", value)

    def __lt__(self, value: Literal | Value) -> Expression:
        return self.compare("<", value)

    def __le__(self, value: Literal | Value) -> Expression:
        return self.compare("<=", value)

    def __gt__(self, value: Literal | Value) -> Expression:
        return self.compare(">", value)

    def __ge__(self, value: Literal | Value) -> Expression:
        return self.compare(">=", value)

    def __add__(self, value: Number | Value) -> Value:
        return _arithmetic(self, "+", value)

    def __radd__(self, value: Number) -> Value:
        return _arithmetic(value, "+", self)

    def __sub__(self, value: Number | Value) -> Value:
        return _arithmetic(self, "-", value)

    def __rsub__(self, value: Number) -> Value:
        return _arithmetic(value, "-", self)

    def __mul__(self, value: Number | Value) -> Value:
        return _arithmetic(self, "*", value)

    def __rmul__(self, value: Number) -> Value:
        return _arithmetic(value, "*", self)

    def __truediv__(self, value: Number | Value) -> Value:
        return _arithmetic(self, "/", value)

    def __rtruediv__(self, value: Number) -> Value:
        return _arithmetic(value, "/", self)

    def __mod__(self, value: Number | Value) -> Value:
        return _arithmetic(self, "%", value)

    def __rmod__(self, value: Number) -> Value:
        return _arithmetic(value, "%", self)

    def __neg__(self) -> Value:
        return Value(_arithmetic(-1, "*", self).tree, f"-{self.text}", self.depth + 1)

    def _as_expression(self) -> Expression:
        return Expression(self.compare("==", True).tree, self.text, self.depth + 1)

    def __repr__(self) -> str:
        return self.text

    def __getattr__(self, name: str) -> NoReturn:
        from difflib import get_close_matches

        known = [
            method for method in dir(Value) if method[0] != "_" and callable(getattr(Value, method))
        ]
        close = _NAMES_ELSEWHERE.get(name) or next(iter(get_close_matches(name, known, n=1)), None)
        hint = f"did you mean {close!r}?" if close else f"the methods are {', '.join(known)}"
        raise AttributeError(
            f"a column of a filter has no attribute {name!r}\nhint: {hint}", name=name, obj=self
        )

    def compare(self, op: str, value: Literal | Value) -> Expression:
        """Compare with ``value``, using the operator ``op``."""
        if isinstance(value, Value):
            tree = {"compare_columns": {"left": self.tree, "op": op, "right": value.tree}}
            return Expression(
                tree, f"({self.text} {op} {value.text})", max(self.depth, value.depth) + 1
            )
        return self._condition(
            "compare", f"({self.text} {op} {value!r})", op=op, value=literal_of(value)
        )

    def is_in(self, values: Iterable[Literal], *, null_is_unknown: bool = False) -> Expression:
        """True if the value is one of ``values``, else false.

        A null gives false, or unknown with ``null_is_unknown``, like ``in`` in SQL and in text
        filters, where a value is compared with each member by ``==``. Without it, as in pyarrow,
        members are rounded to float32 in columns of that type, and 0 is not -0.
        """
        if isinstance(values, str | bytes):
            raise TypeError(f"is_in expects a list of values, not {values!r}")
        # Sets iterate in a different order in each process, which would change the filter in a
        # saved state.
        values = sorted(values, key=repr) if isinstance(values, set | frozenset) else list(values)
        more = f" and {len(values) - _SHOWN_VALUES} more" if len(values) > _SHOWN_VALUES else ""
        options: dict[str, Any] = {"null_is_unknown": True} if null_is_unknown else {}
        shown = (
            f"{values[:_SHOWN_VALUES]!r}{more}{', null_is_unknown=True' if null_is_unknown else ''}"
        )
        literals = [literal_of(value) for value in values]
        return self._condition("is_in", f"{self.text}.is_in({shown})", values=literals, **options)

    def between(self, low: Literal | Value, high: Literal | Value) -> Expression:
        """True if the value is between ``low`` and ``high``, both inclusive."""
        return (self >= low) & (self <= high)

    def starts_with(self, prefix: str | bytes) -> Expression:
        """True if a string or binary value starts with ``prefix``."""
        return self._condition(
            "starts_with", f"{self.text}.starts_with({prefix!r})", prefix=_bytes_literal(prefix)
        )

    def ends_with(self, suffix: str | bytes) -> Expression:
        """True if a string or binary value ends with ``suffix``."""
        return self._condition(
            "ends_with", f"{self.text}.ends_with({suffix!r})", suffix=_bytes_literal(suffix)
        )

    def contains(self, part: str | bytes) -> Expression:
        """True if a string or binary value contains ``part``.

        ``part`` is a literal, not a pattern.
        """
        return self._condition(
            "contains", f"{self.text}.contains({part!r})", part=_bytes_literal(part)
        )

    def is_null(self, *, nan_is_null: bool = False) -> Expression:
        """True if the value is null; with ``nan_is_null`` also if it is NaN."""
        if nan_is_null:
            return self._condition(
                "is_null", f"{self.text}.is_null(nan_is_null=True)", nan_is_null=True
            )
        return self._condition("is_null", f"{self.text}.is_null()")

    def is_valid(self) -> Expression:
        """True if the value is not null."""
        is_null = self.is_null()
        return Expression({"not": is_null.tree}, f"{self.text}.is_valid()", is_null.depth + 1)

    def is_nan(self) -> Expression:
        """True if a number is NaN, unknown if it is null. Integers are never NaN."""
        return self._condition("is_nan", f"{self.text}.is_nan()")

    def lower(self) -> Value:
        """The string in lower case, by the rules of Unicode.

        Examples:
            >>> import shardmill as sm
            >>> sm.col("language").lower() == "en"
            (col('language').lower() == 'en')
        """
        return Value({"lower": self.tree}, f"{self.text}.lower()", self.depth + 1)

    def length(self) -> Value:
        """The number of characters of a string, bytes of a binary value, or elements of a list."""
        return Value({"length": self.tree}, f"{self.text}.length()", self.depth + 1)

    def _condition(self, kind: str, text: str, **options: Any) -> Expression:
        return Expression({kind: {"column": self.tree, **options}}, text, self.depth + 1)


def col(name: str) -> Value:
    """Return the column ``name`` for use in a filter. A boolean column is a condition by itself.

    Examples:
        >>> import shardmill as sm
        >>> sm.col("label") == 0
        (col('label') == 0)
        >>> sm.col("is_valid") & ~sm.col("is_test")
        (col('is_valid') & ~col('is_test'))
    """
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"the name of a column must be a str, not {name!r}")
    return Value(checked_unicode(f"the column name {name!r}", name), f"col({name!r})")


def _arithmetic(left: Number | Value, op: str, right: Number | Value) -> Value:
    for side in (left, right):
        if isinstance(side, bool) or not isinstance(side, Value | int | float | decimal.Decimal):
            side = literal_of(side)
            if isinstance(side, bool) or not isinstance(side, int | float):
                raise TypeError(f"`{op}` takes numbers, not {side!r}")
    trees = [
        side.tree if isinstance(side, Value) else {"literal": literal_of(side)}
        for side in (left, right)
    ]
    depth = max(side.depth for side in (left, right) if isinstance(side, Value)) + 1
    return Value({"arithmetic": [op, *trees]}, f"({left!r} {op} {right!r})", depth)


def _bytes_literal(part: str | bytes) -> Any:
    if not isinstance(part, str | bytes):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a part of a string must be a str or bytes, not {part!r}")
    return literal_of(part)
