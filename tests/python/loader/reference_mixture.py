"""A mixture row by row, as the documents define it: permutation, pattern and draws.

Written without a look at the native code, and slow.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import floor

from reference_order import lanes_of

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15
_ROUNDS = 8
_WINDOW = 1024
_BLOCKS, _ROWS, _PATTERN = 1, 2, 4


def _mixed(value: int) -> int:
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _MASK
    return value ^ value >> 31


def permutation(length: int, seed: int, epoch: int, purpose: int, number: int = 0) -> list[int]:
    """Version 1 of the keyed permutation, all of it."""
    half = max(1, -(-max(length - 1, 0).bit_length() // 2))
    state = _mixed(1)
    for word in (seed & _MASK, epoch, purpose, number):
        state = _mixed(state ^ _mixed(word + _GOLDEN & _MASK))
    keys = []
    for _ in range(_ROUNDS):
        state = state + _GOLDEN & _MASK
        keys.append(_mixed(state))
    mask = 2**half - 1

    def encrypted(value: int) -> int:
        left, right = value >> half & mask, value & mask
        for key in keys:
            left, right = right, left ^ _mixed(right ^ key) & mask
        return left << half | right

    ids = []
    for position in range(length):
        value = encrypted(position)
        while value >= length:
            value = encrypted(value)
        ids.append(value)
    return ids


def source_seed(seed: int, source: int) -> int:
    """Sources have orders of their own."""
    key = _mixed((seed & _MASK) + _GOLDEN & _MASK) ^ (source + 1) * _GOLDEN & _MASK
    return _mixed(key)


def one_pass(blocks: Sequence[int], *, shuffle: str | None, seed: int, number: int) -> list[int]:
    """Rows of a source in the order of one pass.

    As they are, shuffled within each block, or all together.
    """
    starts = [sum(blocks[:block]) for block in range(len(blocks))]
    if shuffle is None:
        return list(range(sum(blocks)))
    visits = permutation(len(blocks), seed, number, _BLOCKS)
    windows = [[block] for block in visits] if shuffle == "blocks" else [visits]
    rows = []
    for window, members in enumerate(windows):
        own = [starts[block] + row for block in members for row in range(blocks[block])]
        rows += [own[place] for place in permutation(len(own), seed, number, _ROWS, window)]
    return rows


def shared_out(total: int, exact: Sequence[Fraction]) -> list[int]:
    """Whole parts, and what is left to the largest remainders."""
    counts = [floor(part) for part in exact]
    for source in sorted(
        range(len(exact)), key=lambda source: (floor(exact[source]) - exact[source], source)
    )[: total - sum(counts)]:
        counts[source] += 1
    return counts


def pattern(counts: Sequence[int], *, seed: int, epoch: int, lanes: int) -> list[int]:
    """The source of each place in plan order, for fixed counts whose rounding comes out even."""
    rows, number, owed = sum(counts), 0, [Fraction(0)] * len(counts)
    sources: list[int] = []
    for lane in lanes_of(rows, lanes):
        for start in range(0, len(lane), _WINDOW):
            length = min(_WINDOW, len(lane) - start)
            quotas = [Fraction(count * length, rows) for count in counts]
            given = [floor(quota) for quota in quotas]
            owed = [
                debt + quota - whole for debt, quota, whole in zip(owed, quotas, given, strict=True)
            ]
            waiting = [source for source, quota in enumerate(quotas) if quota != floor(quota)]
            waiting.sort(key=lambda source: (-owed[source], source))
            for source in waiting[: length - sum(given)]:
                given[source] += 1
                owed[source] -= 1
            places = [source for source, count in enumerate(given) for _ in range(count)]
            sources += [
                places[place] for place in permutation(length, seed, epoch, _PATTERN, number)
            ]
            number += 1
    assert [sources.count(source) for source in range(len(counts))] == list(counts), (
        "rounding does not come out even"
    )
    return sources


def mixture(
    sources: Sequence[Sequence[int]],
    counts: Sequence[int],
    *,
    seed: int,
    epoch: int,
    lanes: int,
    shuffle: str | None,
) -> list[tuple[int, int]]:
    """(source, row of it) of each place in plan order.

    A source is a list of the rows of its blocks.
    """
    drawn = [count * epoch for count in counts]
    passes: dict[tuple[int, int], list[int]] = {}
    rows = []
    for source in pattern(counts, seed=seed, epoch=epoch, lanes=lanes):
        number, place = divmod(drawn[source], sum(sources[source]))
        if (source, number) not in passes:
            own_seed = source_seed(seed, source)
            passes[source, number] = one_pass(
                sources[source], shuffle=shuffle, seed=own_seed, number=number
            )
        rows.append((source, passes[source, number][place]))
        drawn[source] += 1
    return rows
