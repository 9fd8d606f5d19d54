"""Checks of options that are tokens, by their texts or ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardmill._option_values import index_of
from shardmill.errors import OptionError

#: A token by its text or its id.
Token = str | int
#: Text, which may be empty, or ids.
Affix = str | Sequence[int]

_HIGHEST_ID = 2**32 - 1


def checked_token(name: str, value: Any) -> Token:
    """Return a token.

    Raises:
        ValueError: If it is neither text nor an id.
    """
    if isinstance(value, str) and value:
        return value
    number = index_of(value)
    if number is None or not 0 <= number <= _HIGHEST_ID:
        raise OptionError(f"{name} must be the text or the id of a token, not {value!r}")
    return number


def checked_affix(name: str, value: Any) -> str | tuple[int, ...]:
    """Return a text or ids.

    Raises:
        ValueError: If it is anything else.
    """
    if isinstance(value, str):
        return value
    ids = tuple(map(index_of, value)) if isinstance(value, Sequence) else (None,)
    if any(number is None or not 0 <= number <= _HIGHEST_ID for number in ids):
        raise OptionError(f"{name} must be a text or a list of token ids, not {value!r}")
    return tuple(int(number) for number in ids if number is not None)
