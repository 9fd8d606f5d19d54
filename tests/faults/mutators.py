"""Damage of the kinds that disks, networks and scripts do: one change of one file, from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable

Mutator = Callable[[bytes, random.Random], bytes]


def place(content: bytes, rng: random.Random) -> int:
    return rng.randrange(max(len(content), 1))


def span(content: bytes, rng: random.Random) -> tuple[int, int]:
    """Of up to 4 KiB, often of whole blocks of 512 bytes."""
    start, length = place(content, rng), rng.choice((1, 16, 512, 512, rng.randrange(1, 4096)))
    if rng.random() < 0.5:
        start -= start % 512
    return start, min(start + length, len(content))


def truncate(content: bytes, rng: random.Random) -> bytes:
    at = place(content, rng)
    return content[: at - at % 512 if rng.random() < 0.3 else at]


def cut_the_end(content: bytes, rng: random.Random) -> bytes:
    return content[: -rng.randrange(1, 64)]


def flip_a_bit(content: bytes, rng: random.Random) -> bytes:
    at = place(content, rng)
    return content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]


def set_a_byte(content: bytes, rng: random.Random) -> bytes:
    at = place(content, rng)
    return (
        content[:at]
        + bytes([rng.choice((0, 10, 34, 44, 127, 255, rng.randrange(256)))])
        + content[at + 1 :]
    )


def append(content: bytes, rng: random.Random) -> bytes:
    tail = rng.choice(
        (b"\0", bytes(512), b"x", rng.randbytes(rng.randrange(1, 600)), content[-512:])
    )
    return content + tail


def append_itself(content: bytes, _rng: random.Random) -> bytes:
    return content + content


def zero_a_block(content: bytes, rng: random.Random) -> bytes:
    start, end = span(content, rng)
    return content[:start] + bytes(end - start) + content[end:]


def double_a_block(content: bytes, rng: random.Random) -> bytes:
    start, end = span(content, rng)
    return content[:end] + content[start:end] + content[end:]


def copy_over_another(content: bytes, rng: random.Random) -> bytes:
    start, end = span(content, rng)
    target = min(place(content, rng), len(content) - (end - start))
    return content[:target] + content[start:end] + content[target + end - start :]


def remove_a_block(content: bytes, rng: random.Random) -> bytes:
    start, end = span(content, rng)
    return content[:start] + content[end:]


def empty(_content: bytes, _rng: random.Random) -> bytes:
    return b""


#: Those that occur most are listed most.
MUTATORS: tuple[Mutator, ...] = (
    *(truncate, truncate, cut_the_end),
    *(flip_a_bit, flip_a_bit, flip_a_bit, flip_a_bit, set_a_byte, set_a_byte),
    *(append, append_itself),
    *(zero_a_block, double_a_block, copy_over_another, remove_a_block),
)


def mutation(content: bytes, seed: str) -> tuple[str, bytes]:
    """What was done, and what came of it: never the content as it was."""
    rng = random.Random(seed)
    while True:
        mutator = empty if rng.random() < 0.01 else rng.choice(MUTATORS)
        changed = mutator(content, rng)
        if changed != content:
            return mutator.__name__, changed
