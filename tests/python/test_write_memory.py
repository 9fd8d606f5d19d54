"""What `sm.Writer` holds in memory is bounded by bytes, whatever the type of the values."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import shardmill as sm
from shardmill._native.write import approximate_size
from shardmill.write._row_batches import RowBatches
from shardmill.write._row_workers import _next_size, transformed

KIB, MIB = 1 << 10, 1 << 20
#: Of about 16 KiB each.
VALUES: dict[str, tuple[pa.DataType, Any]] = {
    "list": (pa.list_(pa.int64()), [7] * 2048),
    "tuple": (pa.list_(pa.int64()), (7,) * 2048),
    "nested list": (pa.list_(pa.list_(pa.int64())), [[7] * 64] * 32),
    "list of strings": (pa.list_(pa.string()), ["x" * 128] * 128),
    "array": (pa.list_(pa.int64()), np.zeros(2048, np.int64)),
    "bytearray": (pa.binary(), bytearray(16 * KIB)),
    "memoryview": (pa.binary(), memoryview(bytes(16 * KIB))),
    "struct": (pa.struct([("a", pa.binary())]), {"a": bytes(16 * KIB)}),
}


@pytest.mark.parametrize("kind", VALUES)
def test_rows_of_large_objects_are_passed_on_by_size(tmp_path: Path, kind: str) -> None:
    data_type, value = VALUES[kind]
    with sm.Writer(tmp_path / "a.parquet", schema=pa.schema([("x", data_type)])) as writer:
        for _ in range(600):
            writer.write({"x": value})
            assert (writer.num_rows - writer._native.rows) * 16 * KIB < 4 * MIB
    assert len(sm.Dataset(tmp_path / "a.parquet")) == 600


@pytest.mark.parametrize("value", [bytes(4 * MIB), bytearray(4 * MIB)], ids=["plain", "object"])
def test_large_first_rows_do_not_wait_for_more_rows(tmp_path: Path, value: Any) -> None:
    with sm.Writer(tmp_path / "a.parquet") as writer:
        for _ in range(40):
            writer.write({"x": value})
            assert (writer.num_rows - writer._native.rows) * len(value) <= 64 * MIB
    assert len(sm.Dataset(tmp_path / "a.parquet")) == 40


def test_value_that_large_first_rows_lack_is_found_in_later_ones(tmp_path: Path) -> None:
    rows: list[dict] = [{"x": bytes(MIB)} for _ in range(20)] + [{"x": b"", "y": 1.5}]
    with sm.Writer(tmp_path / "a.parquet") as writer:
        writer.write_rows(rows)
    assert [row["y"] for row in sm.Dataset(tmp_path / "a.parquet")] == [None] * 20 + [1.5]


def test_size_of_a_list_that_contains_itself_is_finite() -> None:
    value: list = [bytes(MIB)]
    value.append(value)
    assert MIB < approximate_size(value) < 10 * MIB


def zeros(size: int) -> pa.Array:
    """A binary whose memory is never touched."""
    offsets = pa.array([0, size], pa.int32()).buffers()[1]
    return pa.Array.from_buffers(
        pa.binary(), 1, [None, offsets, pa.py_buffer(np.zeros(size, np.uint8))]
    )


TOO_LARGE = pa.chunked_array([zeros(3 << 29)] * 2)


def test_batch_beyond_the_offsets_of_one_array_is_written_in_chunks() -> None:
    table = RowBatches(None, None).of_columns({"x": TOO_LARGE, "y": [1, 2]}, first_row=0)
    assert [batch["y"].to_pylist() for batch in table.to_batches()] == [[1], [2]]


def test_rows_beyond_the_offsets_of_one_array_are_an_error_that_names_the_column(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batches = RowBatches(None, None)
    monkeypatch.setattr(batches, "_converted", lambda *_arguments: TOO_LARGE)
    with pytest.raises(
        sm.FormatError,
        match=r"column 'x' in 2 rows from row 5 on exceed 2 GiB(.|\n)*hint: pass schema=",
    ):
        batches.array("x", [b"", b""], 5)


@pytest.mark.parametrize("format", ["parquet", "mds", "jsonl"])
def test_chunks_of_a_column_keep_their_order(tmp_path: Path, format: Any) -> None:
    batch = {"x": pa.chunked_array([[1], [], [2, 3]], pa.int64()), "y": ["a", "b", "c"]}
    with sm.Writer(tmp_path / "out", format=format) as writer:
        writer.write_batch(batch)
    rows = sm.Dataset(tmp_path / "out")
    assert [(row["x"], row["y"]) for row in rows] == [(1, "a"), (2, "b"), (3, "c")]


def test_chunks_without_rows_still_have_columns(tmp_path: Path) -> None:
    with sm.Writer(tmp_path / "a.parquet") as writer:
        writer.write_batch({"x": pa.chunked_array([[], []], pa.int64())})
    assert sm.Dataset(tmp_path / "a.parquet").schema.names == ["x"]


def length(row: bytes) -> int:
    return len(row)


def test_chunk_for_a_worker_is_bounded_by_the_size_of_its_rows() -> None:
    taken = 0

    def rows() -> Iterator[bytes]:
        nonlocal taken
        for _ in range(200):
            taken += 1
            yield bytes(MIB)

    results = transformed(rows(), length, workers=1)
    for done, _ in enumerate(results):
        # Two chunks in flight, and the one whose results come.
        assert taken - done <= 3 * 4
    assert taken == 200


@pytest.mark.parametrize(("result_bytes", "expected"), [(0, 256), (64 * MIB, 4), (1 << 40, 1)])
def test_size_of_results_bounds_the_next_chunk(result_bytes: int, expected: int) -> None:
    assert _next_size(64, 64, 0.0, result_bytes) == expected
