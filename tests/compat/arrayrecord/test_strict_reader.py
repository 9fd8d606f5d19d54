"""What our reader adds to the original: errors at once, and the ways of a Python sequence."""

import pathlib

import pytest
from file_builder import walk, written
from implementations import ORIGINAL, STRICT, numbered
from shardmill.arrayrecord import ArrayRecordDataSource, ArrayRecordReader, ArrayRecordWriter
from shardmill.errors import Error, FormatError, RecordError

TEN = [b"%d" % number for number in range(10)]


@pytest.fixture
def ten(file_of):
    with ArrayRecordReader(file_of(TEN)) as reader:
        yield reader


def test_missing_file_raises_at_once(tmp_path) -> None:
    with pytest.raises(FileNotFoundError, match="missing") as raised:
        ArrayRecordReader(tmp_path / "missing")
    assert isinstance(raised.value, Error)


def test_damaged_file_raises_at_once_and_names_the_file(tmp_path) -> None:
    for number, content in enumerate(
        [b"", b"x", bytes(131072), written(TEN)[:-1], written(TEN) + b"x", b"text" * 32768]
    ):
        path = tmp_path / f"damaged{number}"
        path.write_bytes(content)
        with pytest.raises(RecordError, match=path.name) as raised:
            ArrayRecordReader(path)
        assert isinstance(raised.value, FormatError)
        assert isinstance(raised.value, ValueError)
        assert isinstance(raised.value, RuntimeError)


def test_directory_raises_at_once(tmp_path) -> None:
    with pytest.raises((OSError, RuntimeError)):
        ArrayRecordReader(tmp_path)


def test_unknown_keywords_are_type_errors(file_of, tmp_path) -> None:
    with pytest.raises(TypeError):
        ArrayRecordReader(file_of(TEN), no_such=1)
    with pytest.raises(TypeError):
        ArrayRecordWriter(tmp_path / "new", no_such=1)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("place", [-1, -10, -(2**63)])
def test_negative_seek_is_an_index_error_that_leaves_the_cursor(ten, place) -> None:
    ten.seek(4)
    with pytest.raises(IndexError):
        ten.seek(place)
    assert (ten.ok(), ten.record_index()) == (True, 4)


def test_index_beyond_the_end_is_an_index_error_as_well(ten) -> None:
    with pytest.raises(IndexError) as raised:
        ten.read([10])
    assert isinstance(raised.value, RuntimeError)
    assert ten.ok()


@pytest.mark.parametrize(
    "kind", [str, pathlib.Path, lambda path: str(path).encode()], ids=["str", "Path", "bytes"]
)
def test_every_kind_of_path_is_taken(kind, tmp_path) -> None:
    path = tmp_path / "ünicode"
    with ArrayRecordWriter(kind(path)) as writer:
        writer.write(b"a")
    assert ORIGINAL.reader(str(path)).read_all() == [b"a"]
    with ArrayRecordReader(kind(path)) as reader:
        assert reader.read_all() == [b"a"]


def test_block_closes_the_reader(file_of) -> None:
    with ArrayRecordReader(file_of(TEN)) as reader:
        assert reader.read() == b"0"
    assert (reader.ok(), reader.is_open()) == (False, False)
    with pytest.raises(RuntimeError):
        reader.read_all()
    with pytest.raises(KeyError), ArrayRecordReader(file_of(TEN)) as reader:
        raise KeyError
    assert not reader.is_open()


def test_length_and_indices(ten) -> None:
    assert len(ten) == 10
    assert [ten[number] for number in range(10)] == TEN
    assert [ten[number] for number in range(-10, 0)] == TEN
    for outside in (10, -11, 2**40, -(2**40), 2**70):
        with pytest.raises(IndexError):
            ten[outside]
    for wrong in (1.0, "1", None, [1]):
        with pytest.raises(TypeError):
            ten[wrong]


@pytest.mark.parametrize("group_size", [1, 4])
def test_slices_are_those_of_a_list(group_size, file_of) -> None:
    reader = ArrayRecordReader(file_of(TEN, f"group_size:{group_size}"))
    bounds = [None, 0, 1, 5, 9, 10, 11, 100, -1, -5, -10, -11, -100]
    for start in bounds:
        for stop in bounds:
            for step in (None, 1, 2, 3, 20, -1, -2, -20):
                assert reader[start:stop:step] == TEN[start:stop:step], (start, stop, step)
    with pytest.raises(ValueError):
        reader[::0]


@pytest.mark.parametrize("group_size", [1, 64])
def test_iteration_goes_over_the_whole_file_beside_the_cursor(group_size, file_of) -> None:
    records = numbered(1000)
    reader = ArrayRecordReader(file_of(records, f"group_size:{group_size}"))
    reader.seek(500)
    assert list(reader) == records
    assert reader.record_index() == 500
    first, second = iter(reader), iter(reader)
    assert [next(first), next(first), next(second), next(first)] == [
        records[0],
        records[1],
        records[0],
        records[2],
    ]
    assert reader.read() == records[500]
    assert list(first) == records[3:]
    with pytest.raises(StopIteration):
        next(first)
    assert b"record 7 record 7 " in reader


def test_iteration_of_an_empty_file_ends_at_once(file_of) -> None:
    reader = ArrayRecordReader(file_of([]))
    assert (list(reader), len(reader), reader[:]) == ([], 0, [])
    for outside in (0, -1):
        with pytest.raises(IndexError):
            reader[outside]


def test_iteration_over_a_damaged_chunk_raises_and_spares_the_reader(file_of, tmp_path) -> None:
    file = bytearray(file_of(TEN).read_bytes())
    file[walk(bytes(file))[4].begin + 45] ^= 1
    (tmp_path / "flipped").write_bytes(file)
    reader = ArrayRecordReader(tmp_path / "flipped")
    seen = []
    with pytest.raises(RecordError, match="flipped"):
        for record in reader:
            seen.append(record)
    assert seen == TEN[:3]
    assert reader.ok()
    assert reader[9] == b"9"


@pytest.mark.parametrize("threads", [1, 2, 8, None])
def test_number_of_threads_changes_no_record(threads, file_of) -> None:
    records = numbered(3000)
    path = file_of(records, "group_size:7")
    reader = ArrayRecordReader(path, threads=threads)
    assert reader.read_all() == list(reader) == records
    assert reader.read(range(2999, -1, -1)) == records[::-1]
    assert reader.read(100, 2000) == records[100:2000]
    assert list(ArrayRecordDataSource(path, threads=threads)) == records


@pytest.mark.parametrize("wrong", [-1, 1.5, "2"])
def test_wrong_number_of_threads_is_refused(wrong, file_of, tmp_path) -> None:
    path = file_of(TEN)
    for make in (ArrayRecordReader, ArrayRecordDataSource):
        with pytest.raises((ValueError, TypeError, OverflowError)):
            make(path, threads=wrong)
    with pytest.raises((ValueError, TypeError, OverflowError)):
        ArrayRecordWriter(tmp_path / "new", threads=wrong)
    assert not (tmp_path / "new").exists()


def test_verify_says_which_hashes_are_checked(tmp_path) -> None:
    """A bit of an uncompressed record, and one of a chunk header."""
    file = written([b"first", b"second", b"third"])
    chunk = walk(file)[2]
    for place, levels in ((chunk.end - 1, ["full"]), (chunk.begin + 1, ["full", "header"])):
        path = tmp_path / f"flipped{place}"
        path.write_bytes(file[:place] + bytes([file[place] ^ 1]) + file[place + 1 :])
        for verify in levels:
            reader = ArrayRecordReader(path, verify=verify)
            for call in (
                lambda: reader.read([1]),  # noqa: B023
                lambda: reader[1],  # noqa: B023
                reader.read_all,
                lambda: reader.view(1),  # noqa: B023
            ):
                with pytest.raises(RecordError):
                    call()
            assert reader[2] == b"third"
            with pytest.raises(RecordError):
                ArrayRecordDataSource(path, verify=verify)[1]
    unchecked = tmp_path / f"flipped{chunk.end - 1}"
    for verify in ("header", "none"):
        reader = ArrayRecordReader(unchecked, verify=verify)
        assert [reader[1], reader.read([1])[0], reader.read_all()[1]] == [b"secone"] * 3
        assert ArrayRecordDataSource(unchecked, verify=verify)[1] == b"secone"


@pytest.mark.parametrize("wrong", ["Full", "", "all", 1, None])
def test_wrong_verify_is_refused(wrong, file_of) -> None:
    with pytest.raises((ValueError, TypeError)):
        ArrayRecordReader(file_of(TEN), verify=wrong)
    # A source takes options on trust until it reads, as the original does.
    with pytest.raises((ValueError, TypeError)):
        ArrayRecordDataSource(file_of(TEN), verify=wrong)[0]


def test_file_that_was_replaced_is_read_anew(tmp_path) -> None:
    """Files of one size, under one name, within one tick of the clock."""
    path = tmp_path / "file"
    for number in range(40):
        records = [b"%d" % number * (1 + (number + each) % 3) for each in range(10)]
        if number % 2:
            STRICT.write(path, records, "uncompressed")
        else:
            path.write_bytes(written(records))
        with ArrayRecordReader(path) as reader:
            assert (len(reader), reader.read_all()) == (10, records)
            assert [reader[each] for each in range(10)] == records


def test_open_reader_keeps_the_file_that_it_opened(tmp_path) -> None:
    path = STRICT.write(tmp_path / "file", [b"old"] * 1000)
    with ArrayRecordReader(path) as reader:
        STRICT.write(path, [b"new"] * 10)
        assert reader.read_all() == [b"old"] * 1000
        assert ArrayRecordReader(path).read_all() == [b"new"] * 10
        path.unlink()
        assert reader[999] == b"old"


def test_source_gives_batches_to_grain(file_of) -> None:
    source = ArrayRecordDataSource([file_of(TEN), file_of([b"x"])])
    assert source._getitems([10, 0, 0]) == source.__getitems__([10, 0, 0]) == [b"x", b"0", b"0"]
