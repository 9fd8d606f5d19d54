"""Translates ``pyarrow.compute`` filters from the tree in a pickled expression.

Arrow pickles an expression as an IPC file: the schema metadata lists the tree in prefix order, and
the columns of its single row hold the literals and options. The metadata repeats keys, so it is
read through the C interface and not as a dict.
"""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from shardmill._literals import literal_of, scalar_literal
from shardmill.errors import UnsupportedExpressionError
from shardmill.expressions._text import MIRRORED

_COMPARISONS = {
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_MATCH_NULLS, _SKIP_NULLS = 0, 1


@dataclass
class _Column:
    name: str


@dataclass
class _Call:
    function: str
    arguments: list[Any] = field(default_factory=list)
    options: Any = None


def tree_of(expression: pc.Expression) -> dict[str, Any]:
    """Return the expression tree with the semantics of ``pyarrow.Table.filter``.

    Raises:
        UnsupportedExpressionError: If a function has no counterpart. The message names the
            function.
    """
    try:
        buffer = expression.__reduce__()[1][0]
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedExpressionError(
            f"{expression}: {error}; refer to columns by name"
        ) from error
    reader = pa.ipc.open_file(buffer)
    values = reader.get_batch(0)
    calls: list[_Call] = []
    node: Any = None
    pairs = iter(_metadata(reader.schema))
    for kind, text in pairs:
        if kind == "call":
            calls.append(_Call(text))
            continue
        if kind == "options":
            calls[-1].options = values.column(int(text))[0]
            continue
        if kind == "field_ref":
            node = _Column(text)
        elif kind == "nested_field_ref":
            node = _Column(".".join(name for _, name in islice(pairs, int(text))))
        elif kind == "literal":
            node = values.column(int(text))[0]
        elif kind == "end":
            node = _converted(calls.pop())
        else:
            raise UnsupportedExpressionError(f"{expression}: {kind} has no counterpart")
        if calls:
            calls[-1].arguments.append(node)
    return _condition(node)


class _CSchema(ctypes.Structure):
    """The first fields of ``struct ArrowSchema``."""

    _fields_ = (
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_void_p),
    )


def _metadata(schema: pa.Schema) -> list[tuple[str, str]]:
    """Return all pairs, in order. Each key and value is preceded by its length."""
    capsule = schema.__arrow_c_schema__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    address = _CSchema.from_address(pointer(capsule, b"arrow_schema") or 0).metadata
    if not address:
        return []

    def number() -> int:
        nonlocal address
        (value,) = struct.unpack("=i", ctypes.string_at(address, 4))
        address += 4
        return value

    def text() -> str:
        nonlocal address
        length = number()
        value = ctypes.string_at(address, length).decode()
        address += length
        return value

    return [(text(), text()) for _ in range(number())]


def _converted(call: _Call) -> Any:
    function, arguments = call.function, call.arguments
    if function in _COMPARISONS and len(arguments) == 2:
        return _comparison(_COMPARISONS[function], *arguments)
    if function in ("and_kleene", "or_kleene"):
        kind = function.removesuffix("_kleene")
        parts: list[Any] = []
        for part in map(_condition, arguments):
            parts.extend(part.get(kind, [part]))
        return {kind: parts}
    if function == "invert":
        return {"not": _condition(arguments[0])}
    if function == "cast" and isinstance(arguments[0], pa.Scalar):
        return arguments[0].cast(call.options.type.field("to_type").type)
    column = arguments[0] if arguments else None
    if not isinstance(column, _Column):
        raise _unsupported(function)
    if function == "is_in":
        return _membership(column, call.options)
    if function == "is_null":
        is_nan_null = call.options is not None and call.options["nan_is_null"].as_py()
        return {"is_null": {"column": column.name, "nan_is_null": is_nan_null}}
    if function == "is_valid":
        return {"not": {"is_null": {"column": column.name}}}
    if function == "is_nan":
        return {"is_nan": {"column": column.name}}
    if function == "starts_with" and not call.options["ignore_case"].as_py():
        return {
            "starts_with": {
                "column": column.name,
                "prefix": literal_of(call.options["pattern"].as_py()),
            }
        }
    raise _unsupported(function)


def _comparison(op: str, left: Any, right: Any) -> dict[str, Any]:
    if isinstance(left, pa.Scalar) and isinstance(right, _Column):
        left, op, right = right, MIRRORED[op], left
    if isinstance(left, _Column) and isinstance(right, _Column):
        return {"compare_columns": {"left": left.name, "op": op, "right": right.name}}
    if not (isinstance(left, _Column) and isinstance(right, pa.Scalar)):
        raise UnsupportedExpressionError(
            f"`{op}` is supported between a column and a literal or another column"
        )
    if not right.is_valid:
        return {"constant": None}
    return {"compare": {"column": left.name, "op": op, "value": scalar_literal(right)}}


def _membership(column: _Column, options: Any) -> dict[str, Any]:
    behavior = options["null_matching_behavior"].as_py()
    if behavior not in (_MATCH_NULLS, _SKIP_NULLS):
        raise UnsupportedExpressionError("is_in is supported with MATCH or SKIP for nulls")
    values = options["value_set"].values
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    literals = [scalar_literal(value) for value in values if value.is_valid]
    matches_null = behavior == _MATCH_NULLS and values.null_count > 0
    return {"is_in": {"column": column.name, "values": literals, "matches_null": matches_null}}


def _condition(node: Any) -> dict[str, Any]:
    """Convert a node in boolean position: a condition, a boolean column, or a constant."""
    if isinstance(node, _Column):
        return {"compare": {"column": node.name, "op": "==", "value": True}}
    if isinstance(node, pa.Scalar):
        truth = node.as_py()
        if not (truth is None or isinstance(truth, bool)):
            raise UnsupportedExpressionError(f"a filter must be a condition, not {truth!r}")
        return {"constant": truth}
    return node


def _unsupported(function: str) -> UnsupportedExpressionError:
    return UnsupportedExpressionError(
        f"the function `{function}` of pyarrow.compute is not supported in a filter\n"
        "hint: use comparisons, & | ~, isin, is_null, is_valid, is_nan and starts_with of columns"
    )
