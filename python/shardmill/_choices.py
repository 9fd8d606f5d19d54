"""The check of options that have a fixed set of values."""

from typing import Any, get_args

from shardmill.errors import OptionError


def check_choice(name: str, value: object, choices: Any) -> None:
    """Check that ``value`` is one of the values of the ``Literal`` type ``choices``.

    Raises:
        ValueError: If it is not.
    """
    if not isinstance(value, str) or value not in get_args(choices):
        raise OptionError(f"{name} must be one of {', '.join(map(repr, get_args(choices)))}, not {value!r}")
