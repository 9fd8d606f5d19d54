"""Slices of nested Arrow data, wherever it comes in: the rows of pyarrow, at any offset."""

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from shardmill.curate import Map, ParquetSink, Pipeline, TableSource
from shardmill.resume import IdIndex

ROWS = 12


def texts(row: int) -> dict:
    return {"b": None if row % 4 == 3 else f"text {row}", "c": row % 2 == 0}


def inner() -> Iterator[pa.Array]:
    yield pa.array([None if row % 5 == 4 else {"a": row} for row in range(ROWS)])
    yield pa.array([None if row % 5 == 4 else {"a": texts(row)} for row in range(ROWS)])
    yield pa.array(
        [None if row % 5 == 4 else {"a": [texts(row)] * (row % 3)} for row in range(ROWS)]
    )
    yield pa.array([None if row % 5 == 4 else [texts(row), None] for row in range(ROWS)])
    words = pa.array([f"word {row % 3}" for row in range(ROWS)]).dictionary_encode()
    yield pa.StructArray.from_arrays([words, pa.array(range(ROWS))], names=["word", "n"])
    pairs = pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.string_view())]))])
    values = [[{"a": row, "b": {"c": f"a text of some length {row}"}}, None] for row in range(ROWS)]
    yield pa.array([None if row == 3 else values[row] for row in range(ROWS)], pa.list_(pairs, 2))
    yield pa.array(
        [[(f"key {row}", texts(row))] for row in range(ROWS)],
        pa.map_(pa.string(), pa.struct([("b", pa.string()), ("c", pa.bool_())])),
    )
    yield pa.array([dt.date(2024, 1, 1 + row) for row in range(ROWS)], pa.date64())


def columns() -> Iterator[pa.Array]:
    for array in inner():
        yield array
        yield pa.StructArray.from_arrays([array], names=["s"])
        yield pa.StructArray.from_arrays(
            [array], names=["s"], mask=pa.array([row % 6 == 5 for row in range(ROWS)])
        )
        # Children that are slices themselves.
        twice = pa.concat_arrays([array, array])
        yield pa.StructArray.from_arrays(
            [twice.slice(5, ROWS), pa.array(range(ROWS))], names=["s", "n"]
        )
        yield pa.FixedSizeListArray.from_arrays(twice.slice(3, 20), 2)
        yield pa.ListArray.from_arrays(pa.array([0, 2, 2, 7, 11], pa.int32()), twice.slice(9, 11))


COLUMNS = list(columns())


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: str(column.type))
def test_rows_of_every_slice_are_written(tmp_path: Path, column: pa.Array) -> None:
    table = pa.table({"c": column, "n": range(len(column))})
    expected = []
    with sm.Writer(tmp_path / "a.parquet", threads=1) as writer:
        for start in range(len(column)):
            for count in (1, 2, len(column) - start):
                part = table.slice(start, count)
                writer.write_batch(part)
                writer.write_batch(part.to_batches()[0])
                expected += part.to_pylist() * 2
        for batch in table.to_batches(max_chunksize=3):
            writer.write_batch(batch)
        expected += table.to_pylist()
    assert pq.read_table(tmp_path / "a.parquet").to_pylist() == expected


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: str(column.type))
def test_slices_of_a_function_are_written(tmp_path: Path, column: pa.Array) -> None:
    pq.write_table(pa.table({"id": range(len(column))}), tmp_path / "in.parquet")

    def sliced(rows: pa.Table) -> pa.Table:
        return pa.table({"id": rows["id"], "c": column}).slice(1, len(column) - 2)

    stages = [Map(sliced)]
    Pipeline(
        source=TableSource(tmp_path / "in.parquet"),
        stages=stages,
        sink=ParquetSink(tmp_path / "out"),
    ).run(progress=False)
    (path,) = (tmp_path / "out").glob("*.parquet")
    assert pq.read_table(path)["c"].to_pylist() == column.to_pylist()[1:-1]


def test_slices_are_written_as_json(tmp_path: Path) -> None:
    table = pa.table({"c": [{"a": {"b": row}} for row in range(20)]})
    with sm.Writer(tmp_path / "a.jsonl") as writer:
        for batch in table.to_batches(max_chunksize=7):
            writer.write_batch(batch)
    assert list(sm.Dataset(tmp_path / "a.jsonl")) == table.to_pylist()


def test_ids_beside_a_slice_are_indexed(tmp_path: Path) -> None:
    table = pa.table({"id": range(20), "c": [{"a": {"b": row}} for row in range(20)]})
    index = IdIndex.build(table.slice(10, 5), "id", path=tmp_path / "ids.index", progress=False)
    assert index.contains(table.slice(8, 4)["id"]).to_pylist() == [False, False, True, True]


LONG = [[row] * 100 for row in range(2000)]
#: Of 1.6 MB each.
LONG_COLUMNS = {
    "list": pa.array(LONG),
    "large list": pa.array(LONG, pa.large_list(pa.int64())),
    "map": pa.array(
        [[(key, row) for key in range(50)] for row in range(2000)], pa.map_(pa.int64(), pa.int64())
    ),
    "struct of lists": pa.StructArray.from_arrays([pa.array(LONG)], names=["a"]),
    "pair of lists": pa.FixedSizeListArray.from_arrays(
        pa.array([[row] * 50 for row in range(4000)]), 2
    ),
}


@pytest.mark.parametrize("kind", LONG_COLUMNS)
def test_slices_fill_a_shard_with_their_own_rows_only(tmp_path: Path, kind: str) -> None:
    table = pa.table({"c": LONG_COLUMNS[kind]})
    for rows in (2000, 10):
        with sm.Writer(tmp_path / str(rows), shard_bytes="1MiB") as writer:
            for batch in table.to_batches(max_chunksize=rows):
                writer.write_batch(batch)
        assert len(writer.files) == 2
