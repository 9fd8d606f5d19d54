"""Batches by length as the specification defines them, row by row.

Written without a look at the native code, and slow.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from reference_balance import key

#: The order of the batches of as many windows as have this number is drawn together.
_TOGETHER = 256


@dataclass(frozen=True)
class Row:
    """A row of a batch, with the length that counts."""

    position: int
    length: float


#: The rows of a batch, in the order of their positions.
RowBatch = list[Row]


def width_of(length: float, multiple_of: int = 1) -> float:
    """What a row of this length takes in a batch in which it is the longest."""
    return length if multiple_of == 1 else -(-length // multiple_of) * multiple_of


def batches_of(
    lengths: Sequence[float],
    *,
    tokens: int,
    max_rows: int | None = None,
    window_rows: int = 65_536,
    multiple_of: int = 1,
    long: str = "raise",
    seed: int = 0,
    epoch: int = 0,
) -> list[RowBatch]:
    """The batches of one lane, in the order of their numbers."""
    cut: list[RowBatch] = []
    numbered: list[RowBatch] = []
    drawn = 0
    for start in range(0, len(lengths), window_rows):
        window = []
        for position in range(start, min(start + window_rows, len(lengths))):
            length = lengths[position]
            if width_of(length, multiple_of) > tokens:
                assert long != "raise"
                if long == "drop":
                    continue
                length = tokens - tokens % multiple_of
            window.append(Row(position, length))
        window.sort(key=lambda row: (row.length, row.position))
        batch: RowBatch = []
        for row in window:
            room = Fraction(width_of(row.length, multiple_of)) * (len(batch) + 1)
            if batch and (room > tokens or len(batch) == max_rows):
                cut.append(batch)
                batch = []
            batch.append(row)
        if batch:
            cut.append(batch)
        if len(cut) >= _TOGETHER or start + window_rows >= len(lengths):
            keys = [key(seed, epoch, drawn, place) for place in range(len(cut))]
            numbered += [cut[sum(other < own for other in keys)] for own in keys]
            cut, drawn = [], drawn + 1
    return [sorted(batch, key=lambda row: row.position) for batch in numbered]


def cost_of(batch: RowBatch, *, multiple_of: int, token: float, pair: float) -> Fraction:
    """The cost of a batch, without rounding."""
    longest = Fraction(max(width_of(row.length, multiple_of) for row in batch))
    return len(batch) * (Fraction(token) * longest + Fraction(pair) * longest**2)
