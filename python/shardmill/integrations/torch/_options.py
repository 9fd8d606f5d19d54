"""Options of ``create_dataloader`` and their checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from shardmill._option_values import whole
from shardmill._sizes import byte_count
from shardmill.errors import OptionError
from shardmill.load._options import NullPolicy, OutputKind, Tail

FileFormat = Literal["csv", "json", "jsonl", "orc", "parquet"]
OutputFormat = Literal["arrow", "dict", "numpy", "torch"]

#: Strategies of torch-dataloader-utils that read each row once, and differ only in which worker reads it.
_BALANCING_STRATEGIES = ("TargetSizeSplitStrategy", "RoundRobinSplitStrategy", "SizeBalancedSplitStrategy")


class BatchOptions(TypedDict, total=False):
    """How batches are made: parameters of torch-dataloader-utils, and from ``tail`` on those of shardmill."""

    shuffle: bool
    shuffle_seed: int
    split_bytes: int | str | None
    split_rows: int | None
    split_strategy: Any
    num_workers: int | None
    output_format: OutputKind
    num_ranks: int
    rank: int
    shuffle_buffer_size: int | None
    tail: Tail | None
    drop_last: bool
    lanes: int | None
    nulls: NullPolicy
    fill_values: Mapping[str, Any] | None
    prefetch_bytes: int | str
    pin_memory: bool
    device: Any


def check_splits(split_bytes: int | str | None, split_rows: int | None, split_strategy: Any) -> None:
    """Reject invalid split options, and strategies that would select rows.

    Raises:
        ValueError: If a value is out of range, or the strategy is user-defined.
        TypeError: If it is not a strategy.
    """
    if split_bytes is not None:
        byte_count(split_bytes, "split_bytes")
    if split_rows is not None:
        whole("split_rows", split_rows, 1)
    if split_strategy is None:
        return
    if not callable(getattr(split_strategy, "generate", None)):
        raise TypeError(f"split_strategy must be an object with a method generate(), not {split_strategy!r}")
    name = type(split_strategy).__name__
    if name not in _BALANCING_STRATEGIES:
        raise OptionError(
            f"split_strategy {name} is not supported: threads distribute row groups among themselves, so there is nothing to assign\n"
            "hint: select rows with filters, files with a list of paths, and ranks with num_ranks and rank"
        )
