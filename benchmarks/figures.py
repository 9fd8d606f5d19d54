"""The figures of a summary, by expressions over the rounds.

``rows / median_s`` names metrics of a row's entry, ``'s1_arrow__threads_2__shardmill:rows_per_s'``
that of another one. They are computed round by round, and cells show the median. ``{entry}``,
``{case}`` (the entry without its system), ``{scenario}``, ``{setting}``, ``{system}`` and
``{figure}`` are filled in. A reference with ``*`` stands for several values. ``min``, ``max`` and
``sum`` need all of them; ``best`` and ``least`` choose the figure with the largest or smallest
median.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import reduce
from typing import Any

from benchmarks.runner.series import Series

_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


@dataclass(frozen=True)
class Row:
    """What the expressions of a line of a table refer to."""

    entry: str
    figure: str = ""

    def places(self) -> dict[str, str]:
        """Values of the places in braces."""
        case, _, system = self.entry.rpartition("__")
        scenario, _, setting = case.partition("__")
        named = {"case": case, "scenario": scenario, "setting": setting, "system": system}
        return {"entry": self.entry, **named, "figure": self.figure}


@dataclass(frozen=True)
class Figures:
    """A summary and the ``report`` block that says what is shown of it."""

    summary: Mapping[str, Any]
    block: Mapping[str, Any]

    def value(self, expression: str, row: Row | None = None) -> Series | None:
        """The values of an expression; None if something in it was not measured."""
        return self._one(ast.parse(expression.strip(), mode="eval").body, row or Row(""))

    def _one(self, node: ast.expr, row: Row) -> Series | None:
        match node:
            case ast.Constant(value=int() | float() as number):
                return Series([number])
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._one(ast.BinOp(ast.Constant(0), ast.Sub(), operand), row)
            case ast.BinOp(left=left, op=sign, right=right):
                first, second = self._one(left, row), self._one(right, row)
                if (
                    first is None
                    or second is None
                    or (isinstance(sign, ast.Div) and 0 in second.values)
                ):
                    return None
                return first.with_other(_OPERATORS[type(sign)], second)
            case ast.Call(func=ast.Name(id=name), args=args):
                found = [value for one in args for value in self._several(one, row)]
                known = [value for value in found if value is not None]
                if not known or (name in ("min", "max", "sum") and len(known) < len(found)):
                    return None
                if name in ("best", "least"):
                    chosen = (max if name == "best" else min)(known, key=lambda one: one.median)
                    words = zip(chosen.choice, *(one.choice for one in known), strict=True)
                    return replace(
                        chosen,
                        choice=tuple(word for word, *all_words in words if len(set(all_words)) > 1),
                    )
                action = {"min": min, "max": max, "sum": operator.add}[name]
                return reduce(lambda left, right: left.with_other(action, right), known)
            case ast.Name(id=text) | ast.Constant(value=str(text)):
                value = self.found(text, row)[0]
                return value and replace(value, choice=())
        raise ValueError(f"cannot read {ast.unparse(node)}")

    def _several(self, node: ast.expr, row: Row) -> Sequence[Series | None]:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return self.found(node.value, row)
        return [self._one(node, row)]

    def found(self, reference: str, row: Row) -> Sequence[Series | None]:
        """The values that a reference stands for; one None if nothing was measured."""
        text = reference.format(**row.places()) if "{" in reference else reference
        entry, is_other, metric = (
            text.partition(":")
            if "__" in text or text.startswith("machine:")
            else (row.entry, "", text)
        )
        if entry == "machine":
            value = self.summary["machine"].get(metric)
            return [None if value is None else Series([value])]
        if row.figure and not is_other:
            metric = f"{row.figure}/{metric}"
        return [
            Series(values, f"{one.get('commit')} {one.get('started_utc')}", self._words(name, key))
            for name, one in self.summary["entries"].items()
            if _is_like(name, entry)
            for key, values in one["metrics"].items()
            if _is_like(key, metric)
        ] or [None]

    def _words(self, entry: str, metric: str) -> tuple[str, ...]:
        places = Row(entry).places()
        return (
            self.named(places["system"]),
            self.named(places["setting"]),
            metric.rpartition("/")[0],
        )

    def rows(self, table: Mapping[str, Any]) -> list[Row]:
        """The lines of a table.

        Each figure has one line an entry, or one a case whose systems are columns.
        """
        names = [
            name
            for name, one in self.summary["entries"].items()
            if one["metrics"] and _matches(name, table["rows"])
        ]
        if table.get("per", "entry").startswith("case"):
            cases = {name.rpartition("__")[0]: name for name in reversed(names)}
            names = list(cases.values())[::-1]
        if not table.get("per", "entry").endswith("figure"):
            return [Row(name) for name in names]
        found = []
        for name in names:
            like = f"{name.rpartition('__')[0]}__*" if table["per"].startswith("case") else name
            metrics = [
                key
                for other, one in self.summary["entries"].items()
                if _is_like(other, like)
                for key in one["metrics"]
            ]
            found += [
                Row(name, key.removesuffix("/per_s"))
                for key in dict.fromkeys(metrics)
                if key.endswith("/per_s")
            ]
        return found

    def named(self, text: str) -> str:
        """A system or setting as it is shown."""
        return self.block.get("names", {}).get(text, text.replace("_", " "))


def _is_like(name: str, pattern: str) -> bool:
    # Brackets of names are not a pattern.
    return fnmatchcase(name, pattern.replace("[", "[[]")) if "*" in pattern else name == pattern


def _matches(name: str, patterns: str) -> bool:
    return any(_is_like(name, pattern) for pattern in patterns.split())


def three_digits(value: float) -> str:
    """A number with at least three significant digits, without an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
