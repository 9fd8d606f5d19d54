"""Lanes, global batches and tails, row by row, as the documents define them.

Written without a look at the native code, and slow.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any


def lanes_of(rows: int, lanes: int) -> list[list[int]]:
    """Positions of an order cut into runs of equal length; the longer ones stand first."""
    runs, start = [], 0
    for lane in range(lanes):
        length = rows // lanes + (lane < rows % lanes)
        runs.append(list(range(start, start + length)))
        start += length
    return runs


def global_sequence(rows: int, lanes: int) -> list[int]:
    """One position of each lane in turn; a lane that is exhausted drops out."""
    waiting = [iter(run) for run in lanes_of(rows, lanes)]
    sequence: list[int] = []
    while waiting:
        still_there = []
        for lane in waiting:
            position = next(lane, None)
            if position is not None:
                sequence.append(position)
                still_there.append(lane)
        waiting = still_there
    return sequence


@dataclass(frozen=True)
class Batch:
    """What one rank gets in one step."""

    positions: tuple[int, ...]
    padded: tuple[bool, ...]


def dealt(
    sequence: Sequence[Any], *, batch_size: int, world_size: int, tail: str, consumed: int
) -> Iterator[tuple[int, list[tuple[list[Any], list[bool]]]]]:
    """What is consumed after each step, and the entries of the sequence of each rank.

    The entries say which of them are padding.
    """
    count, whole = len(sequence), batch_size * world_size
    while consumed < count:
        taken = sorted(sequence[consumed : consumed + whole])
        consumed += len(taken)
        missing = whole - len(taken)
        if missing and tail == "drop":
            return
        if missing and tail == "uneven":
            sizes = [
                len(taken) // world_size + (rank < len(taken) % world_size)
                for rank in range(world_size)
            ]
            marks = [False] * len(taken)
        else:
            marks = [False] * len(taken) + [True] * missing
            taken, sizes = (
                taken + [sequence[place % count] for place in range(missing)],
                [batch_size] * world_size,
            )
        step, start = [], 0
        for size in sizes:
            step.append((taken[start : start + size], marks[start : start + size]))
            start += size
        yield consumed, step


def steps(
    rows: int, *, lanes: int, batch_size: int, world_size: int, tail: str, consumed: int = 0
) -> Iterator[list[Batch]]:
    """The batches of all ranks, step by step; a rank without rows has an empty one."""
    sequence = global_sequence(rows, lanes)
    for _, step in dealt(
        sequence, batch_size=batch_size, world_size=world_size, tail=tail, consumed=consumed
    ):
        yield [Batch(tuple(positions), tuple(padded)) for positions, padded in step]
