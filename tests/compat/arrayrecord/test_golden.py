"""Whole files by their SHA-256: the same from the original, from ours and from the test builder."""

import hashlib
from functools import cache

import pytest
from file_builder import walk, written
from highway_hash import highway_hash
from implementations import Implementation

DIGITS = [b"%d" % number for number in range(10)]
FIRST_BYTES = bytes.fromhex(
    "83af70d10d884a3f 0000000000000000 4000000000000000 91bac23c9287e1a9"
    "0000000000000000 e19f13c0e9b1c372 7300000000000000 0000000000000000"
)
GOLDEN = {
    "no records": (
        [],
        1,
        False,
        131072,
        "bb7d9c8ed25aa0ec5f40ee07e444096b2b58697cb675400fdadaedfab1ce2c40",
    ),
    "ten digits": (
        DIGITS,
        1,
        False,
        131072,
        "77d6a4c6f142fefb8ac3a71181129513d02addad5915d3c59f5fdcc75cfa0be1",
    ),
    "groups of three": (
        DIGITS,
        3,
        False,
        131072,
        "ecad8396a2d43a03b0646cf850ecc07d70998e5f6a3d1fb383004a9ae6f46004",
    ),
    "padded": (
        DIGITS,
        1,
        True,
        786432,
        "e672aede04d7c3c2a444b93d063628b32d4ecf40fe267033adcb048eb66903d8",
    ),
    "70,000 empty records in one chunk": (
        [b""] * 70000,
        70000,
        False,
        196608,
        "7e9dfa15314545a9ddb135625f211c1bf74d101372dd75303c9abcae91c11449",
    ),
    "a record across a block border": (
        [b"a" * 70000, b"", b"b"],
        1,
        False,
        196608,
        "cd885f89fc11a0f897e348ef2c117d3bf2355cbc2382f8cd601720a383f0a51b",
    ),
    "a chunk header across a block border": (
        [bytes(65408)],
        1,
        False,
        196608,
        "80f4ab2fb5cb58ef01e4c4718a2a201f86b00d48a13a76787b28e6f14d9afe8a",
    ),
}
HASHES = [
    (b"", 0x72C3B1E9C0139FE1),
    (bytes(16), 0x6700DEC24D16C530),
    (bytes(8) + b"\x40" + bytes(7), 0x3F4A880DD170AF83),
    (b"shardmill", 0xBEE39956503F6183),
    (bytes(range(100)), 0xE809487465A44F74),
]


def file_of(
    records: list[bytes], group_size: int, padded: bool, any_mode: Implementation, path
) -> bytes:
    options = f"group_size:{group_size},uncompressed" + (
        ",pad_to_block_boundary:true" if padded else ""
    )
    return any_mode.write(path, records, options).read_bytes()


@pytest.mark.parametrize("case", GOLDEN)
def test_uncompressed_file_has_the_known_hash(
    case: str, any_mode: Implementation, tmp_path
) -> None:
    records, group_size, padded, size, sha256 = GOLDEN[case]
    file = file_of(records, group_size, padded, any_mode, tmp_path / "file")
    assert len(file) == size
    assert file[:64] == FIRST_BYTES
    assert hashlib.sha256(file).hexdigest() == sha256


@pytest.mark.parametrize("case", GOLDEN)
def test_builder_of_the_tests_writes_the_known_file(case: str) -> None:
    records, group_size, padded, _, sha256 = GOLDEN[case]
    assert hashlib.sha256(written(records, group_size, padded=padded)).hexdigest() == sha256


@pytest.mark.parametrize(
    ("data", "expected"), HASHES, ids=["empty", "16 zeros", "signature", "word", "100 bytes"]
)
def test_hash_of_the_tests_has_the_known_values(data: bytes, expected: int) -> None:
    assert highway_hash(data) == expected


def test_padded_file_has_every_chunk_but_the_first_on_a_block_border(
    any_mode: Implementation, tmp_path
) -> None:
    records = [b"a", b"b" * 70000, b"", b"c" * 65495, b"d" * 65460]
    chunks = walk(file_of(records, 1, True, any_mode, tmp_path / "file"))
    users = [chunk.begin for chunk in chunks if chunk.kind == b"r"][: len(records)]
    assert users[0] == 64
    assert [begin % 65536 for begin in users[1:]] == [0] * 4
    assert any_mode.reader(str(tmp_path / "file")).read_all() == records


@cache
def near_a_block_border(length: int) -> bytes:
    """From the builder."""
    return written([bytes(65000), b"", b"x" * length])


def test_file_whose_chunks_end_near_a_block_border_equals_that_of_the_builder(
    any_mode: Implementation, tmp_path
) -> None:
    """The last record moves a header, data, the footer and its padding across the border."""
    for length in range(0, 430, 3):
        found = file_of([bytes(65000), b"", b"x" * length], 1, False, any_mode, tmp_path / "file")
        assert found == near_a_block_border(length), length


@pytest.mark.parametrize("room", [41, 40, 39, 25, 24, 16, 1, 0])
def test_padding_needs_room_for_its_header(room: int, any_mode: Implementation, tmp_path) -> None:
    records = [b"x" * (65536 - 64 - 40 - 5 - room), b"y"]
    found = file_of(records, 1, True, any_mode, tmp_path / "file")
    assert walk(found)[1].end == 65536 - room
    assert found == written(records, padded=True)
