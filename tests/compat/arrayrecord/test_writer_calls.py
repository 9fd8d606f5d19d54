"""Each call of the writer, good and bad, on the original and on ours."""

import pytest
from implementations import CODECS, ORIGINAL, Implementation

np = pytest.importorskip("numpy")


class SubclassOfBytes(bytes):
    pass


def test_new_writer_is_open_and_closed_after_close(any_mode: Implementation, tmp_path) -> None:
    writer = any_mode.writer(str(tmp_path / "file"))
    assert (writer.ok(), writer.is_open()) == (True, True)
    assert writer.write(b"abc") is None
    assert (writer.ok(), writer.is_open()) == (True, True)
    assert writer.close() is None
    assert (writer.ok(), writer.is_open()) == (False, False)
    writer.close()
    assert ORIGINAL.reader(str(tmp_path / "file")).read_all() == [b"abc"]


@pytest.mark.parametrize(
    "record",
    ["text", bytearray(b"a"), memoryview(b"a"), None, 1, [b"a"], np.array([1])],
    ids=lambda value: repr(value).split(" at 0x")[0],
)
def test_what_is_not_bytes_is_a_type_error_and_writes_nothing(
    any_mode: Implementation, tmp_path, record
) -> None:
    writer = any_mode.writer(str(tmp_path / "file"))
    writer.write(b"first")
    with pytest.raises(TypeError):
        writer.write(record)
    assert writer.ok()
    writer.write(b"second")
    writer.close()
    assert ORIGINAL.reader(str(tmp_path / "file")).read_all() == [b"first", b"second"]


def test_subclasses_of_bytes_are_records(any_mode: Implementation, tmp_path) -> None:
    records = [SubclassOfBytes(b"own"), np.bytes_(b"numpy"), b""]
    path = any_mode.write(tmp_path / "file", records)
    assert ORIGINAL.reader(str(path)).read_all() == [b"own", b"numpy", b""]


@pytest.mark.parametrize("arguments", [(), (b"a", b"b")], ids=["none", "two"])
def test_write_takes_one_record(any_mode: Implementation, tmp_path, arguments) -> None:
    writer = any_mode.writer(str(tmp_path / "file"))
    with pytest.raises(TypeError):
        writer.write(*arguments)
    with pytest.raises(TypeError):
        writer.write(no_such=b"a")
    writer.close()
    assert ORIGINAL.reader(str(tmp_path / "file")).read_all() == []


def test_closed_writer_refuses_records(any_mode: Implementation, tmp_path) -> None:
    path = any_mode.write(tmp_path / "file", [b"a"])
    before = path.read_bytes()
    writer = any_mode.writer(str(path))
    writer.write(b"a")
    writer.close()
    with pytest.raises(RuntimeError):
        writer.write(b"b")
    writer.close()
    assert (writer.ok(), writer.is_open()) == (False, False)
    assert path.read_bytes() == before


def test_directory_that_is_missing_is_a_stored_error(
    implementation: Implementation, tmp_path
) -> None:
    writer = implementation.writer(str(tmp_path / "missing" / "file"))
    assert (writer.ok(), writer.is_open()) == (False, True)
    with pytest.raises(RuntimeError):
        writer.write(b"a")
    assert (writer.ok(), writer.is_open()) == (False, True)
    with pytest.raises(RuntimeError):
        writer.close()
    assert (writer.ok(), writer.is_open()) == (False, False)
    with pytest.raises(RuntimeError):
        writer.close()
    with pytest.raises(RuntimeError):
        writer.write(b"a")
    assert not (tmp_path / "missing").exists()


def test_arguments_of_the_constructor(any_mode: Implementation, tmp_path) -> None:
    path = str(tmp_path / "file")
    any_mode.writer(path.encode()).close()
    any_mode.writer(path=path, options="uncompressed").close()
    assert ORIGINAL.reader(path).ok()
    for wrong in (None, 1, 1.5, ["a"]):
        with pytest.raises(TypeError):
            any_mode.writer(wrong)
    with pytest.raises(TypeError):
        any_mode.writer(path, None)
    with pytest.raises(TypeError):
        any_mode.writer()


def test_unknown_keywords_are_ignored(implementation: Implementation, tmp_path) -> None:
    writer = implementation.writer(str(tmp_path / "file"), no_such=1)
    writer.write(b"a")
    writer.close()
    assert ORIGINAL.reader(str(tmp_path / "file")).read_all() == [b"a"]


def test_new_file_replaces_the_old(any_mode: Implementation, tmp_path) -> None:
    path = any_mode.write(tmp_path / "file", [b"old"] * 50_000, "uncompressed")
    any_mode.write(path, [b"new"], "uncompressed")
    assert path.stat().st_size == 131072
    assert ORIGINAL.reader(str(path)).read_all() == [b"new"]


@pytest.mark.parametrize("codec", CODECS)
def test_same_records_give_the_same_bytes_each_time(
    any_mode: Implementation, codec, tmp_path
) -> None:
    records = [b"%d" % number * (number % 50) for number in range(500)]
    files = [
        any_mode.write(tmp_path / f"{n}", records, f"group_size:9,{codec}").read_bytes()
        for n in range(2)
    ]
    assert files[0] == files[1]


def test_writer_that_is_dropped_without_close_leaves_no_readable_file(
    any_mode: Implementation, tmp_path
) -> None:
    writer = any_mode.writer(str(tmp_path / "file"))
    writer.write(b"a")
    del writer
    assert not ORIGINAL.reader(str(tmp_path / "file")).ok()
