"""Packs of endless lanes as the specification defines them, pass by pass.

Written without a look at the native code, and slow.
"""

import itertools
from typing import Any

import shardmill as sm
from flat_options import flat_loader
from hypothesis import assume, currently_in_test_context
from reference_order import dealt, lanes_of
from reference_packing import Pack, PackBatch, concatenated, fitted
from test_packing import packs_in

WINDOW_ROWS = 65_536


def loader_of(data: Any, packing: dict[str, Any], **options: Any) -> sm.Loader:
    options = {"output": "numpy", **options}
    return flat_loader(data, packing=sm.Packing("tokens", plan="ahead", **packing), **options)


def rows_of_pass(data: Any, number: int, *, lanes: int, **order: Any) -> list[list[int]]:
    """The tokens of each row in the order of a pass, lane after lane.

    A batch of all rows is sorted by lane.
    """
    plain = flat_loader(
        data, columns=["tokens"], output="arrow", lanes=lanes, batch_size=10**6, **order
    )
    plain.set_epoch(number)
    return [row for batch in plain for row in batch.column("tokens").to_pylist()]


def lanes_of_packs(
    data: Any, packing: dict[str, Any], *, lanes: int, places: int, **order: Any
) -> list[list[Pack]]:
    """At least the packs of each lane for the first ``places`` places of the global sequence."""
    options = {name: value for name, value in packing.items() if not name.startswith("epoch_")}
    strategy, length = options.pop("strategy", "concat"), options.pop("length")
    rows: list[list[list[int]]] = [[] for _ in range(lanes)]
    packs: list[list[Pack]] = [[] for _ in range(lanes)]
    wanted = -(-places // lanes)
    of_pass: list[list[int]] = []
    for number in itertools.count():
        if not of_pass or order.get("shuffle") or isinstance(data, sm.Mixture):
            of_pass = rows_of_pass(data, number, lanes=lanes, **order)
        for lane, positions in enumerate(lanes_of(len(of_pass), lanes)):
            own = [of_pass[position] for position in positions]
            # A lane without anything to pack is an error, which has a test of its own.
            limit = length if options.get("long") == "drop" else 10**6
            if currently_in_test_context():
                assume(any(0 < len(row) <= limit for row in own))
            if strategy == "concat":
                rows[lane] += own
                whole = concatenated(rows[lane], length)
                packs[lane] = [pack for pack in whole if sum(map(len, pack)) == length]
                continue
            for start in range(0, len(own), WINDOW_ROWS):
                packs[lane] += fitted(
                    own[start : start + WINDOW_ROWS], length, strategy=strategy, **options
                )
        if min(map(len, packs)) >= wanted:
            return packs
    raise AssertionError("passes do not end")


def steps_of(
    packs: list[list[Pack]],
    epoch_packs: int,
    *,
    epoch: int = 0,
    batch_size: int,
    world_size: int,
    tail: str,
    consumed: int = 0,
) -> list[tuple[int, list[PackBatch]]]:
    """What is consumed after each step of an epoch, and the batches of all ranks."""
    places = range(epoch * epoch_packs, (epoch + 1) * epoch_packs)
    sequence = [(place % len(packs), place // len(packs)) for place in places]
    steps = dealt(
        sequence, batch_size=batch_size, world_size=world_size, tail=tail, consumed=consumed
    )
    return [
        (
            end,
            [
                PackBatch([packs[lane][number] for lane, number in taken], marks)
                for taken, marks in step
            ],
        )
        for end, step in steps
    ]


def taken(loader: sm.Loader, count: int, length: int) -> list[list[Pack]]:
    """The packs of the next batches, over as many epochs as it takes."""
    batches: list[list[Pack]] = []
    while len(batches) < count:
        for batch in itertools.islice(loader, count - len(batches)):
            batches.append(packs_in(batch, length))
    return batches
