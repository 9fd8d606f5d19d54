"""Filters as text: ``previous_word_count > 100 and (language == 'en' or url is null)``.

A column, an operator and a literal; ``and`` binds tighter than ``or``; ``not`` and parentheses are understood. A column
with other characters than letters, digits, ``_``, ``.`` and ``-`` stands in backticks.
"""

from __future__ import annotations

import re
from typing import NoReturn

from shardmill.errors import OptionError
from shardmill.expressions import Expression, Literal, col, expression_of

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))
      | (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
      | (?P<quoted>`[^`]+`)
      | (?P<operator>==|!=|<=|>=|<|>|=)
      | (?P<mark>[(),])
      | (?P<word>[^\W\d][\w.-]*)
    )""",
    re.VERBOSE,
)
_OPERATORS = ("==", "=", "!=", "<", "<=", ">", ">=")


def parse_filter(text: str) -> Expression:
    """``text`` as an expression.

    Raises:
        OptionError: with the place where the text stops making sense.

    Example:
        >>> parse_filter("words > 100 and language == 'en'")
        ((col('words') > 100) & (col('language') == 'en'))
    """
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str, int]] = []
        self._next = 0
        place = 0
        while text[place:].strip():
            match = _TOKEN.match(text, place)
            if not match or match.lastgroup is None:
                self._fail("this is not understood", place + len(text[place:]) - len(text[place:].lstrip()))
            self._tokens.append((match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)))
            place = match.end()

    def parse(self) -> Expression:
        expression = self._or()
        if self._next < len(self._tokens):
            self._fail("`and` or `or` is expected")
        return expression

    def _or(self) -> Expression:
        expression = self._and()
        while self._take("or"):
            expression = expression | self._and()
        return expression

    def _and(self) -> Expression:
        expression = self._not()
        while self._take("and"):
            expression = expression & self._not()
        return expression

    def _not(self) -> Expression:
        if self._take("not"):
            return ~self._not()
        if self._take("("):
            expression = self._or()
            if not self._take(")"):
                self._fail("`)` is expected")
            return expression
        return self._condition()

    def _condition(self) -> Expression:
        kind, name, _ = self._peek()
        if kind not in ("word", "quoted"):
            self._fail("a column is expected")
        self._next += 1
        name = name.strip("`")
        if self._take("is"):
            is_negated = self._take("not")
            if not self._take("null"):
                self._fail("`null` is expected")
            return ~col(name).is_null() if is_negated else col(name).is_null()
        is_negated = self._take("not")
        if self._take("in"):
            values = self._values()
            return ~col(name).is_in(values) if is_negated else col(name).is_in(values)
        kind, operator, _ = self._peek()
        if is_negated or kind != "operator":
            self._fail(f"an operator is expected: {', '.join(_OPERATORS)}, in, not in, is null, is not null")
        self._next += 1
        return expression_of([(name, operator, self._literal())])

    def _values(self) -> list[Literal]:
        if not self._take("("):
            self._fail("`(` is expected")
        values = [self._literal()]
        while self._take(","):
            values.append(self._literal())
        if not self._take(")"):
            self._fail("`,` or `)` is expected")
        return values

    def _literal(self) -> Literal:
        kind, value, _ = self._peek()
        self._next += 1
        if kind == "number":
            return float(value) if any(mark in value for mark in ".eE") else int(value)
        if kind == "text":
            return re.sub(r"\\(.)", r"\1", value[1:-1])
        if kind == "word" and value.lower() in ("true", "false"):
            return value.lower() == "true"
        self._next -= 1
        hint = f"; texts stand in quotes: '{value}'" if kind == "word" else ""
        return self._fail(f"a number, a text in quotes, true or false is expected{hint}")

    def _peek(self) -> tuple[str, str, int]:
        return self._tokens[self._next] if self._next < len(self._tokens) else ("end", "", len(self._text))

    def _take(self, word: str) -> bool:
        kind, value, _ = self._peek()
        is_there = kind in ("word", "mark") and value.lower() == word
        self._next += is_there
        return is_there

    def _fail(self, problem: str, place: int | None = None) -> NoReturn:
        place = self._peek()[2] if place is None else place
        raise OptionError(f"{problem}\n  {self._text}\n  {' ' * place}^")
