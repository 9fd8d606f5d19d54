"""Ids of the tokens that options name."""

from __future__ import annotations

import reprlib
from typing import Any, Literal

from shardmill._option_values import index_of
from shardmill.data._tokenizer import Tokenizer, native_tokenizer
from shardmill.errors import OptionError

#: How many special tokens an error names.
_SPECIAL_SHOWN = 8


def token_id_of(
    name: Literal["bos", "eos"], value: str | int | bool | None, tokenizer: Tokenizer | None
) -> Any:
    """Return the id of a token, given as in ``Tokenize``; the value itself without a tokenizer.

    Raises:
        ValueError: If the tokenizer does not have it.
    """
    if value is None or value is False:
        return None
    if tokenizer is None:
        return value
    if value is True:
        named = getattr(native_tokenizer(tokenizer), name)
        if named is None:
            raise OptionError(
                f"the directory of the tokenizer does not name its {name}\n"
                f"hint: set {name}= to the token, or to its id" + _special_tokens(tokenizer)
            )
        return tokenizer.token_id(named)
    if isinstance(value, str):
        return tokenizer.token_id(value)
    number = index_of(value)
    if number is None or not 0 <= number < tokenizer.vocab_size:
        raise OptionError(
            f"{name} must be a token or an id below {tokenizer.vocab_size}, "
            f"not {reprlib.repr(value)}" + _special_tokens(tokenizer, "\nhint")
        )
    return number


def _special_tokens(tokenizer: Tokenizer, before: str = "") -> str:
    """Return the first special tokens with their ids, as the end of a hint."""
    special = native_tokenizer(tokenizer).special_tokens
    if not special:
        return ""
    more = f" and {len(special) - _SPECIAL_SHOWN} more" if len(special) > _SPECIAL_SHOWN else ""
    shown = ", ".join(f"{reprlib.repr(token)} ({id})" for token, id in special[:_SPECIAL_SHOWN])
    return f"{before}: the special tokens are {shown}{more}"
