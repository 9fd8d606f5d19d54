"""Every codec, group size and number of records.

We read theirs, they read ours, uncompressed files are the same bytes.
"""

from functools import cache
from pathlib import Path

import pytest
from breadth import in_one
from file_builder import walk
from implementations import CODECS, ORIGINAL, STRICT, Implementation, numbered

GROUPS = [1, 2, 7, 256, 65536]
LENGTHS = [0, 1, 65535, 65536, 65537, 300000]
READER_OPTIONS = [
    "",
    "readahead_buffer_size:16M",
    "index_storage_option:offloaded,footer_prefetch_bytes:0",
    "max_parallelism:0,readahead_buffer_size:0",
]


def counts(group_size: int) -> list[int]:
    return sorted(
        {0, 1, group_size - 1, group_size, group_size + 1, 5000}
        if group_size > 1
        else {0, 1, 2, 5000}
    )


#: Not slow: each number of records in groups of each size, each codec with groups of each size.
MATRIX = [
    pytest.param(
        codec, group, count, marks=() if (row + column) % len(CODECS) == place else pytest.mark.slow
    )
    for place, codec in enumerate(CODECS)
    for row, group in enumerate(GROUPS)
    for column, count in enumerate(counts(group))
]
matrix = pytest.mark.parametrize(("codec", "group", "count"), MATRIX)


def places(count: int) -> list[int]:
    """Enough of them to see each end, neighbours, and jumps; the last first."""
    some = {0, 1, count // 3, count // 2, count // 2 + 1, count - 2, count - 1}
    return sorted((place for place in some if 0 <= place < count), reverse=True)


def check(reader, records: list[bytes]) -> None:
    """All of the ways to read give the records."""
    count = len(records)
    assert reader.ok()
    assert reader.num_records() == count
    assert reader.read_all() == records
    wanted = places(count)
    assert reader.read(wanted) == [records[place] for place in wanted]
    for place in wanted:
        assert reader.read([place]) == [records[place]]
        reader.seek(place)
        assert reader.record_index() == place
        assert reader.read() == records[place]
        assert reader.record_index() == place + 1
    if count:
        middle = max(count // 2, 1)
        assert reader.read(0, middle) == records[:middle]
        assert reader.read(-middle, count) == records[-middle:]
    reader.seek(0)
    assert [reader.read() for _ in range(min(count, 20))] == records[:20]
    reader.seek(count)
    with pytest.raises(IndexError):
        reader.read()
    reader.close()


@matrix
def test_we_read_the_files_of_the_original(codec, group, count, tmp_path: Path) -> None:
    records = numbered(count)
    path = ORIGINAL.write(tmp_path / "file", records, f"group_size:{group},{codec}")
    check(STRICT.reader(str(path)), records)


@matrix
def test_the_original_reads_our_files(codec, group, count, tmp_path: Path) -> None:
    records = numbered(count)
    path = STRICT.write(tmp_path / "file", records, f"group_size:{group},{codec}")
    # An offloaded index is read anew for each look-up: too slow for many chunks.
    options = READER_OPTIONS if count / group < 100 else READER_OPTIONS[:2]
    for option in options:
        check(ORIGINAL.reader(str(path), option), records)


@pytest.mark.parametrize(
    ("group", "count"), [(group, count) for group in GROUPS for count in counts(group)]
)
def test_uncompressed_files_are_the_same_bytes(group, count, tmp_path: Path) -> None:
    options = f"group_size:{group},uncompressed"
    theirs = ORIGINAL.write(tmp_path / "theirs", numbered(count), options)
    ours = STRICT.write(tmp_path / "ours", numbered(count), options)
    assert ours.read_bytes() == theirs.read_bytes()


@pytest.mark.parametrize("options", READER_OPTIONS)
@pytest.mark.parametrize("codec", CODECS)
def test_files_read_the_same_under_every_reader_option(
    codec, options, any_mode: Implementation, tmp_path
) -> None:
    records = numbered(600)
    path = ORIGINAL.write(tmp_path / "file", records, f"group_size:7,{codec}")
    check(any_mode.reader(str(path), options), records)


@in_one("padded", ["false", "true"])
@in_one("group", [1, 4, 6])
@in_one("codec", CODECS)
@in_one(
    "writing, reading",
    [(ORIGINAL, STRICT), (STRICT, ORIGINAL), (STRICT, STRICT)],
    ids=["theirs", "by the original", "ours"],
)
def test_records_around_the_size_of_a_block(
    writing, reading, codec, group, padded, tmp_path: Path
) -> None:
    """Records that compress to nothing and records that do not."""
    records = around_the_size_of_a_block()
    path = writing.write(
        tmp_path / "file", records, f"group_size:{group},{codec},pad_to_block_boundary:{padded}"
    )
    check(reading.reader(str(path)), records)


@cache
def around_the_size_of_a_block() -> list[bytes]:
    return [bytes(length) for length in LENGTHS] + [noise(length) for length in reversed(LENGTHS)]


def noise(length: int) -> bytes:
    """Bytes that no codec makes shorter, the same in each run."""
    value, out = 12345, bytearray()
    while len(out) < length:
        value = (value * 6364136223846793005 + 1442695040888963407) % 2**64
        out += value.to_bytes(8, "little")[3:]
    return bytes(out[:length])


@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize("codec", CODECS)
def test_padded_chunks_begin_on_block_borders(
    codec, group, any_mode: Implementation, tmp_path: Path
) -> None:
    options = f"group_size:{group},{codec},pad_to_block_boundary:true"
    path = any_mode.write(tmp_path / "file", numbered(8), options)
    chunks = [chunk.begin for chunk in walk(path.read_bytes()) if chunk.kind == b"r"]
    users = chunks[: -(-8 // group)]
    assert users == [64] + [65536 * number for number in range(1, len(users))]
    check(any_mode.reader(str(path)), numbered(8))


@pytest.mark.parametrize(
    ("codec", "count"),
    [
        pytest.param(
            codec, count, marks=pytest.mark.slow if count == 5000 and codec != "zstd" else ()
        )
        for codec in CODECS
        for count in (0, 1, 5000)
    ],
)
def test_our_file_begins_and_ends_as_the_format_says(codec, count, tmp_path: Path) -> None:
    file = STRICT.write(tmp_path / "file", numbered(count), codec).read_bytes()
    chunks = walk(file)
    assert (
        file[:64]
        .hex()
        .startswith("83af70d10d884a3f0000000000000000400000000000000091bac23c9287e1a9")
    )
    assert len(file) % 65536 == 0
    assert len(file) >= 131072
    assert [chunk.begin for chunk in chunks[:1]] == [0]
    assert chunks[-2][:2] == (b"r", len(file) - 65536)
    assert [chunk.kind for chunk in chunks] == [b"s"] + [b"r"] * (count + 1) + [b"p", b"r", b"p"]
    assert [chunk.num_records for chunk in chunks if chunk.kind == b"r"] == [1] * count + [
        count + 1,
        3,
    ]


def test_many_empty_records_in_a_compressed_chunk_take_one_byte_each(
    any_mode: Implementation, tmp_path: Path
) -> None:
    path = any_mode.write(tmp_path / "file", [b""] * 600, "group_size:256,zstd")
    begins = [(chunk.begin, chunk.end) for chunk in walk(path.read_bytes())[1:4]]
    assert begins == [(64, 320), (320, 576), (576, 664)]
    check(any_mode.reader(str(path)), [b""] * 600)
