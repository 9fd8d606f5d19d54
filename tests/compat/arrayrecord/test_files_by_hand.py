"""Files that no writer writes and that every reader takes, or refuses.

They are built by the tests, and read by the original and by ours.
"""

import pytest
from breadth import in_one
from file_builder import (
    MAGIC,
    Chunk,
    IndexRecord,
    build,
    field,
    raw_chunk,
    simple_chunk,
    varint,
    written,
)
from implementations import Implementation
from transposed_builder import opaque_chunk

RECORDS = [b"first", b"", b"third " * 20_000, b"fourth"]
CHUNKS = [simple_chunk([record]) for record in RECORDS]
UNKNOWN = (
    field(9, 7)
    + field(10, b"unknown")
    + varint(11 << 3 | 5)
    + b"1234"
    + varint(12 << 3 | 1)
    + b"12345678"
)


def entry(record: IndexRecord) -> bytes:
    return record.encoded()


def postscript(footer: int, *, magic: int = MAGIC) -> bytes:
    return field(1, footer) + field(2, magic)


def metadata(*, version: bytes = field(1, 1), more: bytes = b"") -> bytes:
    return field(1, version + field(2, 4) + field(3, 4) + more)


def zstd_raw(payload: bytes) -> bytes:
    """A frame of one raw block, after the varint of its length."""
    head = (
        bytes.fromhex("28b52ffd20")
        + bytes([len(payload)])
        + (len(payload) << 3 | 1).to_bytes(3, "little")
    )
    return varint(len(payload)) + head + payload


def zstd_chunk(records: list[bytes]) -> Chunk:
    sizes = zstd_raw(b"".join(varint(len(record)) for record in records))
    return raw_chunk(b"r", b"z" + varint(len(sizes)) + sizes + zstd_raw(b"".join(records)), records)


def snappy(payload: bytes) -> bytes:
    """One literal after its length, twice."""
    literal = bytes([(len(payload) - 1) << 2]) + payload if payload else b""
    return varint(len(payload)) * 2 + literal


def snappy_chunk(records: list[bytes]) -> Chunk:
    sizes = snappy(b"".join(varint(len(record)) for record in records))
    return raw_chunk(b"r", b"s" + varint(len(sizes)) + sizes + snappy(b"".join(records)), records)


READABLE = {
    "as written": lambda: written(RECORDS),
    "one postscript": lambda: build(CHUNKS, copies=1),
    "nine postscripts": lambda: build(CHUNKS, copies=9),
    "unknown field in the postscript": lambda: build(
        CHUNKS, postscript=lambda at: UNKNOWN + postscript(at) + UNKNOWN
    ),
    "fields of the postscript turned": lambda: build(
        CHUNKS, postscript=lambda at: field(2, MAGIC) + field(1, at)
    ),
    "field of the postscript twice": lambda: build(
        CHUNKS, postscript=lambda at: field(1, 5) + postscript(at)
    ),
    "unknown field in the metadata": lambda: build(
        CHUNKS, metadata=UNKNOWN + metadata(more=UNKNOWN) + UNKNOWN
    ),
    "unknown field in the index": lambda: build(
        CHUNKS, index=lambda all: [UNKNOWN + entry(each) + UNKNOWN for each in all]
    ),
    "fields of the index turned": lambda: build(
        CHUNKS,
        index=lambda all: [
            field(3, each.num_records) + field(2, each.decoded_size) + field(1, each.offset)
            for each in all
        ],
    ),
    "long varints in the index": lambda: build(
        CHUNKS,
        index=lambda all: [
            b"\x08"
            + long_varint(e.offset)
            + b"\x10"
            + long_varint(e.decoded_size)
            + b"\x18\x81\x00"
            for e in all
        ],
    ),
    "metadata in two parts": lambda: build(
        CHUNKS, metadata=field(1, field(1, 1) + field(2, 4)) + field(1, field(3, 4))
    ),
    "compressed by hand, zstd": lambda: build(
        [zstd_chunk([record]) for record in RECORDS[:2]] + CHUNKS[2:]
    ),
    "compressed by hand, snappy": lambda: build(
        [snappy_chunk([record]) for record in RECORDS[:2]] + CHUNKS[2:]
    ),
    "codecs mixed": lambda: build(
        [snappy_chunk(RECORDS[:1]), zstd_chunk(RECORDS[1:2]), *CHUNKS[2:]]
    ),
    "simple and transposed mixed": lambda: build(
        [CHUNKS[0], opaque_chunk(RECORDS[1:2]), *CHUNKS[2:]]
    ),
    "padded": lambda: build(CHUNKS, padded=True),
    "chunk that the index does not name": lambda: build(
        [CHUNKS[0], simple_chunk([b"hidden"]), *CHUNKS[1:]],
        index=lambda all: [all[0], *all[2:]],
        num_chunks=4,
        num_records=4,
    ),
    "unknown chunk without records": lambda: build(
        [CHUNKS[0], Chunk(b"?", b"unknown"), *CHUNKS[1:]],
        index=lambda all: [all[0], *all[2:]],
        num_chunks=4,
        num_records=4,
    ),
    "transposed footer": lambda: build(CHUNKS, footer=opaque_chunk),
    "compressed footer": lambda: build(CHUNKS, footer=lambda records: zstd_chunk(list(records))),
}


def long_varint(value: int) -> bytes:
    """With three groups more than it needs."""
    short = varint(value)
    return short[:-1] + bytes([short[-1] | 128, 128, 128, 0])


@in_one("case", READABLE)
def test_unusual_file_is_read(case, any_mode: Implementation, tmp_path) -> None:
    (tmp_path / "file").write_bytes(READABLE[case]())
    reader = any_mode.reader(str(tmp_path / "file"))
    assert reader.ok()
    assert reader.num_records() == 4
    assert reader.read_all() == RECORDS
    assert reader.read([3, 1, 2]) == [RECORDS[3], RECORDS[1], RECORDS[2]]
    assert [reader.read() for _ in range(4)] == RECORDS


REFUSED = {
    "wrong magic": lambda: build(CHUNKS, postscript=lambda at: postscript(at, magic=MAGIC + 1)),
    "no magic": lambda: build(CHUNKS, postscript=lambda at: field(1, at)),
    "magic in two halves": lambda: build(
        CHUNKS, postscript=lambda at: postscript(at, magic=MAGIC & 0xFFFFFFFF)
    ),
    "version 0": lambda: build(CHUNKS, version=0),
    "version 2": lambda: build(CHUNKS, version=2),
    "no version": lambda: build(CHUNKS, version=None),
    "no footer offset": lambda: build(CHUNKS, postscript=lambda at: field(2, MAGIC)),
    "postscript that is not a message": lambda: build(CHUNKS, postscript=lambda at: b"\xff\xff"),
    "empty postscript": lambda: build(CHUNKS, postscript=lambda at: b""),
    "metadata without its message": lambda: build(CHUNKS, metadata=field(2, 1)),
    "metadata that is not a message": lambda: build(CHUNKS, metadata=b"\xff\xff\xff"),
    "no metadata": lambda: build(CHUNKS, metadata=b""),
    "footer offset at the padding": lambda: build(
        CHUNKS[:1], postscript=lambda at: postscript(at + 30)
    ),
    "footer offset within a chunk": lambda: build(CHUNKS, postscript=lambda at: postscript(at + 1)),
    "footer offset beyond the file": lambda: build(CHUNKS, postscript=lambda at: postscript(2**40)),
    "footer offset of 2^64 - 1": lambda: build(CHUNKS, postscript=lambda at: postscript(2**64 - 1)),
    "footer offset at the first record": lambda: build(
        CHUNKS, postscript=lambda at: postscript(64)
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_file_that_is_none_is_a_stored_error(
    case, implementation: Implementation, tmp_path
) -> None:
    (tmp_path / "file").write_bytes(REFUSED[case]())
    reader = implementation.reader(str(tmp_path / "file"))
    assert (reader.ok(), reader.is_open(), reader.num_records()) == (False, True, 0)
    assert reader.writer_options_string() is None
    for call in (reader.read, reader.read_all, lambda: reader.read([0]), reader.close):
        with pytest.raises(RuntimeError):
            call()


def test_file_without_writer_options_opens(any_mode: Implementation, tmp_path, caplog) -> None:
    """Those of before October 2022."""
    (tmp_path / "file").write_bytes(build(CHUNKS, writer_options=None))
    reader = any_mode.reader(str(tmp_path / "file"))
    assert reader.writer_options_string() is None
    assert reader.read_all() == RECORDS
    assert any_mode.data_source(tmp_path / "file")[3] == b"fourth"
    assert caplog.records == []


@pytest.mark.parametrize("options", ["", "zstd:3", "group_size:1", "group_size:x,zstd"])
def test_source_refuses_writer_options_without_a_group_size(
    options, any_mode: Implementation, tmp_path
) -> None:
    """The pattern wants a comma. No options at all are as good as absent ones."""
    (tmp_path / "file").write_bytes(build(CHUNKS, writer_options=options))
    assert any_mode.reader(str(tmp_path / "file")).read([3]) == [b"fourth"]
    source = any_mode.data_source(tmp_path / "file")
    if not options:
        assert source[3] == b"fourth"
        return
    with pytest.raises(ValueError):
        source[3]


def test_writer_options_are_given_as_they_are(any_mode: Implementation, tmp_path) -> None:
    for number, options in enumerate(["", "anything at all", "größe,group_size:1,"]):
        (tmp_path / f"{number}").write_bytes(build(CHUNKS, writer_options=options))
        assert any_mode.reader(str(tmp_path / f"{number}")).writer_options_string() == options


def test_group_size_is_that_of_the_chunks(any_mode: Implementation, tmp_path) -> None:
    """And not that of the recorded options."""
    records = [b"%d" % number for number in range(10)]
    chunks = [simple_chunk(records[at : at + 4]) for at in range(0, 10, 4)]
    (tmp_path / "file").write_bytes(build(chunks, writer_options="group_size:1,uncompressed"))
    reader = any_mode.reader(str(tmp_path / "file"))
    assert reader.read_all() == records
    assert reader.read([9, 0, 5]) == [b"9", b"0", b"5"]
    assert reader.read(3, 9) == records[3:9]
