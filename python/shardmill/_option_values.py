"""Checks of the types of option values."""

from __future__ import annotations

import operator
import reprlib
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any, SupportsIndex

from shardmill.errors import OptionError, RowIndexError


def index_of(value: Any) -> int | None:
    """Return a Python or NumPy integer as an ``int``; ``None`` for anything else, such as a bool.

    Examples:
        >>> import numpy as np
        >>> index_of(np.int8(3)), index_of(True), index_of(np.True_), index_of("3")
        (3, None, None, None)
    """
    # Booleans of torch, and of NumPy before 2.3, define `__index__`.
    if isinstance(value, bool) or str(getattr(value, "dtype", "")) in ("bool", "torch.bool"):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def whole(name: str, value: Any, least: int, most: int = 2**63 - 1) -> int:
    """Return ``value`` as an ``int``.

    Raises:
        ValueError: If it is not an integer from ``least`` to ``most``.
    """
    number = index_of(value)
    if number is None or not least <= number <= most:
        is_unbounded = most == 2**63 - 1 and (number is None or number < least)
        asked = f"of at least {least}" if is_unbounded else f"from {least} to {most}"
        raise OptionError(f"{name} must be an integer {asked}, not {value!r}")
    return number


def keep_iterated(options: Any) -> None:
    """Replace the iterators among the fields of a frozen dataclass by tuples.

    Options are read more than once.
    """
    for field in fields(options):
        if isinstance(value := getattr(options, field.name), Iterator):
            object.__setattr__(options, field.name, tuple(value))


def check_kind(name: str, options: Any, kind: type[Any], example: str) -> None:
    """Check that ``options`` are an object of their class, or ``None``.

    Raises:
        ValueError: If they are not. The message has the example.
    """
    if not isinstance(options, kind | None):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise OptionError(
            f"{name} must be {article} {kind.__name__}, not {options!r}\n"
            f"hint: write {name}={example}"
        )


def check_filled(name: str, value: Any, *, is_optional: bool = False) -> None:
    """Check that ``value`` is a string with at least one character, or ``None`` if it is optional.

    Raises:
        ValueError: If it is not.
    """
    if not (isinstance(value, str) and value) and not (is_optional and value is None):
        raise OptionError(f"{name} must be a non-empty string, not {reprlib.repr(value)}")


def flag(name: str, value: Any) -> bool:
    """Return ``value`` if it is a bool.

    Raises:
        ValueError: If it is anything else.
    """
    if not isinstance(value, bool):
        raise OptionError(f"{name} must be True or False, not {value!r}")
    return value


def checked_seed(seed: Any) -> int:
    """Return the seed of an order as an ``int``.

    Raises:
        ValueError: If it is not a signed 64-bit integer.
    """
    number = index_of(seed)
    if number is None or not -(2**63) <= number < 2**63:
        raise OptionError(f"seed must be an integer from -2**63 to 2**63 - 1, not {seed!r}")
    return number


def checked_schema(name: str, schema: Any) -> Any:
    """Return ``schema`` if it is ``None`` or an Arrow schema.

    Raises:
        ValueError: If it is anything else.
    """
    if schema is not None and not hasattr(schema, "__arrow_c_schema__"):
        raise OptionError(
            f"{name} must be an Arrow schema, not {schema!r}\n"
            f"hint: write {name}=pyarrow.schema({{'x': pyarrow.int64()}})"
        )
    return schema


def listed(name: str, values: Any) -> list[str]:
    """Return a sequence of strings as a list.

    Raises:
        ValueError: If it is a single string, which would be split into characters, or anything
            else.
    """
    if isinstance(values, str | bytes):
        raise OptionError(
            f"{name} must be a list of names, not {values!r}\n"
            f"hint: write {name.split('.')[-1]}=[{values!r}]"
        )
    names: list[Any] = list(values) if isinstance(values, Iterable) else [values]
    if not isinstance(values, Iterable) or not all(isinstance(value, str) for value in names):
        raise OptionError(f"{name} must be a list of names, not {values!r}")
    for value in names:
        checked_unicode(f"the name {value!r} in {name}", value)
    return names


def checked_unicode(what: str, text: str) -> str:
    """Return ``text`` if it can be encoded: a lone surrogate is not a character.

    Raises:
        ValueError: If it cannot.

    Examples:
        >>> checked_unicode("the name", "é")
        'é'
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise OptionError(
            f"{what} is not valid Unicode\n"
            "hint: remove the surrogates, which are \\ud800 to \\udfff"
        ) from error
    return text


def row_at(index: SupportsIndex, rows: int) -> int:
    """Return the row at an index. A negative index counts from the end.

    Raises:
        IndexError: If there is no such row.
    """
    row = operator.index(index)
    if not -rows <= row < rows:
        raise RowIndexError(f"row {row} is out of range: there are {rows} rows, counted from 0")
    return row % rows
