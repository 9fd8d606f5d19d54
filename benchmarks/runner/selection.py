"""Chooses entries by a boolean expression such as ``wds_to_wds and not jpeg``.

A word is true for an entry whose lower-cased name contains it. Only ``and``, ``or``, ``not``, parentheses, words and
quoted text are read; nothing is evaluated as Python.
"""

from __future__ import annotations

import ast

from benchmarks.runner.errors import ConfigurationError


def is_selected(expression: str | None, name: str) -> bool:
    """Whether the entry ``name`` fulfils the expression; no expression selects every entry.

    Raises:
        ConfigurationError: If the expression holds anything but words, quoted text, and, or, not.
    """
    if expression is None or not expression.strip():
        return True
    try:
        tree = ast.parse(expression.strip().lower(), mode="eval")
    except SyntaxError as error:
        msg = f"cannot read the expression {expression!r}\nhint: quote words that are no identifiers, as in 'pq-to-wds'"
        raise ConfigurationError(msg) from error
    return _holds(tree.body, name.lower(), expression)


def _holds(node: ast.expr, name: str, expression: str) -> bool:
    match node:
        case ast.BoolOp(op=operator, values=values):
            # Every operand is read, so that what is misspelt is an error whatever the entry is called.
            claims = [_holds(value, name, expression) for value in values]
            return all(claims) if isinstance(operator, ast.And) else any(claims)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _holds(operand, name, expression)
        case ast.Name(id=word) | ast.Constant(value=str(word)):
            return word in name
    msg = f"only words, and, or, not are allowed in {expression!r}"
    raise ConfigurationError(msg)
