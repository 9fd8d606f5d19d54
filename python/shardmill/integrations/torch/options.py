"""Options of :func:`create_dataloader` that are checked here and in no other room."""

from __future__ import annotations

import re
from typing import Any

from shardmill.errors import OptionError

FORMATS = ("csv", "json", "jsonl", "orc", "parquet")
OUTPUT_FORMATS = ("arrow", "dict", "numpy", "torch")

#: Strategies of torch-dataloader-utils that give every row to somebody, and differ only in who reads it.
_BALANCING_STRATEGIES = ("TargetSizeSplitStrategy", "RoundRobinSplitStrategy", "SizeBalancedSplitStrategy")

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE)
_UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "k": 1 << 10,
    "m": 1 << 20,
    "g": 1 << 30,
    "t": 1 << 40,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
}


def one_of(name: str, value: Any, known: tuple[str, ...]) -> None:
    """Refuses what is not in a set.

    Raises:
        ValueError: with the set.
    """
    if value not in known:
        raise OptionError(f"unsupported {name} {value!r}; supported: {', '.join(known)}")


def size_of(name: str, value: int | str | None) -> int | None:
    """Bytes of ``1048576``, ``"64MiB"``, ``"1.5 GiB"``, ``"512mb"`` or ``"1024"``.

    Raises:
        ValueError: for other text, and for less than one byte.
    """
    if value is None:
        return None
    if isinstance(value, str):
        match = _SIZE.fullmatch(value.strip())
        unit = None if match is None else _UNITS.get(match[2].lower())
        if match is None or unit is None:
            raise OptionError(f'{name} is a number of bytes or text such as "64MiB" or "1.5 GiB", not {value!r}')
        size = int(float(match[1]) * unit) if "." in match[1] else int(match[1]) * unit
    elif isinstance(value, int) and not isinstance(value, bool):
        size = value
    else:
        raise OptionError(f'{name} is a number of bytes or text such as "64MiB", not {value!r}')
    if size < 1:
        raise OptionError(f"{name} is at least one byte, not {value!r}")
    return size


def check_splits(split_bytes: int | str | None, split_rows: int | None, split_strategy: Any) -> None:
    """Refuses split options that mean nothing, and strategies that would choose rows.

    Raises:
        ValueError: for a value out of range, and for a strategy of one's own.
        TypeError: for what is no strategy.
    """
    size_of("split_bytes", split_bytes)
    if split_rows is not None and (isinstance(split_rows, bool) or not isinstance(split_rows, int) or split_rows < 1):
        raise OptionError(f"split_rows is a whole number of at least 1, not {split_rows!r}")
    if split_strategy is None:
        return
    if not callable(getattr(split_strategy, "generate", None)):
        raise TypeError(f"split_strategy is an object with a method generate(), not {split_strategy!r}")
    name = type(split_strategy).__name__
    if name not in _BALANCING_STRATEGIES:
        raise OptionError(
            f"split_strategy {name} cannot be honoured: threads share out row groups among themselves, so nothing is left to assign\n"
            "hint: choose rows with filters, files with a list of paths, and ranks with num_ranks and rank"
        )
