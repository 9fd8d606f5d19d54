"""Conditions on rows, and their combinations."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from shardmill.errors import OptionError

#: JSON is parsed to at most 128 levels, and each level of an expression takes up to two.
MAX_DEPTH = 48

_NO_TRUTH = (
    "an expression has no truth value; use & | ~ instead of and, or, not, "
    "and .between(low, high) instead of a chained comparison such as 1 < x < 5"
)


class Condition:
    """What ``&``, ``|`` and ``~`` combine: expressions, and boolean columns."""

    def _as_expression(self) -> Expression:
        raise NotImplementedError

    def __and__(self, other: Condition) -> Expression:
        return combined("and", [self._as_expression(), condition(other)])

    def __or__(self, other: Condition) -> Expression:
        return combined("or", [self._as_expression(), condition(other)])

    # The left side is not a condition, as in ``col("x") > 1 & col("y")``.
    def __rand__(self, other: object) -> Expression:
        return condition(other) & self

    def __ror__(self, other: object) -> Expression:
        return condition(other) | self

    def __invert__(self) -> Expression:
        expression = self._as_expression()
        return Expression({"not": expression.tree}, f"~{expression.text}", expression.depth + 1)

    def __bool__(self) -> bool:
        raise TypeError(_NO_TRUTH)


@dataclass(frozen=True, eq=False, repr=False)
class Expression(Condition):
    """A condition on rows. Combine conditions, and boolean columns, with ``&``, ``|`` and ``~``."""

    tree: dict[str, Any]
    text: str
    #: Nesting depth of conditions and values.
    depth: int = 1

    def __post_init__(self) -> None:
        check_depth(self.depth)

    def _as_expression(self) -> Expression:
        return self

    def __repr__(self) -> str:
        return self.text

    def to_json(self) -> str:
        """Return the condition as JSON."""
        return json.dumps(self.tree)


def combined(kind: str, parts: list[Expression]) -> Expression:
    """Join conditions with "and" or "or".

    The result is flat, so that a filter with many parts is not deeply nested.
    """
    if len(parts) == 1:
        return parts[0]
    trees = [tree for part in parts for tree in part.tree.get(kind, [part.tree])]
    text = (" & " if kind == "and" else " | ").join(part.text for part in parts)
    return Expression(
        {kind: trees}, f"({text})", max(part.depth + (kind not in part.tree) for part in parts)
    )


def check_depth(depth: int) -> None:
    """Reject expressions that are too deep for native code to parse.

    Raises:
        OptionError: If ``depth`` exceeds the limit.
    """
    if depth > MAX_DEPTH:
        raise OptionError(f"a filter is nested more than {MAX_DEPTH} levels deep")


def condition(value: Any) -> Expression:
    """Return an expression as it is, and a boolean column as an expression.

    Raises:
        TypeError: If ``value`` is neither.
    """
    if isinstance(value, Condition):
        return value._as_expression()  # pyright: ignore[reportPrivateUsage]
    raise TypeError(
        f"expected an expression, got {value!r}\n"
        'hint: & and | bind tighter than comparisons; write (col("a") > 1) & (col("b") < 2)'
    )
