"""Packs of token rows as the guide defines them, token by token.

Written without a look at the native code, and slow.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reference_order import dealt

#: A pack: the tokens of each of its documents.
Pack = list[list[int]]


def concatenated(rows: Sequence[list[int]], length: int) -> list[Pack]:
    """All tokens one after another, cut every ``length``; a pack knows which row each came from."""
    tokens = [(number, token) for number, row in enumerate(rows) for token in row]
    packs = []
    for start in range(0, len(tokens), length):
        pack: Pack = []
        last = None
        for number, token in tokens[start : start + length]:
            if number != last:
                pack.append([])
                last = number
            pack[-1].append(token)
        packs.append(pack)
    return packs


def fitted(
    rows: Sequence[list[int]],
    length: int,
    *,
    strategy: str = "best_fit",
    open_packs: int = 64,
    long: str = "split",
) -> list[Pack]:
    """Rows that stay whole, in packs in the order in which they are closed."""
    packs: list[Pack] = []
    waiting: list[tuple[int, Pack]] = []
    opened = 0

    def room(pack: Pack) -> int:
        return length - sum(map(len, pack))

    def close(entry: tuple[int, Pack]) -> None:
        waiting.remove(entry)
        packs.append(entry[1])

    for row in rows:
        rest = row
        if len(rest) > length:
            if long == "drop":
                continue
            if long == "truncate":
                rest = rest[:length]
            while len(rest) > length:
                packs.append([rest[:length]])
                rest = rest[length:]
        if len(rest) == length:
            packs.append([rest])
            continue
        if not rest:
            continue
        candidates = [entry for entry in waiting if room(entry[1]) >= len(rest)]
        if candidates:
            chosen = (
                min(candidates, key=lambda entry: room(entry[1]))
                if strategy == "best_fit"
                else candidates[0]
            )
        else:
            if len(waiting) >= open_packs:
                close(min(waiting, key=lambda entry: room(entry[1])))
            if waiting and opened - waiting[0][0] >= 4 * open_packs:
                close(waiting[0])
            chosen = (opened, [])
            waiting.append(chosen)
            opened += 1
        chosen[1].append(rest)
        if room(chosen[1]) == 0:
            close(chosen)
    return packs + [pack for _, pack in waiting]


def packs_of(
    rows: Sequence[list[int]], *, length: int, strategy: str, **options: object
) -> list[Pack]:
    """The packs of one lane."""
    if strategy == "concat":
        return concatenated(rows, length)
    return fitted(rows, length, strategy=strategy, **options)  # type: ignore[arg-type]


@dataclass(frozen=True)
class PackBatch:
    """What one rank gets in one step."""

    packs: list[Pack]
    padded: list[bool]


def pack_steps(
    lanes: Sequence[list[Pack]], *, batch_size: int, world_size: int, tail: str, consumed: int = 0
) -> Iterator[tuple[int, list[PackBatch]]]:
    """What is consumed after each step, and the batches of all ranks.

    A rank without packs has an empty one.
    """
    sequence = [
        (lane, number)
        for number in range(max(map(len, lanes), default=0))
        for lane, packs in enumerate(lanes)
        if number < len(packs)
    ]
    for end, step in dealt(
        sequence, batch_size=batch_size, world_size=world_size, tail=tail, consumed=consumed
    ):
        yield (
            end,
            [
                PackBatch([lanes[lane][number] for lane, number in taken], marks)
                for taken, marks in step
            ],
        )
