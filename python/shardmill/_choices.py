"""The check of options that have a fixed set of values."""

from collections.abc import Mapping
from functools import cache
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from shardmill._option_values import flag
from shardmill.errors import OptionError


def check_choice(name: str, value: object, choices: Any) -> None:
    """Check that ``value`` is one of the values of the ``Literal`` type ``choices``.

    Raises:
        ValueError: If it is not.
    """
    if not isinstance(value, str) or value not in get_args(choices):
        raise OptionError(
            f"{name} must be one of {', '.join(map(repr, get_args(choices)))}, not {value!r}"
        )


def check_fields(kind: type[Any], values: Mapping[str, Any], *, prefix: str = "") -> None:
    """Check the values of the fields of a dataclass with the type ``bool`` or a ``Literal``.

    The type may also be a union of one of these and ``None``.

    Raises:
        ValueError: If one is not of its type. The message names it after ``prefix``.
    """
    for name, (choices, is_optional) in _limited_fields(kind).items():
        value = values[name]
        if choices is bool:
            flag(f"{prefix}{name}", value)
        elif value is not None or not is_optional:
            check_choice(f"{prefix}{name}", value, choices)


@cache
def _limited_fields(kind: type[Any]) -> dict[str, tuple[Any, bool]]:
    found: dict[str, tuple[Any, bool]] = {}
    for name, hint in get_type_hints(kind).items():
        is_optional = NoneType in get_args(hint)
        parts = [part for part in get_args(hint) if part is not NoneType] if is_optional else [hint]
        if len(parts) == 1 and (parts[0] is bool or get_origin(parts[0]) is Literal):
            found[name] = parts[0], is_optional
    return found
