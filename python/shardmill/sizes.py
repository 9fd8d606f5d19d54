"""Sizes as people write them."""

from __future__ import annotations

import re

from shardmill.errors import OptionError

_UNITS = {"": 1, "B": 1}
_UNITS |= {prefix + suffix: 1000**power for power, prefix in enumerate("KMGT", 1) for suffix in ("", "B")}
_UNITS |= {f"{prefix}IB": 1024**power for power, prefix in enumerate("KMGT", 1)}


def byte_count(size: int | str, option: str) -> int:
    """A number of bytes from ``128_000_000``, ``"128MB"`` or ``"64MiB"``.

    Raises:
        OptionError: when the size cannot be understood or is not positive.

    Example:
        >>> byte_count("64MiB", "blocksize")
        67108864
    """
    if isinstance(size, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", size)
        unit = match and _UNITS.get(match[2].upper())
        if not match or unit is None:
            raise OptionError(f'`{option}` cannot be understood: {size!r}\nhint: write 128_000_000, "128MB" or "64MiB"')
        size = int(float(match[1]) * unit)
    if size <= 0:
        raise OptionError(f"`{option}` must be positive")
    return size
