"""Chunks that the index does not name, and sizes of single records, held against the original."""

from pathlib import Path

import pytest
import shardmill as sm
from file_builder import MAGIC, Chunk, ChunkStream, IndexRecord, build, field, simple_chunk, varint
from own_process import run_python
from shardmill.curate import verify
from shardmill.errors import Error

TWO = [b"ab", b"cd"]
#: Reads each file in a process of its own, which a damaged file may end.
ORIGINAL = """
import os, pathlib, sys
from array_record.python.array_record_module import ArrayRecordReader
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.array_record")):
    if os.fork() == 0:
        reader = ArrayRecordReader(str(path))
        path.with_suffix(".found").write_text(repr(reader.ok() and reader.read_all()))
        os._exit(0)
    if os.wait()[1]:
        path.with_suffix(".found").unlink(missing_ok=True)
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
        bytes.fromhex("28b52ffd20")
        + bytes([len(content)])
        + (len(content) << 3 | 1).to_bytes(3, "little")
        + content
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

#: All chunks are sound and in the index, which names one more.
NAMED = {
    "a chunk that begins within another": build(
        [simple_chunk(TWO[:1]), simple_chunk([b"cd" * 500])],
        index=lambda index: [*index, IndexRecord(index[-1].offset + 500, 2, 1)],
        num_chunks=3,
        num_records=3,
    )
}

FILES = UNNAMED | SIZES | NAMED


@pytest.fixture(scope="module")
def read_by_the_original(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    """What it printed of each file."""
    pytest.importorskip("array_record.python.array_record_module")
    directory = tmp_path_factory.mktemp("files")
    for number, content in enumerate(FILES.values()):
        (directory / f"{number}.array_record").write_bytes(content)
    run_python(ORIGINAL, directory)
    found = [directory / f"{number}.found" for number in range(len(FILES))]
    return {
        name: path.read_text() if path.exists() else None
        for name, path in zip(FILES, found, strict=True)
    }


@pytest.mark.parametrize("name", FILES)
def test_verify_and_reading_accept_what_the_original_accepts(
    name: str, read_by_the_original: dict[str, str | None], tmp_path: Path
) -> None:
    path = tmp_path / "a.array_record"
    path.write_bytes(FILES[name])
    original = read_by_the_original[name]
    try:
        found = str([row["record"] for row in sm.Dataset(path)])
    except Error:
        found = None
    assert found == original
    assert verify(path)[0].is_valid is (original is not None)
