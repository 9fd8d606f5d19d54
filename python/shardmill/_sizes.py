"""Sizes such as ``"128MB"``: MB is 10⁶ bytes, MiB 2²⁰."""

from __future__ import annotations

import re

from shardmill._option_values import index_of
from shardmill.errors import OptionError

_UNITS = {"": 1, "B": 1}
_UNITS |= {
    prefix + suffix: 1000**power for power, prefix in enumerate("KMGT", 1) for suffix in ("", "B")
}
_UNITS |= {f"{prefix}IB": 1024**power for power, prefix in enumerate("KMGT", 1)}


def byte_count(size: int | str, option: str) -> int:
    """Return the number of bytes for ``128_000_000``, ``"128MB"`` or ``"64MiB"``.

    Raises:
        ValueError: If it is not a size.

    Examples:
        >>> byte_count("64MiB", "shard_bytes")
        67108864
    """
    if isinstance(size, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", size)
        unit = match and _UNITS.get(match[2].upper())
        if not match or unit is None:
            raise OptionError(
                f"`{option}` cannot be understood: {size!r}\n"
                'hint: write 128_000_000, "128MB" or "64MiB"'
            )
        size = int(float(match[1]) * unit)
    number = index_of(size)
    if number is None or not 0 < number < 2**63:
        raise OptionError(
            f"`{option}` is a positive number of bytes, "
            f'or text such as "128MB" or "64MiB", not {size!r}'
        )
    return number
