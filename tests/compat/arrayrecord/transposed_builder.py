"""Transposed chunks by hand, uncompressed: legal ones, and ones that lie.

A chunk is a machine that runs backwards, from the last byte of the last record to the first
of the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from file_builder import Chunk, raw_chunk, varint

NO_OP, OPAQUE, SUBMESSAGE_START, MESSAGE_START = range(4)
VARINT, FIXED64, STRING, GROUP_START, GROUP_END, FIXED32, SUBMESSAGE_END = range(7)
INLINE = 10


@dataclass(frozen=True)
class State:
    tag: int
    next: int
    subtype: int | None = None
    buffer: int | None = None


def tag(number: int, wire_type: int) -> int:
    return number << 3 | wire_type


def transposed_data(
    buffers: Sequence[bytes],
    states: Sequence[State],
    first: int,
    transitions: bytes = b"",
    /,
    *,
    per_bucket: Sequence[int] | None = None,
    **told: int,
) -> bytes:
    """``per_bucket`` says how many buffers each bucket holds, one each by default.

    ``told`` replaces counts of the header.
    """
    bounds = [0]
    for count in per_bucket if per_bucket is not None else [1] * len(buffers):
        bounds.append(bounds[-1] + count)
    packed = [b"".join(buffers[a:b]) for a, b in zip(bounds, bounds[1:])]
    counts = {"buckets": len(packed), "buffers": len(buffers), "states": len(states)} | told
    header = varint(counts["buckets"]) + varint(counts["buffers"])
    header += b"".join(varint(len(bucket)) for bucket in packed)
    header += b"".join(varint(counts.get("buffer_length", len(buffer))) for buffer in buffers)
    header += varint(counts["states"])
    header += b"".join(varint(state.tag) for state in states) + b"".join(
        varint(state.next) for state in states
    )
    header += bytes(state.subtype for state in states if state.subtype is not None)
    header += b"".join(varint(state.buffer) for state in states if state.buffer is not None)
    header += varint(first)
    return (
        b"\0"
        + varint(counts.get("header_length", len(header)))
        + header
        + b"".join(packed)
        + transitions
    )


def opaque_chunk(records: Sequence[bytes], **told: int) -> Chunk:
    """The easiest legal form: records as they are, the last first."""
    values = b"".join(reversed(records))
    lengths = b"".join(varint(len(record)) for record in reversed(records))
    left, transitions = len(records) - 1, bytearray()
    while left > 0:
        transitions.append(min(4, left) - 1)
        left -= 4
    data = transposed_data(
        [values, lengths], [State(OPAQUE, 0, buffer=0)], 0, bytes(transitions), per_bucket=[2]
    )
    return raw_chunk(b"t", data, records, **told)


def message_chunk(steps: Sequence[tuple], record: bytes, **told: int) -> Chunk:
    """One record whose fields are made by ``steps``, the last field first.

    A step is (tag, subtype, buffer).
    """
    buffers = [step[2] for step in steps if step[2] is not None]
    states, count = [], len(steps) + 1
    for number, (wire_tag, subtype, content) in enumerate(steps):
        buffer = None if content is None else sum(step[2] is not None for step in steps[:number])
        states.append(State(wire_tag, count + number + 1, subtype, buffer))
    states.append(State(MESSAGE_START, 0))
    first = count if steps else 0
    return raw_chunk(b"t", transposed_data(buffers, states, first % count), [record], **told)
