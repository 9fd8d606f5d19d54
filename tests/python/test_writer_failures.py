"""What fails in `sm.Writer` closes it and leaves nothing, even if the caller goes on.

What names nothing is refused at once.
"""

import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import shardmill as sm
from shardmill.data._shard_index import write_index
from shardmill.write._row_batches import RowBatches


def failing_rows() -> Iterator[dict]:
    yield {"x": 1}
    raise OSError("the source is gone")


def failing(_row: Any) -> dict:
    raise ZeroDivisionError


FAILURES: list[Callable[[sm.Writer], None]] = [
    lambda writer: writer.write_rows(failing_rows()),
    lambda writer: writer.write_rows([1], transform=failing),
    lambda writer: writer.write_rows(5),  # pyright: ignore[reportArgumentType]
    lambda writer: writer.write_rows([], workers=-1),
    lambda writer: writer.write_rows([1], workers=1, transform=lambda number: {"x": number}),
    lambda writer: writer.write_batch({"x": "abc"}),
]
RECORDS = [5, None, {"a": None}, {"a": 1, "b": 2}, "\ud800"]


def closed_by(writer: sm.Writer, fail: Callable[[sm.Writer], None]) -> None:
    """The failure is raised, and no later call publishes anything."""
    with pytest.raises((ValueError, TypeError, OSError, ZeroDivisionError)):
        fail(writer)
    with pytest.raises(sm.ClosedError):
        writer.write_rows([])
    writer.close()
    assert writer.files == []


@pytest.mark.parametrize("number", range(len(FAILURES)))
@pytest.mark.parametrize("name", ["a.parquet", "out"])
def test_method_that_fails_closes_the_writer_and_publishes_nothing(
    tmp_path: Path, number: int, name: str
) -> None:
    writer = sm.Writer(tmp_path / name)
    writer.write({"x": 0})
    closed_by(writer, FAILURES[number])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("record", RECORDS, ids=repr)
def test_row_that_is_not_a_record_closes_the_writer_and_publishes_nothing(
    tmp_path: Path, record: Any
) -> None:
    writer = sm.Writer(tmp_path / "a.array_record")
    writer.write(b"first")
    closed_by(writer, lambda writer: writer.write(record))
    assert list(tmp_path.iterdir()) == []


def test_string_with_surrogates_names_its_row_in_arrayrecord(tmp_path: Path) -> None:
    with (
        pytest.raises(
            sm.FormatError,
            match=r"row 1 has the value '\\ud800', which is not valid Unicode: .*\nhint: ",
        ),
        sm.Writer(tmp_path / "a.array_record") as writer,
    ):
        writer.write("first")
        writer.write("\ud800")


@pytest.mark.parametrize("out", ["", "s3://", "file://"])
def test_output_without_a_name_is_refused_when_the_writer_is_made(out: str) -> None:
    with pytest.raises(
        sm.OptionError, match=f"^out '{out}' names no file or directory\nhint: pass a path"
    ):
        sm.Writer(out)


@pytest.mark.parametrize("format", ["parquet", "jsonl", "webdataset", "mds", "arrayrecord"])
@pytest.mark.parametrize("columns", [[], (), {}], ids=repr)
def test_empty_columns_are_refused(tmp_path: Path, format: Any, columns: Any) -> None:
    with pytest.raises(
        sm.OptionError, match="^columns is empty, so nothing would be written\nhint: omit columns"
    ):
        sm.Writer(tmp_path / "out", format=format, columns=columns)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a.parquet", "a.array_record"])
@pytest.mark.parametrize("column", ["abc", b"abc"])
def test_string_as_a_column_of_a_batch_is_refused(tmp_path: Path, name: str, column: Any) -> None:
    with (
        pytest.raises(
            TypeError,
            match="column 'a' of the batch must be a list of values, not (str|bytes)\nhint: ",
        ),
        sm.Writer(tmp_path / name) as writer,
    ):
        writer.write_batch({"a": column})


@pytest.mark.parametrize(
    ("format", "rows", "reason", "hint"),
    [
        (
            "jsonl",
            [{"x": 1}, {"x": "a"}],
            "has another type than the values before it",
            "pass schema=$",
        ),
        ("webdataset", [{"cls": "1"}, {"cls": 2}], "has another type", "pass schema=$"),
        (
            "parquet",
            [{"x": 1}, {"x": "a"}],
            "has another type",
            "pass schema=, or columns= with types$",
        ),
        ("jsonl", [{"x": "a"}, {"x": "\ud800"}], "is not valid Unicode", "replace the surrogates"),
        (
            "webdataset",
            [{"json": 1}, {"json": {1}}],
            "not JSON serializable",
            "convert the value, or pass its",
        ),
        (
            "webdataset",
            [{"jpg": b"1"}, {"jpg": "2"}],
            "an image is bytes or a PIL image, not str",
            "convert the",
        ),
        (
            "mds",
            [{"x": np.zeros(1)}, {"x": "2"}],
            "not a real number|shape|str",
            "convert the value",
        ),
    ],
)
def test_value_that_is_refused_has_a_hint_that_fits_the_format(
    tmp_path: Path, format: Any, rows: list, reason: str, hint: str
) -> None:
    with (
        pytest.raises(
            sm.FormatError, match=f"(?s)^row 1 has the value .*({reason}).*\nhint: {hint}"
        ),
        sm.Writer(tmp_path / "out", format=format) as writer,
    ):
        writer.write_rows(rows)


@pytest.mark.parametrize("encoding", ["jpeg", "png", "pil", "jpeg_array", "list[png]"])
@pytest.mark.parametrize("value", [np.zeros((2, 2)), "a.png", 3], ids=["array", "path", "number"])
def test_image_column_takes_bytes_and_images_only(
    tmp_path: Path, encoding: str, value: Any
) -> None:
    images = [value] if encoding in ("jpeg_array", "list[png]") else value
    message = (
        "an image is bytes or a PIL image, not (ndarray|str|int)\n"
        "hint: convert the value, or pass its encoded"
    )
    with (
        pytest.raises(sm.FormatError, match=message),
        sm.Writer(tmp_path / "out", format="mds", columns={"x": encoding}) as writer,
    ):
        writer.write({"x": images})


def one_shard(directory: Path, mode: Any = "error") -> sm.Writer:
    writer = sm.Writer(directory, format="mds", columns={"x": "int"}, mode=mode)
    writer.write({"x": 1})
    return writer


def unwritten_index(*_arguments: object, **_options: object) -> int:
    raise sm.StorageError("the disk is full")


def test_index_that_cannot_be_written_withdraws_the_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = one_shard(tmp_path / "new")
    with monkeypatch.context() as context, pytest.raises(sm.StorageError, match="the disk is full"):
        context.setattr("shardmill.write._index.write_index", unwritten_index)
        writer.close()
    assert list(tmp_path.iterdir()) == []
    assert (writer.files, writer.metrics().files, writer.metrics().bytes_written) == ([], 0, 0)


def test_index_that_cannot_be_extended_keeps_the_earlier_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_shard(tmp_path).close()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    writer = one_shard(tmp_path, "append")
    monkeypatch.setattr("shardmill.write._index.write_index", unwritten_index)
    with pytest.raises(sm.StorageError):
        writer.close()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_index_that_is_visible_but_not_synced_keeps_its_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_synced(*arguments: Any, **options: Any) -> int:
        write_index(*arguments, **options)
        raise sm.StorageError("the sync failed")

    writer = one_shard(tmp_path)
    monkeypatch.setattr("shardmill.write._index.write_index", not_synced)
    with pytest.raises(sm.StorageError):
        writer.close()
    assert [row["x"] for row in sm.Dataset(tmp_path)] == [1]


def test_names_that_cannot_be_synced_are_withdrawn(tmp_path: Path) -> None:
    with sm.Writer(tmp_path / "out", format="jsonl", shard_bytes=1) as writer:
        writer.write_rows([{"x": 1}, {"x": 2}])
        writer._flush_rows()
        writer._native.finish()
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        # The directory cannot be opened for its sync.
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, limit[1]))
        try:
            with pytest.raises(sm.StorageError):
                writer._native.publish(0)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limit)
        assert list((tmp_path / "out").iterdir()) == []
        writer._abandon()


def test_row_that_only_the_buffer_refuses_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RowBatches, "check", lambda *_arguments: None)
    with (
        pytest.raises(sm.FormatError, match="row 1 lacks columns of the file: it has y"),
        sm.Writer(tmp_path / "a.parquet", schema=pa.schema([("x", pa.int64())])) as writer,
    ):
        writer.write({"x": 1})
        writer.write({"y": 2})
