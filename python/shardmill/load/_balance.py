"""Equal work on every rank: the order of packs within windows, and its effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal

from shardmill._choices import check_fields
from shardmill._native import packing as _native
from shardmill._option_values import whole
from shardmill._warnings import warn_caller
from shardmill.errors import OptionError
from shardmill.load._cost import Cost, unit_of, units_of

Within = Literal["mixed", "alike"]

#: With fewer packs per step, all documents of a step are about equally long.
_MIXED_FROM = 4

#: Bounds of the share of a source without tokens.
_NONE = (0.0, 0.0)


@dataclass(frozen=True)
class Balance:
    """An order of the packs of a ``Packing`` that gives all ranks equal work at each step.

    Ranks exchange no messages, and the global sequence is the same on any number of ranks. The
    packs of each lane are cut into windows, and each window is sorted by cost. At each position of
    a window, all lanes have the pack with the same index in this sorted order; the indices come in
    random order. The set of packs and their content do not change. ``Loader.explain`` reports how
    equal the work is.

    Before the first lane has ended, all ranks take packs with the same index at each step in two
    cases: if ``consumed`` of the state and ``batch_size * world_size`` are multiples of ``lanes``,
    and ``lanes`` is a multiple of ``world_size``; or if ``lanes`` and ``consumed`` are multiples of
    ``batch_size * world_size``.

    A rank keeps the rows of one window of each of its lanes in memory, and of two while it changes
    to the next window.

    Attributes:
        cost: the cost of a pack. The documents include the padding of ``multiple_of``.
        per_step: packs of a lane in an optimizer step: ``batch_size * world_size * accumulation /
            lanes``. With fewer than 4, all documents of a step are about equally long, and often
            from one source; ``Balance`` then warns.
        window_packs: packs of a lane that are sorted together, at least 2. Larger windows make work
            more equal, and need more memory. With ``plan="ahead"``, the first three are shorter.
        within: ``"mixed"`` gives a step packs of all costs, with as equal a sum in each step as
            possible. ``"alike"`` gives it packs of about the same cost, for pipelines, which wait
            several times for the most expensive micro-batch of a step; ``Balance`` then warns.

    Raises:
        ValueError: If an option is not valid.

    Examples:
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> documents = [[n] * (1 + n * n % 7) for n in range(64)]
        >>> pq.write_table(pa.table({"tokens": documents}), "documents.parquet")
        >>> import shardmill as sm
        >>> balance = sm.Balance(sm.Cost(pair=1), per_step=4, window_packs=8)
        >>> packing = sm.Packing("tokens", length=5, strategy="best_fit", balance=balance)
        >>> loader = sm.Loader("documents.parquet", packing=packing, batch_size=2, lanes=2)
        >>> imbalance = loader.explain(world_size=2, batch_size=1)["cost_imbalance"]
        >>> [round(imbalance[order]["all_steps"], 2) for order in ("balanced", "as_packed")]
        [1.03, 1.18]
    """

    cost: Cost
    per_step: int
    window_packs: int = 256
    within: Within = "mixed"

    def __post_init__(self) -> None:
        if not isinstance(self.cost, Cost):
            raise OptionError(
                f"cost of a Balance must be a Cost, not {self.cost!r}\n"
                "hint: write sm.Balance(sm.Cost(…), per_step=…)"
            )
        check_fields(Balance, vars(self), prefix="Balance.")
        packs = whole("window_packs", self.window_packs, 2, _native.MOST_WINDOW_PACKS)
        per_step = whole("per_step", self.per_step, 1)
        if per_step > packs:
            raise OptionError(
                f"per_step={per_step} is more than window_packs={packs}\n"
                "hint: use a larger window, of several steps"
            )
        object.__setattr__(self, "window_packs", packs)
        object.__setattr__(self, "per_step", per_step)
        if self.within == "alike" or per_step < _MIXED_FROM:
            cause = "within='alike'" if self.within == "alike" else f"per_step={per_step}"
            warn_caller(
                f"with {cause}, all documents of an optimizer step are about equally long, "
                "and often from one source\n"
                "hint: compare step_mix of Loader.explain(), or use within='mixed' and more packs "
                "of a lane in a step"
            )


def identity_of(balance: Balance) -> dict[str, Any]:
    """Return everything that decides the order, except the seed."""
    return {**planned(balance), "cost": dict(vars(balance.cost))}


def planned(balance: Balance) -> dict[str, Any]:
    """Return what the plan needs of a balance, with the cost in its units."""
    return {
        "cost": units_of(balance.cost),
        "per_step": balance.per_step,
        "window_packs": balance.window_packs,
        "within": balance.within,
    }


def window_bytes(balance: Balance, row_bytes: int, lanes: int, share: Mapping[str, Any]) -> int:
    """Return the size of the rows that a rank keeps: those of two windows of each of its lanes.

    Args:
        balance: the options.
        row_bytes: size of the rows of a full pack.
        lanes: number of lanes.
        share: the part of each step that ranks get.
    """
    return 2 * balance.window_packs * row_bytes * lanes_of_rank(lanes, share)


def lanes_of_rank(lanes: int, share: Mapping[str, Any]) -> int:
    """Return the number of lanes from which a rank takes rows."""
    each, rest = divmod(lanes, share["world_size"])
    is_local = rest == 0 and each > 0 and share["batch_size"] % each == 0
    return each if is_local else lanes


def warn_of_memory(balance: Balance, size: int, prefetch_bytes: int) -> None:
    """Warn if the rows of windows need most of the memory for decoded data."""
    if size > prefetch_bytes // 2:
        warn_caller(
            f"the windows of a balance need {size:,} bytes on a rank, more than half of "
            f"prefetch_bytes={prefetch_bytes:,}\n"
            f"hint: use a smaller window_packs than {balance.window_packs}, or set "
            f"Runtime(prefetch_bytes={2 * size})"
        )


def rounded(epoch_packs: int, lanes: int) -> int:
    """Return the packs of an epoch, rounded up so that all lanes have the same number."""
    return -(-epoch_packs // lanes) * lanes


def obstacle(lanes: int, consumed: int, share: Mapping[str, Any]) -> str | None:
    """Return why ranks take packs of different indices; ``None`` if they do not.

    Args:
        lanes: number of lanes.
        consumed: packs of the epoch before the next step.
        share: the part of each step that ranks get.
    """
    ranks = share["world_size"]
    step = share["batch_size"] * ranks
    if lanes % step == 0:
        # Each rank takes packs of other lanes with the same number.
        multiple, name = step, "batch_size * world_size"
    elif step % lanes:
        return (
            f"batch_size * world_size = {step} and lanes={lanes}: neither is a multiple of the "
            f"other; use a multiple of {lanes} for batch_size * world_size"
        )
    elif lanes % ranks:
        return f"lanes={lanes} is not a multiple of world_size={ranks}; change world_size"
    else:
        multiple, name = lanes, "lanes"
    if consumed % multiple:
        return (
            f"consumed={consumed} is not a multiple of {name} = {multiple}; continue at a position "
            "that is, or wait for the next epoch"
        )
    return None


def explained(
    answer: dict[str, Any], balance: Balance, sources: Sequence[str], **here: Any
) -> dict[str, Any]:
    """Return an explanation with costs in the unit of the options, and the sources by name.

    Args:
        answer: the explanation of the plan.
        balance: the options.
        sources: names of the sources of a mixture.
        here: arguments of ``obstacle``.
    """
    unit, problem = unit_of(balance.cost), obstacle(**here)
    return {
        **answer,
        "rank_costs": [cost * unit for cost in answer["rank_costs"]],
        "step_mix": {
            order: {**mix, "sources": dict(zip_longest(sources, mix["sources"], fillvalue=_NONE))}
            for order, mix in answer["step_mix"].items()
        },
        "is_equal_work": problem is None,
        "unequal_because": problem,
    }
