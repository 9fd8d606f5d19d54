"""Cut and changed files: what the reader says of them, on the original and on ours.

tests/faults holds the hostile files, which the original does not survive.
"""

import pytest
from breadth import in_one, sample
from file_builder import Found, walk
from implementations import CODECS, ORIGINAL, STRICT, Implementation

TEN = [b"record %d " % number * 9 for number in range(10)]


@pytest.fixture(
    params=[
        (codec, kind, group)
        for codec in CODECS
        for kind in ("simple", "transpose")
        for group in (1, 3)
    ],
    ids=str,
)
def layout(request) -> tuple[str, int]:
    codec, kind, group = request.param
    return f"group_size:{group},{codec}" + (",transpose" if kind == "transpose" else ""), group


def parts(file: bytes) -> tuple[list[Found], Found, Found, list[Found]]:
    """The chunks of users, the footer, the postscript, the paddings."""
    chunks = walk(file)
    data = [chunk for chunk in chunks if chunk.kind in (b"r", b"t")]
    return data[:-2], data[-2], data[-1], [chunk for chunk in chunks if chunk.kind == b"p"]


def flipped(file: bytes, place: int, path) -> str:
    path.write_bytes(file[:place] + bytes([file[place] ^ 1 << place % 8]) + file[place + 1 :])
    return str(path)


def failing_calls(reader) -> list:
    return [
        reader.read,
        reader.read_all,
        lambda: reader.read([0]),
        lambda: reader.read([]),
        lambda: reader.seek(0),
    ]


def assert_unreadable(reader) -> None:
    assert (reader.ok(), reader.is_open(), reader.num_records()) == (False, True, 0)
    assert reader.writer_options_string() is None
    for call in failing_calls(reader):
        with pytest.raises(RuntimeError):
            call()
    with pytest.raises(IndexError):
        reader.read(0, 1)
    with pytest.raises(RuntimeError):
        reader.close()
    assert not reader.is_open()


LENGTHS = {
    "a byte short": lambda file: file[:-1],
    "a block short": lambda file: file[:-65536],
    "a byte long": lambda file: file + b"\0",
    "a block long": lambda file: file + bytes(65536),
    "no byte": lambda file: b"",
    "one byte": lambda file: file[:1],
    "its signature alone": lambda file: file[:64],
    "one block": lambda file: file[:65536],
    "zeros": lambda file: bytes(131072),
    "text": lambda file: b"text" * 40_000,
    "without its first block": lambda file: file[65536:],
}


@pytest.mark.parametrize("change", LENGTHS)
def test_file_of_another_length_cannot_be_opened(
    change, implementation: Implementation, file_of
) -> None:
    path = file_of(TEN)
    path.write_bytes(LENGTHS[change](path.read_bytes()))
    reader = implementation.reader(str(path))
    if implementation is ORIGINAL and change in ("a block short", "one block"):
        # It takes the signature for the postscript, and returns records that were never written.
        assert not reader.ok()
        assert (reader.read_all(), reader.read([0])) == ([], [b""])
    else:
        assert_unreadable(reader)


def test_file_twice_is_the_file(any_mode: Implementation, file_of) -> None:
    """The end is that of a whole file, and its offsets lead into the first copy."""
    path = file_of(TEN)
    path.write_bytes(path.read_bytes() * 2)
    assert any_mode.reader(str(path)).read_all() == TEN


def test_bit_of_a_chunk_fails_the_calls_that_touch_it(
    layout, implementation: Implementation, file_of, tmp_path
) -> None:
    options, group = layout
    file = file_of(TEN, options).read_bytes()
    users = parts(file)[0]
    assert len(users) == -(-10 // group)
    chunk = users[1]
    for place in [*sample(range(chunk.begin, chunk.end, 7), 3), chunk.begin, chunk.end - 1]:
        reader = implementation.reader(flipped(file, place, tmp_path / "flipped"))
        assert (reader.ok(), reader.num_records()) == (True, 10)
        for number in range(10):
            if number // group == 1:
                with pytest.raises(RuntimeError):
                    reader.read([number])
                with pytest.raises(RuntimeError):
                    reader.read(number, number + 1)
            else:
                assert reader.read([number]) == [TEN[number]]
        for call in (
            reader.read_all,
            lambda: reader.read([0, group]),  # noqa: B023
            lambda: reader.read(0, 10),  # noqa: B023
        ):
            with pytest.raises(RuntimeError):
                call()
        assert reader.ok()
        assert reader.read(group * 2, 10) == TEN[group * 2 :]


@in_one("options", ["", "max_parallelism:0", "readahead_buffer_size:16M"])
def test_sequential_read_of_a_damaged_chunk_fails_the_reader_for_good(
    layout, options, implementation: Implementation, file_of, tmp_path
) -> None:
    writer_options, group = layout
    file = file_of(TEN, writer_options).read_bytes()
    place = parts(file)[0][1].begin + 45
    reader = implementation.reader(flipped(file, place, tmp_path / "flipped"), options)
    if not options:
        assert [reader.read() for _ in range(group)] == TEN[:group]
    reader.seek(group)
    with pytest.raises(RuntimeError):
        reader.read()
    assert (reader.ok(), reader.is_open(), reader.num_records(), reader.record_index()) == (
        False,
        True,
        0,
        0,
    )
    for call in failing_calls(reader):
        with pytest.raises(RuntimeError):
            call()
    with pytest.raises(IndexError):
        reader.read(0, 1)
    with pytest.raises(RuntimeError):
        reader.close()
    assert not reader.is_open()


def test_bit_of_the_footer_or_the_postscript_fails_every_call(
    layout, implementation: Implementation, file_of, tmp_path
) -> None:
    file = file_of(TEN, layout[0]).read_bytes()
    _, footer, postscript, _ = parts(file)
    for chunk in (footer, postscript):
        for place in [*range(chunk.begin, chunk.end, 11), chunk.end - 1]:
            assert_unreadable(implementation.reader(flipped(file, place, tmp_path / "flipped")))


@pytest.mark.parametrize("padded", ["false", "true"])
def test_bit_of_the_signature_or_a_padding_changes_nothing(
    padded, any_mode: Implementation, file_of, tmp_path
) -> None:
    file = file_of(TEN[:3], f"pad_to_block_boundary:{padded}").read_bytes()
    places = list(range(0, 64, 5))
    for chunk in parts(file)[3]:
        places += [chunk.begin, chunk.begin + 30, chunk.begin + 39, chunk.begin + 50, chunk.end - 1]
    for place in places:
        # The block headers between the chunks are never read.
        reader = any_mode.reader(flipped(file, place, tmp_path / "flipped"))
        assert reader.read_all() == TEN[:3], place
        assert [reader.read() for _ in range(3)] == TEN[:3]


@pytest.mark.parametrize("codec", CODECS)
def test_block_header_within_a_record_is_checked(
    codec, any_mode: Implementation, file_of, tmp_path
) -> None:
    noise = bytes(value * 7919 % 251 ^ value >> 5 & 255 for value in range(140_000))
    records = [noise, b"after"]
    file = file_of(records, codec).read_bytes()
    begin, end = parts(file)[0][0][1:3]
    borders = [border for border in range(65536, end, 65536) if border > begin]
    assert codec not in ("uncompressed", "snappy") or len(borders) >= 1
    for border in borders:
        for place in range(border, border + 24):
            reader = any_mode.reader(flipped(file, place, tmp_path / "flipped"))
            with pytest.raises(RuntimeError):
                reader.read([0])
            assert reader.read([1]) == [b"after"]


def test_damage_is_an_error_of_the_constructor_in_the_strict_mode(file_of, tmp_path) -> None:
    file = file_of(TEN).read_bytes()
    _, footer, postscript, _ = parts(file)
    for place in (footer.begin + 3, footer.end - 1, postscript.begin + 50):
        with pytest.raises(RuntimeError) as raised:
            STRICT.reader(flipped(file, place, tmp_path / "flipped"))
        assert isinstance(raised.value, ValueError)
        assert str(tmp_path / "flipped") in str(raised.value)
