"""Filters as text, in the notation of SQL: ``quality > 0.5 and lang in ('en', 'de')``.

    condition  = condition "or" condition | condition "and" condition | "not" condition
               | "(" condition ")" | test
               | column | "true" | "false"                  a column that is boolean
    test       = value ("=" | "==" | "!=" | "<>" | "<" | "<=" | ">" | ">=") value
               | value ["not"] "between" value "and" value
               | value ["not"] "in" "(" constant {"," constant} ")"
               | value "is" ["not"] "null"
               | ("starts_with" | "ends_with" | "contains") "(" value "," string ")"
               | "is_nan" "(" value ")"
    value      = value ("+" | "-" | "*" | "/" | "%") value | "-" value | "(" value ")"
               | ("lower" | "length") "(" value ")" | column | constant
    constant   = number | string | "true" | "false"
    string     = "'" characters "'"             with '' for a quote
    column     = name {"." name} | '"' characters '"' | "`" characters "`"

Keywords and functions may be in upper case. Operators bind as in SQL: ``*``, ``/`` and ``%`` before
``+`` and ``-``, those before comparisons, then ``not``, ``and``, ``or``.
"""

from __future__ import annotations

import math
import operator
import re
import unicodedata
from collections.abc import Callable
from typing import NoReturn

from shardmill.errors import OptionError
from shardmill.expressions._conditions import MAX_DEPTH, Expression, combined, condition
from shardmill.expressions._values import Literal, Value, col

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))
      | (?P<string>'(?:[^']|'')*')
      | (?P<quoted>"(?:[^"]|"")+"|`[^`]+`)
      | (?P<operator>==|!=|<>|<=|>=|<|>|=)
      | (?P<mark>[-+*/%(),])
      | (?P<word>[^\W\d]\w*(?:\.\w+)*)
    )""",
    re.VERBOSE,
)
_BLANK = re.compile(r"\s*")
_OPERATORS = {"=": "==", "<>": "!="}
_COMPARED = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_KEYWORDS = {"and", "or", "not", "in", "is", "between", "null", "true", "false"}
#: Number of arguments.
_FUNCTIONS = {"starts_with": 2, "ends_with": 2, "contains": 2, "is_nan": 1, "lower": 1, "length": 1}
_COMPUTED = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": math.fmod,
}
#: What other languages write, and the word for it.
_WORDS = {"&": "and", "|": "or", "!": "not", "~": "not"}
_PATTERNS = ("like", "ilike", "rlike", "glob", "regexp", "similar")
_LONGEST_NUMBER = 10**76
#: Number of characters that an error shows on each side of its position.
_SHOWN = 60

_Node = Expression | Value | Literal
_Parse = Callable[[], Expression | Value | Literal]


def parse_filter(text: str) -> Expression:
    """Parse ``text`` as an expression. The module's documentation has the grammar.

    Raises:
        OptionError: If the syntax is not valid. The message shows the position.

    Examples:
        >>> parse_filter("words > 100 and language = 'en'")
        ((col('words') > 100) & (col('language') == 'en'))
    """
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str, int]] = []
        self._next = 0
        self._depth = 0
        end = len(text.rstrip())
        place = 0
        while place < end:
            match = _TOKEN.match(text, place)
            if not match or match.lastgroup is None:
                blank = _BLANK.match(text, place)
                self._unreadable(blank.end() if blank else place)
            self._tokens.append(
                (match.lastgroup, match[match.lastgroup], match.start(match.lastgroup))
            )
            place = match.end()

    def parse(self) -> Expression:
        expression = self._condition(self._or, 0)
        if self._next < len(self._tokens):
            hint = ""
            if self._next == 1 and self._peek()[0] == "word":
                hint = (
                    "; a name with spaces takes double quotes: "
                    f'"{self._tokens[0][1]} {self._peek()[1]}"'
                )
            self._fail(f"`and` or `or` is expected{hint}")
        return expression

    # Each method parses operators that bind at least as tightly as its name says. Whether the
    # result is a condition or a value is known only after parsing: both may be in parentheses.

    def _or(self) -> _Node:
        return self._joined("or", self._and)

    def _and(self) -> _Node:
        return self._joined("and", self._not)

    def _joined(self, word: str, parse: _Parse) -> _Node:
        start = self._place()
        node = parse()
        if not self._sees(word):
            return node
        parts = [self._as_condition(node, start)]
        while self._take(word):
            parts.append(self._condition(parse, self._place()))
        return combined(word, parts)

    def _not(self) -> _Node:
        if not self._take("not"):
            return self._comparison()
        self._enter()
        condition = ~self._condition(self._not, self._place())
        self._depth -= 1
        return condition

    def _comparison(self) -> _Node:
        start = self._place()
        node = self._sum()
        kind, token, _ = self._peek()
        if kind == "operator":
            self._next += 1
            right_start = self._place()
            right = self._as_value(self._sum(), right_start)
            condition = self._compared(
                self._as_value(node, start), _OPERATORS.get(token, token), right, start
            )
            if self._peek()[0] == "operator":
                self._fail("comparisons cannot be chained; use `between` or `and`")
            return condition
        if self._take("is"):
            is_negated = self._take("not")
            is_boolean = self._sees("true") or self._sees("false")
            hint = (
                "; a boolean column is a condition by itself: `a` or `not a`" if is_boolean else ""
            )
            self._expect("null", f"`null` or `not null` is expected{hint}")
            value = self._as_computed(node, start)
            return value.is_valid() if is_negated else value.is_null()
        is_negated = self._take("not")
        if any(map(self._sees, _PATTERNS)):
            self._fail(
                "there are no patterns; "
                "use starts_with(a, 'x'), ends_with(a, 'x') or contains(a, 'x')"
            )
        if self._take("in"):
            condition = self._as_computed(node, start).is_in(
                self._constants(), null_is_unknown=True
            )
        elif self._take("between"):
            value, low_start = self._as_value(node, start), self._place()
            low = self._as_value(self._sum(), low_start)
            self._expect("and", "`and` is expected between the bounds")
            high_start = self._place()
            high = self._as_value(self._sum(), high_start)
            condition = self._compared(value, ">=", low, start) & self._compared(
                value, "<=", high, start
            )
        elif is_negated:
            return self._fail("`in` or `between` is expected")
        else:
            return node
        return ~condition if is_negated else condition

    def _compared(
        self, left: Value | Literal, op: str, right: Value | Literal, start: int
    ) -> Expression:
        if isinstance(left, Value):
            return left.compare(op, right)
        if isinstance(right, Value):
            return right.compare(MIRRORED[op], left)
        kinds = [_kind(side) for side in (left, right)]
        if kinds[0] != kinds[1]:
            self._fail(f"{kinds[0]} cannot be compared with {kinds[1]}", start)
        return _constant(_COMPARED[op](left, right))

    def _constants(self) -> list[Literal]:
        self._expect("(", "`(` is expected")
        constants = [self._constant()]
        while self._take(","):
            constants.append(self._constant())
        self._expect(")", "`,` or `)` is expected")
        return constants

    def _constant(self) -> Literal:
        start = self._place()
        value = self._sum()
        if isinstance(value, Expression | Value):
            self._fail(f"a constant is expected{self._hint(start)}", start)
        return value

    def _sum(self) -> _Node:
        return self._computed("+-", lambda: self._computed("*/%", self._unary))

    def _computed(self, marks: str, parse: _Parse) -> _Node:
        start = self._place()
        node = parse()
        while (token := self._peek())[0] == "mark" and token[1] in marks:
            left = self._as_number(node, start, token[1])
            self._next += 1
            right_start = self._place()
            right = self._as_number(parse(), right_start, token[1])
            node = self._calculated(left, token[1], right, token[2])
        return node

    def _calculated(
        self, left: Value | float, op: str, right: Value | float, place: int
    ) -> Value | float:
        if op == "%" and isinstance(left, int) and isinstance(right, int) and right:
            # With the sign of the dividend. `fmod` rounds large integers.
            return int(math.copysign(1, left)) * (abs(left) % abs(right))
        try:
            if op == "%" and (isinstance(left, Value) or isinstance(right, Value)):
                return left % right
            result = _COMPUTED[op](left, right)  # pyright: ignore[reportArgumentType]
        except (ZeroDivisionError, OverflowError, ValueError) as error:
            return self._fail(str(error), place)
        if isinstance(result, int) and abs(result) >= _LONGEST_NUMBER:
            self._fail("the number is too large", place)
        return result

    def _unary(self) -> _Node:
        if not self._take("-"):
            return self._primary()
        self._enter()
        start = self._place()
        value = self._as_number(self._unary(), start, "-")
        self._depth -= 1
        return -value

    def _primary(self) -> _Node:
        kind, token, place = self._peek()
        self._next += 1
        if kind == "number":
            is_float = any(mark in token for mark in ".eE")
            if not is_float and len(token) > 76:
                self._fail("the number is too large", place)
            return float(token) if is_float else int(token)
        if kind == "string":
            return token[1:-1].replace("''", "'")
        if kind == "quoted":
            return col(token[1:-1].replace('""', '"') if token[0] == '"' else token[1:-1])
        if kind == "word" and token.lower() in ("true", "false"):
            return token.lower() == "true"
        if kind == "word" and self._sees("("):
            return self._call(token, place)
        if kind == "word" and token.lower() not in _KEYWORDS:
            return col(token)
        if (kind, token) == ("mark", "("):
            self._enter()
            node = self._or()
            self._expect(")", "`)` is expected")
            self._depth -= 1
            return node
        self._next -= 1
        if token.lower() == "null":
            self._fail("a null equals nothing; use `is null` or `is not null`")
        return self._fail("a column, a constant, a function or `(` is expected")

    def _call(self, name: str, place: int) -> Expression | Value:
        function = name.lower()
        if function not in _FUNCTIONS:
            from difflib import get_close_matches

            near = get_close_matches(function, _FUNCTIONS, 1)
            hint = (
                f"; did you mean `{near[0]}`?" if near else f"; there are {', '.join(_FUNCTIONS)}"
            )
            self._fail(f"there is no function `{name}`{hint}", place)
        self._take("(")
        self._enter()
        start = self._place()
        value = self._as_computed(self._sum(), start)
        if _FUNCTIONS[function] == 1:
            result = getattr(value, function)()
        else:
            self._expect(",", "`,` and a string are expected")
            kind, token, _ = self._peek()
            if kind != "string":
                self._fail(f"a string in single quotes is expected{self._hint(self._place())}")
            self._next += 1
            result = getattr(value, function)(token[1:-1].replace("''", "'"))
        self._expect(")", "`)` is expected")
        self._depth -= 1
        return result

    def _condition(self, parse: _Parse, start: int) -> Expression:
        return self._as_condition(parse(), start)

    def _as_condition(self, node: _Node, start: int) -> Expression:
        if isinstance(node, Expression):
            return node
        if isinstance(node, bool):
            return _constant(node)
        if isinstance(node, Value) and isinstance(node.tree, str):
            return condition(node)
        expected = ", ".join(
            ("=", "!=", "<", "<=", ">", ">=", "in", "between", "is null", "is not null")
        )
        place = self._place() if isinstance(node, Value) else start
        return self._fail(f"a comparison is expected: {expected}", place)

    def _as_value(self, node: _Node, start: int) -> Value | Literal:
        return (
            self._fail("a value is expected, not a condition", start)
            if isinstance(node, Expression)
            else node
        )

    def _as_computed(self, node: _Node, start: int) -> Value:
        return node if isinstance(node, Value) else self._fail("a column is expected", start)

    def _as_number(self, node: _Node, start: int, op: str) -> Value | float:
        if isinstance(node, Value | float) or (
            isinstance(node, int) and not isinstance(node, bool)
        ):
            return node
        return self._fail(f"`{op}` takes numbers", start)

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._fail(f"the filter is nested more than {MAX_DEPTH} levels deep")

    def _hint(self, place: int) -> str:
        kind, token = next(
            ((kind, token) for kind, token, start in self._tokens if start == place), ("end", "")
        )
        if kind == "quoted":
            return f"; in filters, strings take single quotes: '{token[1:-1]}'"
        return f"; put strings in quotes: '{token}'" if kind == "word" else ""

    def _peek(self) -> tuple[str, str, int]:
        return (
            self._tokens[self._next]
            if self._next < len(self._tokens)
            else ("end", "", len(self._text))
        )

    def _place(self) -> int:
        return self._peek()[2]

    def _sees(self, word: str) -> bool:
        kind, token, _ = self._peek()
        return kind in ("word", "mark") and token.lower() == word

    def _take(self, word: str) -> bool:
        is_there = self._sees(word)
        self._next += is_there
        return is_there

    def _expect(self, word: str, problem: str) -> None:
        if not self._take(word):
            self._fail(problem)

    def _unreadable(self, place: int) -> NoReturn:
        mark = self._text[place]
        if mark in "'\"`":
            self._fail("the closing quote is missing", place)
        hint = f"; write `{_WORDS[mark]}`" if mark in _WORDS else ""
        self._fail(f"{mark!r} is not expected here{hint}", place)

    def _fail(self, problem: str, place: int | None = None) -> NoReturn:
        place = self._place() if place is None else place
        start = max(place - _SHOWN, 0)
        shown = re.sub(r"\s", " ", self._text[start : place + _SHOWN])
        width = sum(map(_width, shown[: place - start]))
        raise OptionError(f"{problem}\n  {shown}\n  {' ' * width}^")


def _constant(truth: bool) -> Expression:
    return Expression({"constant": truth}, str(truth))


def _kind(constant: Literal) -> str:
    return (
        "a boolean"
        if isinstance(constant, bool)
        else "a string"
        if isinstance(constant, str)
        else "a number"
    )


def _width(character: str) -> int:
    """Columns of a terminal that a character takes."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
