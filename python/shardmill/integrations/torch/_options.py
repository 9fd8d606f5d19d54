"""Options of ``create_dataloader`` and their checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from shardmill._choices import check_choice
from shardmill._option_values import whole
from shardmill._sizes import byte_count
from shardmill.errors import OptionError
from shardmill.expressions import Expression
from shardmill.load._options import NullPolicy, OutputKind, Tail

FileFormat = Literal["csv", "json", "jsonl", "orc", "parquet"]
OutputFormat = Literal["arrow", "dict", "numpy", "torch"]

#: Strategies of torch-dataloader-utils that read each row once,
#: and differ only in which worker reads it.
_BALANCING_STRATEGIES = (
    "TargetSizeSplitStrategy",
    "RoundRobinSplitStrategy",
    "SizeBalancedSplitStrategy",
)


class BatchOptions(TypedDict, total=False):
    """How batches are made.

    The parameters are those of torch-dataloader-utils, and from ``tail`` on those of shardmill.
    """

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


def check_options(filters: Any, options: BatchOptions) -> None:
    """Check what can be checked before any file is opened.

    Raises:
        ValueError: If a value is out of range, or the strategy of splits is user-defined, because
            it could select rows.
        TypeError: If an option is unknown, ``filters`` is not an expression, or ``split_strategy``
            is not a strategy.
    """
    if unknown := options.keys() - BatchOptions.__annotations__.keys():
        raise TypeError(f"unexpected keyword arguments: {', '.join(sorted(unknown))}")
    check_choice("output_format", options.get("output_format", "torch"), OutputFormat)
    if (size := options.get("split_bytes")) is not None:
        byte_count(size, "split_bytes")
    for name, least in (("split_rows", 1), ("num_workers", 0)):
        if (value := options.get(name)) is not None:
            whole(name, value, least)
    if (strategy := options.get("split_strategy")) is not None:
        if not callable(getattr(strategy, "generate", None)):
            raise TypeError(
                f"split_strategy must be an object with a method generate(), not {strategy!r}"
            )
        name = type(strategy).__name__
        if name not in _BALANCING_STRATEGIES:
            raise OptionError(
                f"split_strategy {name} is not supported: "
                "threads distribute row groups among themselves, so there is nothing to assign\n"
                "hint: select rows with filters, files with a list of paths, "
                "and ranks with num_ranks and rank"
            )
    kind = type(filters)
    is_of_pyarrow = kind.__name__ == "Expression" and kind.__module__.partition(".")[0] == "pyarrow"
    if filters is not None and not is_of_pyarrow and not isinstance(filters, Expression):
        raise TypeError(
            "filters must be a pyarrow.compute.Expression or one of shardmill.col, "
            f"not {kind.__name__}"
        )
