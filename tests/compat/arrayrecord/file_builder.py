"""ArrayRecord files from the description of the format alone.

An oracle for what is written, and a source of files that lie. Every hash is right, also in a file
that lies: so a reader has to judge the numbers themselves.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from highway_hash import highway_hash

BLOCK = 65536
USABLE = BLOCK - 24
MAGIC = 0x71930E704FDAE05E
# As array_record writes it.
OPTIONS = "group_size:{},transpose:false,pad_to_block_boundary:{},uncompressed,max_parallelism:1"


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def field(number: int, value: int | bytes) -> bytes:
    """One field of a protobuf message: a varint, or bytes with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


@dataclass(frozen=True)
class Chunk:
    kind: bytes
    data: bytes
    num_records: int = 0
    decoded_size: int = 0

    def header(self) -> bytes:
        body = struct.pack(
            "<QQQQ",
            len(self.data),
            highway_hash(self.data),
            self.kind[0] | self.num_records << 8,
            self.decoded_size,
        )
        return struct.pack("<Q", highway_hash(body)) + body


def simple_chunk(records: Sequence[bytes], **told: int) -> Chunk:
    """Uncompressed. ``told`` replaces what the header says of num_records and decoded_size."""
    sizes = b"".join(varint(len(record)) for record in records)
    return raw_chunk(b"r", b"\0" + varint(len(sizes)) + sizes + b"".join(records), records, **told)


def raw_chunk(kind: bytes, data: bytes, records: Sequence[bytes], **told: int) -> Chunk:
    return Chunk(
        kind, data, **({"num_records": len(records), "decoded_size": sum(map(len, records))} | told)
    )


class IndexRecord(NamedTuple):
    offset: int
    decoded_size: int
    num_records: int

    def encoded(self) -> bytes:
        return field(1, self.offset) + field(2, self.decoded_size) + field(3, self.num_records)


class ChunkStream:
    """The bytes of a file while chunks are added, block headers between them."""

    def __init__(self) -> None:
        self.bytes = bytearray()
        self.add(Chunk(b"s", b""))

    def add(self, chunk: Chunk) -> int:
        """Gives the offset at which the chunk begins."""
        begin = len(self.bytes)
        content = chunk.header() + chunk.data
        overhead = (len(content) + (begin + USABLE - 1) % BLOCK) // USABLE * 24
        end = max(begin + len(content) + overhead, legal_boundary(begin + chunk.num_records))
        at = 0
        while len(self.bytes) < end:
            if len(self.bytes) % BLOCK == 0:
                places = struct.pack("<QQ", len(self.bytes) - begin, end - len(self.bytes))
                self.bytes += struct.pack("<Q", highway_hash(places)) + places
            room = min(end, (len(self.bytes) // BLOCK + 1) * BLOCK) - len(self.bytes)
            self.bytes += content[at : at + room].ljust(room, b"\0")
            at += room
        return begin

    def pad(self) -> None:
        """To the next block boundary."""
        if (begin := len(self.bytes)) % BLOCK == 0:
            return
        end = (begin // BLOCK + 1) * BLOCK
        inner = 24 if end - begin < 40 else 0
        self.add(Chunk(b"p", bytes(end + (BLOCK if inner else 0) - begin - 40 - inner)))


def legal_boundary(position: int) -> int:
    """No chunk ends within the header of a block."""
    return position - position % BLOCK + 25 if 0 < position % BLOCK < 25 else position


def build(
    chunks: Iterable[Chunk],
    *,
    index: Callable[[list[IndexRecord]], Iterable[IndexRecord | bytes]] = lambda index: index,
    writer_options: str | None = OPTIONS.format(1, "false"),
    version: int | None = 1,
    metadata: bytes | None = None,
    footer: Callable[[list[bytes]], Chunk] = simple_chunk,
    postscript: Callable[[int], bytes] = lambda footer: field(1, footer) + field(2, MAGIC),
    copies: int = 3,
    padded: bool = False,
    **told: int,
) -> bytes:
    """A whole file.

    ``index`` may change the index; ``told`` replaces num_chunks and num_records of the metadata.
    """
    stream = ChunkStream()
    true_index = []
    for chunk in chunks:
        true_index.append(IndexRecord(stream.add(chunk), chunk.decoded_size, chunk.num_records))
        if padded:
            stream.pad()
    if metadata is None:
        numbers = {
            "num_chunks": len(true_index),
            "num_records": sum(entry.num_records for entry in true_index),
        } | told
        body = b"" if version is None else field(1, version)
        body += field(2, numbers["num_chunks"]) + field(3, numbers["num_records"])
        body += b"" if writer_options is None else field(4, writer_options.encode())
        metadata = field(1, body)
    entries = [
        entry if isinstance(entry, bytes) else entry.encoded() for entry in index(true_index)
    ]
    begin = stream.add(footer([metadata, *entries] if metadata else entries))
    stream.pad()
    stream.add(simple_chunk([postscript(begin)] * copies))
    stream.pad()
    return bytes(stream.bytes)


def written(records: Sequence[bytes], group_size: int = 1, *, padded: bool = False) -> bytes:
    """What a writer makes of these records without compression."""
    groups = [records[at : at + group_size] for at in range(0, len(records), group_size)]
    options = OPTIONS.format(group_size, "true" if padded else "false")
    return build(map(simple_chunk, groups), writer_options=options, padded=padded)


class Found(NamedTuple):
    kind: bytes
    begin: int
    end: int
    num_records: int
    decoded_size: int


def walk(file: bytes) -> list[Found]:
    """Every chunk of a file, in order, by the chunk headers alone."""
    found, begin = [], 0
    while begin < len(file):
        header = without_block_headers(file, begin, 40)
        size, _, kind, decoded_size = struct.unpack("<QQQQ", header[8:])
        assert struct.unpack("<Q", header[:8])[0] == highway_hash(header[8:]), (
            f"no chunk at {begin}"
        )
        overhead = (40 + size + (begin + USABLE - 1) % BLOCK) // USABLE * 24
        end = max(begin + 40 + size + overhead, legal_boundary(begin + (kind >> 8)))
        found.append(Found(bytes([kind & 255]), begin, end, kind >> 8, decoded_size))
        begin = end
    return found


def without_block_headers(file: bytes, begin: int, count: int) -> bytes:
    out = bytearray()
    while len(out) < count:
        begin += 24 if begin % BLOCK == 0 else 0
        take = min(count - len(out), BLOCK - begin % BLOCK)
        out += file[begin : begin + take]
        begin += take
    return bytes(out)
