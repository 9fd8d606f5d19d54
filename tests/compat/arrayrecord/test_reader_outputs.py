"""Records without a Python object each: Arrow arrays, buffers of the caller, views of the file."""

import gc

import pytest
from implementations import CODECS, numbered
from shardmill.arrayrecord import ArrayRecordReader

np = pytest.importorskip("numpy")

RECORDS = [*numbered(200), b"", b"x" * 70_000, b"", b"\xff\x00"]


@pytest.fixture(params=[(codec, group) for codec in CODECS for group in (1, 16)], ids=str)
def reader(request, file_of):
    codec, group = request.param
    with ArrayRecordReader(file_of(RECORDS, f"{codec},group_size:{group}")) as opened:
        yield opened


def test_arrow_array_holds_all_records(reader) -> None:
    pa = pytest.importorskip("pyarrow")
    array = reader.read_arrow()
    assert array.type == pa.large_binary()
    assert array.null_count == 0
    assert array.to_pylist() == RECORDS
    array.validate(full=True)


@pytest.mark.parametrize(
    "indices",
    [[], [3], (203, 0, 0, 201), range(203, -1, -5), np.arange(204)[::-1], [True]],
    ids=["none", "one", "tuple", "range", "array", "bool"],
)
def test_arrow_array_holds_the_records_of_indices(reader, indices) -> None:
    pytest.importorskip("pyarrow")
    assert reader.read_arrow(indices).to_pylist() == [RECORDS[int(index)] for index in indices]
    assert reader.read_arrow(indices=indices).to_pylist() == reader.read(indices)


def test_arrow_array_refuses_the_indices_that_read_refuses(reader) -> None:
    for outside in ([204], [0, 2**40]):
        with pytest.raises(RuntimeError):
            reader.read_arrow(outside)
    for wrong in ([-1], [1.0], {1}, 1, "1", iter([1])):
        with pytest.raises(TypeError):
            reader.read_arrow(wrong)
    assert reader.ok()


def test_arrow_array_of_an_empty_file(file_of) -> None:
    pytest.importorskip("pyarrow")
    assert ArrayRecordReader(file_of([])).read_arrow().to_pylist() == []


def test_arrow_array_outlives_its_reader(file_of) -> None:
    pytest.importorskip("pyarrow")
    path = file_of(RECORDS, "uncompressed")
    array = ArrayRecordReader(path).read_arrow()
    gc.collect(1)
    path.unlink()
    assert array.to_pylist() == RECORDS


def test_record_is_read_into_a_buffer(reader) -> None:
    for number, record in enumerate(RECORDS):
        buffer = bytearray(b"#" * (len(record) + 3))
        assert reader.read_into(number, buffer) == len(record)
        assert buffer == record + b"###"
        exact = np.zeros(len(record), np.uint8)
        assert reader.read_into(number, exact) == len(record)
        assert exact.tobytes() == record
    assert reader.read_into(-1, exact := bytearray(2)) == 2
    assert exact == RECORDS[-1]
    assert reader.record_index() == 0


def test_part_of_a_buffer_is_filled(reader) -> None:
    whole = bytearray(b"#" * 50)
    count = reader.read_into(1, memoryview(whole)[10:40])
    assert whole == b"#" * 10 + RECORDS[1] + b"#" * (40 - count)


def test_short_buffer_is_a_value_error_and_stays_as_it_is(reader) -> None:
    number = max(range(200), key=lambda index: len(RECORDS[index]))
    buffer = bytearray(b"#" * (len(RECORDS[number]) - 1))
    with pytest.raises(ValueError):
        reader.read_into(number, buffer)
    assert buffer == b"#" * len(buffer)


def test_wrong_buffer_is_refused(reader) -> None:
    for wrong in (b"read-only" * 100, "text", None, 1, [0] * 100):
        with pytest.raises((TypeError, BufferError, ValueError)):
            reader.read_into(1, wrong)
    strided = memoryview(bytearray(300))[::2]
    with pytest.raises((TypeError, BufferError, ValueError)):
        reader.read_into(1, strided)


def test_read_into_and_view_refuse_an_index_outside(reader) -> None:
    for outside in (204, -205, 2**70):
        with pytest.raises(IndexError):
            reader.read_into(outside, bytearray(10))
        with pytest.raises(IndexError):
            reader.view(outside)


def test_view_shows_the_record(reader) -> None:
    for number, record in enumerate(RECORDS):
        view = reader.view(number)
        assert isinstance(view, memoryview)
        assert (view.readonly, view.nbytes, view.format, view.contiguous) == (
            True,
            len(record),
            "B",
            True,
        )
        assert view == record
    assert reader.view(-1) == RECORDS[-1]


def test_views_outlive_their_reader(reader) -> None:
    views = [reader.view(number) for number in range(len(RECORDS))]
    reader.close()
    gc.collect(1)
    assert [bytes(view) for view in views] == RECORDS


def test_closed_reader_gives_nothing(reader) -> None:
    reader.close()
    for call in (
        reader.read_arrow,
        lambda: reader.read_into(0, bytearray(10)),
        lambda: reader.view(0),
        lambda: reader[0],
        lambda: list(reader),
    ):
        with pytest.raises(RuntimeError):
            call()
