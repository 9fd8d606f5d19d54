"""The order of packs with a balance as the specification defines it, key by key: written without a
look at the native code, and slow.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15


def _mixed(value: int) -> int:
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _MASK
    return value ^ value >> 31


def key(seed: int, epoch: int, window: int, place: int) -> int:
    """A permutation of 62-bit numbers: eight Feistel rounds of SplitMix64's finaliser."""
    state = _mixed(1)
    for word in (seed & _MASK, epoch, 5, window):
        state = _mixed(state ^ _mixed((word + _GOLDEN) & _MASK))
    half = 2**31 - 1
    left, right = place >> 31, place & half
    for _ in range(8):
        state = (state + _GOLDEN) & _MASK
        left, right = right, left ^ (_mixed(right ^ _mixed(state)) & half)
    return left << 31 | right


def cost_of(
    lengths: Sequence[int],
    length: int,
    *,
    token: float = 1,
    pair: float = 0,
    window_pair: float = 0,
    window: int | None = None,
    count_padding: bool = True,
) -> Fraction:
    """The cost of a pack with these documents, without rounding."""
    rest = length - sum(lengths)
    all_lengths = [*lengths, rest] if count_padding else list(lengths)
    units = map(Fraction, (token, pair, window_pair))
    near = sum(tokens * min(tokens, window or tokens) for tokens in all_lengths)
    sums = [sum(all_lengths), sum(tokens**2 for tokens in all_lengths), near]
    return sum((unit * total for unit, total in zip(units, sums, strict=True)), Fraction())


def order_of(
    costs: Sequence[Fraction | int],
    *,
    seed: int,
    epoch: int,
    window: int,
    per_step: int,
    within: str,
) -> list[int]:
    """The packs of one window in the order in which they come."""
    dearest = sorted(range(len(costs)), key=lambda pack: (-costs[pack], pack))
    groups = len(costs) // per_step
    keys = [key(seed, epoch, window, group) for group in range(groups)]
    order = []
    for group in range(groups):
        place = sum(other < keys[group] for other in keys)
        packs = []
        for band in range(per_step):
            if within == "alike":
                rank = place * per_step + band
            else:
                rank = band * groups + (place if band % 2 == 0 else groups - 1 - place)
            second = key(seed, epoch, window, 2**32 + group * per_step + band)
            packs.append((second, dearest[rank]))
        order += [pack for _, pack in sorted(packs)]
    rest = range(groups * per_step, len(costs))
    last = sorted((key(seed, epoch, window, 2**32 + rank), dearest[rank]) for rank in rest)
    return order + [pack for _, pack in last]


def windows(count: int, window_packs: int, per_step: int, *, plan: str) -> list[range]:
    """The windows of the first ``count`` packs of a lane."""
    sizes = iter([16, 4, 2] if plan == "ahead" else [])
    found, start = [], 0
    while start < count:
        part = next(sizes, None)
        size = window_packs
        if part is not None:
            size = max(1, -(-(window_packs // part) // per_step)) * per_step
        found.append(range(start, min(start + size, count)))
        start += size
    return found


def lengths_of(pack: Any) -> list[int]:
    """The tokens of each document of a pack."""
    return [len(document) for document in pack]


def balanced(
    packs: Sequence[Any],
    length: int,
    cost: dict[str, Any],
    *,
    seed: int,
    epoch: int = 0,
    per_step: int,
    window_packs: int,
    within: str = "mixed",
    plan: str = "epoch",
    lengths_of: Callable[[Any], list[int]] = lengths_of,
) -> list[Any]:
    """The packs of a lane in the order in which they come."""
    order = []
    for number, window in enumerate(windows(len(packs), window_packs, per_step, plan=plan)):
        costs = [cost_of(lengths_of(packs[pack]), length, **cost) for pack in window]
        order += [
            packs[window.start + pack]
            for pack in order_of(
                costs, seed=seed, epoch=epoch, window=number, per_step=per_step, within=within
            )
        ]
    return order


def rounded(packs: int, lanes: int) -> int:
    """The number of packs of an epoch of endless lanes."""
    while packs % lanes:
        packs += 1
    return packs
