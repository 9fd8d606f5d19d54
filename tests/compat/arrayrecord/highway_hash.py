"""HighwayHash-64 in plain Python: the hash of ArrayRecord files, from its definition.

Slow, and shares no code with what it judges. States after runs of zeros are cached,
for the paddings.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import ClassVar

MASK = (1 << 64) - 1
LOW = 0xFFFFFFFF
RIEGELI_KEY = (0x2F696C6567656952, 0x0A7364726F636572, 0x2F696C6567656952, 0x0A7364726F636572)
FIRST = (0xDBE6D5D5FE4CCE2F, 0xA4093822299F31D0, 0x13198A2E03707344, 0x243F6A8885A308D3)
SECOND = (0x3BD39E10CB0EF593, 0xC0ACF169B5F18A8C, 0xBE5466CF34E90C6C, 0x452821E638D01377)


@lru_cache(maxsize=1000)
def highway_hash(data: bytes) -> int:
    state = State()
    if len(data) > 32 and not any(data):
        state.skip_zeros(len(data) // 32)
        data = data[: len(data) % 32]
    return state.digest(data)


def halves_swapped(word: int) -> int:
    return (word >> 32) | (word & LOW) << 32


class State:
    after_zeros: ClassVar[list[tuple[list[int], ...]]] = []

    def __init__(self) -> None:
        self.mul0, self.mul1 = list(FIRST), list(SECOND)
        self.v0 = [a ^ b for a, b in zip(FIRST, RIEGELI_KEY)]
        self.v1 = [a ^ halves_swapped(b) for a, b in zip(SECOND, RIEGELI_KEY)]

    def skip_zeros(self, packets: int) -> None:
        kept = self.after_zeros or [(self.v0, self.v1, self.mul0, self.mul1)]
        self.v0, self.v1, self.mul0, self.mul1 = map(list, kept[min(packets, len(kept) - 1)])
        while len(kept) <= packets:
            self.update((0, 0, 0, 0))
            kept.append((self.v0[:], self.v1[:], self.mul0[:], self.mul1[:]))
        State.after_zeros = kept

    def digest(self, data: bytes) -> int:
        whole = len(data) & ~31
        for lanes in struct.iter_unpack("<4Q", data[:whole]):
            self.update(lanes)
        if rest := data[whole:]:
            self.update_rest(rest)
        for _ in range(4):
            self.update([halves_swapped(self.v0[i]) for i in (2, 3, 0, 1)])
        return (self.v0[0] + self.v1[0] + self.mul0[0] + self.mul1[0]) & MASK

    def update(self, lanes) -> None:
        v0, v1, mul0, mul1 = self.v0, self.v1, self.mul0, self.mul1
        for i in range(4):
            v1[i] = (v1[i] + mul0[i] + lanes[i]) & MASK
            mul0[i] ^= (v1[i] & LOW) * (v0[i] >> 32)
            v0[i] = (v0[i] + mul1[i]) & MASK
            mul1[i] ^= (v0[i] & LOW) * (v1[i] >> 32)
        for source, target in ((v1, v0), (v0, v1)):
            for i in (0, 2):
                zipper_merge_and_add(source[i + 1], source[i], target, i)

    def update_rest(self, rest: bytes) -> None:
        size, odd = len(rest), len(rest) & 3
        for i in range(4):
            self.v0[i] = (self.v0[i] + (size << 32) + size) & MASK
            self.v1[i] = rotated(self.v1[i] & LOW, size) | rotated(self.v1[i] >> 32, size) << 32
        packet = bytearray(32)
        packet[: size - odd] = rest[: size - odd]
        if size & 16:
            packet[28:] = rest[size - 4 :]
        elif odd:
            tail = rest[size - odd :]
            packet[16:19] = bytes((tail[0], tail[odd >> 1], tail[odd - 1]))
        self.update(struct.unpack("<4Q", packet))


def rotated(half: int, count: int) -> int:
    return (half << count | half >> (32 - count)) & LOW


def zipper_merge_and_add(v1: int, v0: int, target: list[int], at: int) -> None:
    low = (
        ((v0 & 0xFF000000) | (v1 & 0xFF00000000)) >> 24
        | ((v0 & 0xFF0000000000) | (v1 & 0xFF000000000000)) >> 16
        | v0 & 0xFF0000
        | (v0 & 0xFF00) << 32
        | (v1 & 0xFF00000000000000) >> 8
        | (v0 & 0xFF) << 56
    )
    high = (
        ((v1 & 0xFF000000) | (v0 & 0xFF00000000)) >> 24
        | v1 & 0xFF0000
        | (v1 & 0xFF0000000000) >> 16
        | (v1 & 0xFF00) << 24
        | (v0 & 0xFF000000000000) >> 8
        | (v1 & 0xFF) << 48
        | v0 & 0xFF00000000000000
    )
    target[at] = (target[at] + low) & MASK
    target[at + 1] = (target[at + 1] + high) & MASK
