"""Filters on rows, written as Python expressions or as text.

An expression has the semantics of the same ``pyarrow.compute`` expression in ``Table.filter``: a
row is kept if the whole expression is true. Comparing a null gives unknown, also with ``==``
and ``!=``. NaN does not equal any value. ``is_in`` is false for a null, or unknown with
``null_is_unknown``, and finds NaN. Where pyarrow rounds or raises, such as for a 64-bit integer
compared with a float, values are compared exactly.

Arithmetic with a null gives null. Integers are computed with 64 bits, and a result out of that
range is an error. ``/`` always gives a float, dividing by zero gives null, and ``%`` has the sign
of the dividend, as in SQL.

Examples:
    >>> import shardmill as sm
    >>> (sm.col("language") == "en") & ~(sm.col("words") / sm.col("lines") < 10)
    ((col('language') == 'en') & ~((col('words') / col('lines')) < 10))
"""

from shardmill.expressions._conditions import Expression
from shardmill.expressions._inputs import expression_of
from shardmill.expressions._text import parse_filter
from shardmill.expressions._values import Literal, Value, col

__all__ = ["Expression", "Literal", "Value", "col", "expression_of", "parse_filter"]
