"""Each call of the reader, good and bad, on the original and on ours."""

import gc
import threading

import pytest
from breadth import in_one
from implementations import ORIGINAL, OURS, STRICT, Implementation, numbered

np = pytest.importorskip("numpy")

TEN = [b"%d" % number for number in range(10)]
DEFAULT_OPTIONS = (
    "group_size:1,transpose:false,pad_to_block_boundary:false,zstd:3,window_log:20,"
    "max_parallelism:1"
)


@pytest.fixture
def ten(file_of, any_mode: Implementation):
    return any_mode.reader(str(file_of(TEN)))


def test_new_reader_stands_at_the_first_record(ten) -> None:
    assert (ten.ok(), ten.is_open(), ten.num_records(), ten.record_index()) == (True, True, 10, 0)
    assert ten.writer_options_string() == DEFAULT_OPTIONS


@in_one(
    "indices, expected",
    [
        ([], []),
        ((), []),
        ([3], [b"3"]),
        ([9, 0, 9, 9, 1], [b"9", b"0", b"9", b"9", b"1"]),
        ((1, 1), [b"1", b"1"]),
        (range(7, 10), [b"7", b"8", b"9"]),
        (range(9, -1, -1), TEN[::-1]),
        ([True, False], [b"1", b"0"]),
        (np.array([1, 2]), [b"1", b"2"]),
        (np.array([1, 2], np.int32), [b"1", b"2"]),
        (np.array([8, 2], np.uint8), [b"8", b"2"]),
        (np.array([8, 2], np.uint64), [b"8", b"2"]),
        (np.array([], np.int64), []),
        (np.arange(10)[::-3], [b"9", b"6", b"3", b"0"]),
        ([np.int64(3), np.uint16(4)], [b"3", b"4"]),
        ([np.bool_(True)], [b"1"]),
        (bytearray(b"\1\2"), [b"1", b"2"]),
        (memoryview(b"\1\2"), [b"1", b"2"]),
    ],
    ids=lambda value: repr(value).split(" at 0x")[0],
)
def test_records_come_in_the_order_of_the_indices(ten, indices, expected) -> None:
    assert ten.read(indices) == expected
    assert ten.record_index() == 0


@pytest.mark.parametrize("index", [10, 11, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1])
def test_index_beyond_the_end_is_a_runtime_error_that_leaves_the_reader_fine(ten, index) -> None:
    with pytest.raises(RuntimeError):
        ten.read([0, index])
    assert ten.ok()
    assert ten.read([9]) == [b"9"]


@in_one(
    "indices",
    [
        [-1],
        [0, -1],
        [2**64],
        [-(2**63)],
        [1.0],
        ["1"],
        [None],
        [[1]],
        np.array([-1]),
        np.array([1.0]),
        np.array(1),
        np.array([[1, 2]]),
        iter([1]),
        {1},
        frozenset([1]),
        {1: 1},
        {1: 1}.keys(),
        1,
        np.int64(1),
        1.0,
        None,
        "12",
        b"\1",
    ],
    ids=lambda value: f"{type(value).__name__} {value}"[:40],
)
def test_what_is_no_sequence_of_indices_is_a_type_error(ten, indices) -> None:
    with pytest.raises(TypeError):
        ten.read(indices)
    assert ten.ok()
    assert ten.read([1]) == [b"1"]


@pytest.mark.parametrize(
    ("start", "stop", "expected"),
    [
        (0, 10, TEN),
        (0, 1, TEN[:1]),
        (2, 5, TEN[2:5]),
        (-3, -1, TEN[-3:-1]),
        (0, -1, TEN[:-1]),
        (-10, 2, TEN[:2]),
        (-1, 10, TEN[-1:]),
        (True, 3, TEN[1:3]),
        (np.int64(0), np.int32(2), TEN[:2]),
    ],
)
def test_range_is_half_open_and_counts_from_the_end(ten, start, stop, expected) -> None:
    assert ten.read(start, stop) == expected
    assert ten.record_index() == 0


@pytest.mark.parametrize(
    ("start", "stop"),
    [
        (0, 0),
        (5, 2),
        (0, 11),
        (10, 10),
        (10, 11),
        (-11, 2),
        (-1, 0),
        (-1, -1),
        (3, -8),
        (0, 2**31 - 1),
        (-(2**31), 3),
    ],
)
def test_range_that_is_empty_or_outside_is_an_index_error(ten, start, stop) -> None:
    with pytest.raises(IndexError):
        ten.read(start, stop)
    assert ten.ok()


@pytest.mark.parametrize(
    "arguments", [(0, 1.0), (0, None), (0, "1"), (0, 1, 2), ([0], 1)], ids=repr
)
def test_arguments_that_read_does_not_know_are_type_errors(ten, arguments) -> None:
    with pytest.raises(TypeError):
        ten.read(*arguments)


@pytest.mark.parametrize(
    "named", [{"indices": [1]}, {"start": 0, "stop": 1}, {"arg0": [1]}], ids=repr
)
def test_arguments_of_read_have_no_names(ten, named) -> None:
    with pytest.raises(TypeError):
        ten.read(**named)


def test_range_beyond_31_bits_is_refused(ten) -> None:
    """TypeError in the original, whose ranges are of 32 bits."""
    with pytest.raises((TypeError, IndexError)):
        ten.read(0, 2**31)


def test_read_moves_the_cursor_and_stays_at_the_end(ten) -> None:
    for number, record in enumerate(TEN):
        assert ten.record_index() == number
        assert ten.read() == record
    for _ in range(2):
        assert ten.record_index() == 10
        with pytest.raises(IndexError):
            ten.read()
    assert ten.ok()
    ten.seek(4)
    assert ten.read() == b"4"


def test_other_reads_leave_the_cursor(ten) -> None:
    ten.seek(3)
    ten.read([9, 8])
    ten.read(0, 5)
    ten.read_all()
    assert ten.record_index() == 3
    assert ten.read() == b"3"


@pytest.mark.parametrize(
    ("place", "cursor"),
    [(0, 0), (5, 5), (9, 9), (10, 10), (11, 10), (2**63 - 1, 10), (True, 1), (np.int64(2), 2)],
)
def test_seek_goes_no_further_than_the_end(ten, place, cursor) -> None:
    ten.read()
    assert ten.seek(place) is None
    assert ten.record_index() == cursor
    if cursor < 10:
        assert ten.read() == TEN[cursor]


@pytest.mark.parametrize("place", [2**63, -(2**63) - 1, 1.0, "1", None], ids=repr)
def test_seek_to_what_is_no_64_bit_integer_is_a_type_error(ten, place) -> None:
    with pytest.raises(TypeError):
        ten.seek(place)


@pytest.mark.parametrize("place", [-1, -10, -11, -(2**63)])
def test_negative_seek_goes_to_the_end_without_an_error(
    implementation: Implementation, file_of, place
) -> None:
    reader = implementation.reader(str(file_of(TEN)))
    reader.seek(place)
    assert reader.record_index() == 10
    with pytest.raises(IndexError):
        reader.read()
    reader.seek(0)
    assert reader.read() == b"0"


def test_closed_reader_refuses_reads(ten) -> None:
    ten.seek(4)
    ten.close()
    assert (ten.ok(), ten.is_open(), ten.num_records(), ten.record_index()) == (False, False, 0, 0)
    assert ten.writer_options_string() == DEFAULT_OPTIONS
    for read in (
        ten.read,
        lambda: ten.read([0]),
        lambda: ten.read([]),
        ten.read_all,
        lambda: ten.seek(0),
    ):
        with pytest.raises(RuntimeError):
            read()
    for bounds in ((0, 1), (0, 0), (-1, 5)):
        with pytest.raises(IndexError):
            ten.read(*bounds)
    ten.close()
    ten.close()


def test_wrong_argument_is_a_type_error_of_a_closed_reader_as_well(ten) -> None:
    ten.close()
    for wrong in ([-1], 1, None, {1}):
        with pytest.raises(TypeError):
            ten.read(wrong)
    with pytest.raises(TypeError):
        ten.seek(None)


def test_file_without_records_reads_as_nothing(any_mode: Implementation, file_of) -> None:
    reader = any_mode.reader(str(file_of([])))
    assert (reader.ok(), reader.num_records(), reader.record_index()) == (True, 0, 0)
    assert reader.read_all() == reader.read([]) == []
    for read in (
        reader.read,
        lambda: reader.read(0, 0),
        lambda: reader.read(0, 1),
        lambda: reader.read(-1, 0),
    ):
        with pytest.raises(IndexError):
            read()
    reader.seek(0)
    reader.seek(5)
    assert reader.record_index() == 0
    reader.close()


@pytest.mark.parametrize("indices", [[0], [1], [0, 0]], ids=str)
def test_index_into_an_empty_file_is_an_error_of_ours(file_of, indices) -> None:
    """The original returns empty records that were never written."""
    path = str(file_of([]))
    assert ORIGINAL.reader(path).read(indices) == [b""] * len(indices)
    for each in (OURS, STRICT):
        with pytest.raises(RuntimeError):
            each.reader(path).read(indices)


def test_missing_file_is_a_stored_error(implementation: Implementation, tmp_path) -> None:
    reader = implementation.reader(str(tmp_path / "missing"))
    assert (reader.ok(), reader.is_open(), reader.num_records(), reader.record_index()) == (
        False,
        True,
        0,
        0,
    )
    assert reader.writer_options_string() is None
    for read in (
        reader.read,
        lambda: reader.read([0]),
        lambda: reader.read([]),
        reader.read_all,
        lambda: reader.seek(0),
    ):
        with pytest.raises(RuntimeError, match="missing"):
            read()
    with pytest.raises(IndexError):
        reader.read(0, 1)
    assert (reader.ok(), reader.is_open()) == (False, True)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            reader.close()
        assert (reader.ok(), reader.is_open()) == (False, False)


@pytest.mark.parametrize("what", ["directory", "no name"])
def test_path_that_is_no_file_is_a_stored_error(
    implementation: Implementation, tmp_path, what
) -> None:
    reader = implementation.reader(str(tmp_path) if what == "directory" else "")
    assert (reader.ok(), reader.num_records()) == (False, 0)
    with pytest.raises(RuntimeError):
        reader.read_all()


def test_arguments_of_the_constructor(any_mode: Implementation, file_of) -> None:
    path = str(file_of(TEN))
    assert any_mode.reader(path.encode()).num_records() == 10
    assert any_mode.reader(path=path, options="max_parallelism:0").num_records() == 10
    for size in (0, 1, 2**20, -1):
        assert any_mode.reader(path, file_reader_buffer_size=size).read_all() == TEN
    for wrong in (1, None, 1.5, ["a"]):
        with pytest.raises(TypeError):
            any_mode.reader(wrong)
    with pytest.raises(TypeError):
        any_mode.reader(path, None)
    with pytest.raises(TypeError):
        any_mode.reader()
    with pytest.raises(TypeError):
        any_mode.reader(path, "", 1)


def test_file_reader_buffer_size_must_be_an_integer(
    implementation: Implementation, file_of
) -> None:
    with pytest.raises(RuntimeError):
        implementation.reader(str(file_of(TEN)), file_reader_buffer_size="1")


def test_unknown_keywords_are_ignored(implementation: Implementation, file_of) -> None:
    assert implementation.reader(str(file_of(TEN)), no_such=1, other="x").read([2]) == [b"2"]


def test_one_reader_reads_in_many_threads(any_mode: Implementation, file_of) -> None:
    records = numbered(2000)
    reader = any_mode.reader(str(file_of(records, "group_size:5")))
    wrong = []

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        for _ in range(30):
            indices = random.integers(0, 2000, 40)
            if reader.read(indices) != [records[index] for index in indices]:
                wrong.append(seed)
            start = int(random.integers(0, 1900))
            if reader.read(start, start + 100) != records[start : start + 100]:
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert reader.read_all() == records


def test_records_outlive_their_reader(any_mode: Implementation, file_of) -> None:
    path = file_of([b"a" * 100_000, b"b"], "uncompressed")
    reader = any_mode.reader(str(path))
    records = reader.read_all()
    reader.close()
    del reader
    gc.collect(1)
    path.write_bytes(b"")
    assert records == [b"a" * 100_000, b"b"]
    assert all(type(record) is bytes for record in records)
