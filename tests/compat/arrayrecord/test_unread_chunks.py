"""Chunks that the index does not name, and sizes of single records: accepted and refused as by the original."""

from pathlib import Path

import pytest
import shardmill as sm
from file_builder import MAGIC, Chunk, ChunkStream, IndexRecord, build, field, simple_chunk, varint
from own_process import ProcessError, run_python
from shardmill.curate import verify
from shardmill.errors import Error

TWO = [b"ab", b"cd"]
ORIGINAL = """
import sys
from array_record.python.array_record_module import ArrayRecordReader
reader = ArrayRecordReader(sys.argv[1])
print(reader.ok() and reader.read_all())
"""


def between(chunk: Chunk) -> bytes:
    """A file of two records with a chunk between them that is not in the index."""
    stream = ChunkStream()
    first = IndexRecord(stream.add(simple_chunk(TWO[:1])), 2, 1)
    stream.add(chunk)
    second = IndexRecord(stream.add(simple_chunk(TWO[1:])), 2, 1)
    metadata = field(1, field(1, 1) + field(2, 2) + field(3, 2))
    footer = stream.add(simple_chunk([metadata, first.encoded(), second.encoded()]))
    stream.pad()
    stream.add(simple_chunk([field(1, footer) + field(2, MAGIC)] * 3))
    stream.pad()
    return bytes(stream.bytes)


def block(codec: bytes, content: bytes, stated: int | None = None) -> bytes:
    if not codec.strip(b"\0"):
        return content
    frame = (
        bytes.fromhex("28b52ffd20") + bytes([len(content)]) + (len(content) << 3 | 1).to_bytes(3, "little") + content
    )
    return varint(len(content) if stated is None else stated) + frame


def single(codec: bytes, sizes: bytes, stated: int | None = None, values: bytes = b"ab") -> bytes:
    packed = block(codec, sizes, stated)
    data = codec + varint(len(packed)) + packed + block(codec, values)
    return build([Chunk(b"r", data, 1, len(values))])


UNNAMED = {
    f"{kind!r}, {records} records, {len(data)} bytes": between(Chunk(kind, data, records, records))
    for kind in (b"?", b"\0", b"\xff", b"m", b"s", b"p")
    for records in (0, 3)
    for data in (b"", b"xyz")
} | {"garbage of no record": between(Chunk(b"r", b"\xff\xff\xff"))}

SIZES = {
    f"{name}, codec {codec!r}": single(codec, sizes, stated, values)
    for codec in (b"\0", b"z")
    for name, sizes, stated, values in (
        ("right", b"\2", None, b"ab"),
        ("too small", b"\1", None, b"ab"),
        ("too large", b"\3", None, b"ab"),
        ("left over", b"\2\0", None, b"ab"),
        ("none", b"", None, b"ab"),
        ("none of an empty record", b"", None, b""),
        ("one of an empty record", b"\1", None, b""),
        ("cut", b"\x82", None, b"ab"),
        ("longer than it need be", b"\x82\x00", None, b"ab"),
        ("of 11 bytes", b"\x82" + b"\x80" * 9 + b"\2", None, b"ab"),
        ("stated too long", b"\2", 5, b"ab"),
        ("stated too short", b"\2", 0, b"ab"),
    )
}


@pytest.mark.parametrize("name", [*UNNAMED, *SIZES])
def test_verify_and_reading_accept_what_the_original_accepts(name: str, tmp_path: Path) -> None:
    pytest.importorskip("array_record.python.array_record_module")
    path = tmp_path / "a.array_record"
    path.write_bytes((UNNAMED | SIZES)[name])
    try:
        original = run_python(ORIGINAL, path).strip()
    except ProcessError:
        original = None
    try:
        found = str([row["record"] for row in sm.Dataset(path)])
    except Error:
        found = None
    assert found == original
    assert verify(path)[0].is_valid is (original is not None)
