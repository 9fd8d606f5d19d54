"""Transposed files: records of protobuf shape and others, and chunks by hand.

They are written by each side and read by the other.
"""

import itertools
import random

import pytest
from breadth import in_one, sample
from file_builder import build, field, raw_chunk, varint, walk
from implementations import CODECS, ORIGINAL, STRICT, Implementation
from transposed_builder import (
    FIXED32,
    FIXED64,
    GROUP_END,
    GROUP_START,
    INLINE,
    MESSAGE_START,
    NO_OP,
    OPAQUE,
    STRING,
    SUBMESSAGE_END,
    SUBMESSAGE_START,
    VARINT,
    State,
    message_chunk,
    opaque_chunk,
    tag,
    transposed_data,
)

GOLDEN_RECORDS = [bytes.fromhex("0896011203616263"), bytes.fromhex("0801"), b"xyz"]
GOLDEN = "001b040402040301020403010512080803010608080007010b0100020416010361626378797a0300"


def fixed(number: int, value: int, size: int) -> bytes:
    return varint(tag(number, FIXED32 if size == 4 else FIXED64)) + value.to_bytes(size, "little")


def group(number: int, content: bytes) -> bytes:
    return varint(tag(number, GROUP_START)) + content + varint(tag(number, GROUP_END))


def example(rng: random.Random, depth: int = 0) -> bytes:
    """A message of random fields, many of which have the same number, as in tf.Example."""
    out = b""
    for _ in range(rng.randrange(6)):
        number = rng.choice([1, 1, 2, 3, 15, 16, 2047, 2048, 536870911])
        kind = rng.randrange(8 if depth < 6 else 5)
        if kind == 0:
            out += field(
                number, rng.choice([0, 1, 2, 3, 4, 127, 128, 300, 2**32, 2**63, 2**64 - 1])
            )
        elif kind == 1:
            out += fixed(number, rng.getrandbits(32), 4)
        elif kind == 2:
            out += fixed(number, rng.getrandbits(64), 8)
        elif kind in (3, 4):
            out += field(number, rng.randbytes(rng.choice([0, 1, 5, 127, 128, 400])))
        elif kind in (5, 6):
            out += field(number, example(rng, depth + 1))
        else:
            out += group(number, example(rng, depth + 1))
    return out


def nested(depth: int) -> bytes:
    out = field(1, 5)
    for _ in range(depth):
        out = field(1, out)
    return out


def protos() -> list[bytes]:
    rng = random.Random(4)
    return [example(rng) for _ in range(300)]


RECORDS = {
    "protos": protos(),
    "examples": [
        field(1, b"".join(
            field(1, field(1, b"label") + field(2, field(3, field(1, n % 10))))
            for n in range(count)
        ))
        for count in range(60)
    ],
    "opaque": [random.Random(9).randbytes(length) for length in (1, 3, 1000, 0, 70_000)]
    + [b"text of no protobuf"] * 20,
    "mixed": [
        record
        for pair in zip(protos(), [b"\xff", b"", b"abc", b"\x08", b"\x00"] * 60)
        for record in pair
    ],
    "empty": [b""] * 50,
    "empty and more": [b"", b"\x08\x01", b"", b"", b"\x08\x01", b""],
    "one": [b"\x08\x01"],
    "none": [],
    # Every one of these is opaque: it would not come out as it went in.
    "not canonical": [
        b"\x88\x00\x01", b"\x08\x81\x00", b"\x08\x80\x80\x00", b"\x12\x83\x00abc", b"\x0b", b"\x0c",
        b"\x0b\x14", b"\x0e", b"\x0f", b"\x00\x01", b"\x08" + b"\xff" * 10,
        b"\x08" + b"\xff" * 9 + b"\x7f", b"\x12\x04abc", b"\x0d\x01\x02", b"\x09\x01", b"\x08",
        b"\xf8\xff\xff\xff\xff\x01\x01", b"\x12" + b"\xff" * 9 + b"\x01", b"\x0b\x08\x01\x0c",
        b"\x0b\x0c\x0b\x0c",
    ],
    "deep": [nested(depth) for depth in (1, 2, 98, 99, 100, 101, 102, 150)] + [group(1, b"") * 3],
    "long runs": [
        field(1, 1) * 500, fixed(3, 9, 4) * 2000,
        field(2, b"x") * 1000, field(4, varint(1) * 3) * 100,
    ],
    "many kinds": [
        b"".join(field(n, n % 5) for n in range(1 + shift, 200 + shift)) for shift in range(10)
    ],
    "large": [
        field(1, bytes(300_000)) + field(2, b"end"), field(1, random.Random(1).randbytes(200_000)),
    ],
    "inner that is not a message": [
        field(1, b"\x08"), field(1, b"\x08\x01"), field(1, b""),
        field(1, b"\x0b"), field(1, b"\x0c"),
    ] * 5,
}  # fmt: skip


# One in five has each kind two or three times, and each codec with each size of groups.
@in_one(
    "kind, codec, group_size", sample(list(itertools.product(RECORDS, CODECS, [1, 4, 1000])), 5)
)
def test_transposed_records_come_back(kind, codec, group_size, tmp_path) -> None:
    records = RECORDS[kind]
    options = f"transpose,{codec},group_size:{group_size}"
    for writing, reading in ((ORIGINAL, STRICT), (STRICT, ORIGINAL), (STRICT, STRICT)):
        path = writing.write(tmp_path / f"{writing.name}", records, options)
        reader = reading.reader(str(path))
        assert reader.read_all() == records
        assert reader.read(range(len(records))[::-7]) == records[::-7]
        for number in range(0, len(records), 37):
            assert reader.read([number]) == [records[number]]
        assert [reader.read() for _ in range(min(len(records), 10))] == records[:10]


@pytest.mark.parametrize("codec", CODECS)
def test_every_chunk_of_a_transposed_file_is_transposed(
    codec, any_mode: Implementation, tmp_path
) -> None:
    path = any_mode.write(tmp_path / "file", RECORDS["mixed"], f"transpose,{codec},group_size:100")
    kinds = b"".join(chunk.kind for chunk in walk(path.read_bytes()))
    assert kinds == b"s" + b"t" * 6 + b"rprp"


@pytest.mark.parametrize("bucket", ["1", "100", "4K", "1G"])
@pytest.mark.parametrize("padded", ["true", "false"])
def test_bucket_size_and_padding_change_no_record(
    bucket, padded, any_mode: Implementation, tmp_path
) -> None:
    records = RECORDS["mixed"] + RECORDS["examples"]
    options = (
        f"transpose,transpose_bucket_size:{bucket},group_size:64,pad_to_block_boundary:{padded}"
    )
    path = any_mode.write(tmp_path / "file", records, options)
    for each in (any_mode, ORIGINAL):
        assert each.reader(str(path)).read_all() == records


def read(chunk, each: Implementation, path) -> list[bytes]:
    path.write_bytes(build([chunk]))
    return each.reader(str(path)).read_all()


def test_golden_chunk_reads(any_mode: Implementation, tmp_path) -> None:
    chunk = raw_chunk(b"t", bytes.fromhex(GOLDEN), GOLDEN_RECORDS)
    assert read(chunk, any_mode, tmp_path / "file") == GOLDEN_RECORDS


def test_builder_of_the_tests_makes_the_golden_chunk() -> None:
    states = [
        State(tag(2, STRING), 6, buffer=1),
        State(tag(1, VARINT), 8, subtype=1, buffer=0),
        State(tag(1, VARINT), 8, subtype=INLINE + 1),
        State(MESSAGE_START, 0),
        State(OPAQUE, 7, buffer=2),
    ]
    data = transposed_data([b"\x16\x01", b"\x03abc", b"xyz", b"\x03"], states, 4, b"\0")
    assert data.hex() == GOLDEN


@pytest.mark.parametrize("count", [1, 2, 4, 5, 6, 9, 300])
def test_opaque_records_read(count, any_mode: Implementation, tmp_path) -> None:
    records = [b"%d" % number * (number % 4) for number in range(count)]
    assert read(opaque_chunk(records), any_mode, tmp_path / "file") == records


MESSAGES = {
    "no field": ([], b""),
    "inline of 0": ([(tag(1, VARINT), INLINE, None)], field(1, 0)),
    "inline of 127": ([(tag(1, VARINT), INLINE + 127, None)], field(1, 127)),
    "varint of one byte": ([(tag(1, VARINT), 0, b"\x7f")], field(1, 127)),
    "varint of ten bytes": ([(tag(1, VARINT), 9, bytes([127] * 9 + [1]))], field(1, 2**64 - 1)),
    "fixed": (
        [(tag(1, FIXED32), None, b"abcd"), (tag(2, FIXED64), None, b"efghijkl")],
        b"\x11efghijkl\x0dabcd",
    ),
    "string": ([(tag(9, STRING), None, b"\x03abc")], field(9, b"abc")),
    "empty string": ([(tag(9, STRING), None, b"\x00")], field(9, b"")),
    "no-op": (
        [(NO_OP, None, None), (tag(1, VARINT), INLINE + 1, None), (NO_OP, None, None)],
        field(1, 1),
    ),
    "submessage": (
        [
            (tag(1, SUBMESSAGE_END), None, None),
            (tag(2, VARINT), INLINE + 3, None),
            (SUBMESSAGE_START, None, None),
        ],
        field(1, field(2, 3)),
    ),
    "empty submessage": (
        [(tag(1, SUBMESSAGE_END), None, None), (SUBMESSAGE_START, None, None)],
        field(1, b""),
    ),
    "submessage of a submessage": (
        [
            (tag(1, SUBMESSAGE_END), None, None),
            (tag(300, SUBMESSAGE_END), None, None),
            (tag(2, VARINT), INLINE + 3, None),
            (SUBMESSAGE_START, None, None),
            (tag(5, STRING), None, b"\x01x"),
            (SUBMESSAGE_START, None, None),
        ],
        field(1, field(5, b"x") + field(300, field(2, 3))),
    ),
    "group": (
        [
            (tag(4, GROUP_END), None, None),
            (tag(2, VARINT), INLINE, None),
            (tag(4, GROUP_START), None, None),
        ],
        group(4, field(2, 0)),
    ),
    "largest field number": ([(tag(536870911, VARINT), INLINE, None)], field(536870911, 0)),
}


@pytest.mark.parametrize("message", MESSAGES)
def test_message_by_hand_reads(message, any_mode: Implementation, tmp_path) -> None:
    steps, record = MESSAGES[message]
    assert read(message_chunk(steps, record), any_mode, tmp_path / "file") == [record]


def test_metadata_chunk_before_the_records_is_passed_over(
    any_mode: Implementation, tmp_path
) -> None:
    """The C++ writer may put one after the signature; the index does not name it."""
    metadata = opaque_chunk([b"metadata"], num_records=0)
    metadata = type(metadata)(b"m", metadata.data, 0, metadata.decoded_size)
    users = [opaque_chunk([b"a", b"b"]), opaque_chunk([b"c"])]
    file = build([metadata, *users], index=lambda index: index[1:], num_chunks=2, num_records=3)
    (tmp_path / "file").write_bytes(file)
    assert any_mode.reader(str(tmp_path / "file")).read_all() == [b"a", b"b", b"c"]
