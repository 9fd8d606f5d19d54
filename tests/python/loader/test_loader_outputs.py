"""Batches of every output against pyarrow's own reading, shuffled or not.

The files and row groups have odd sizes.
"""

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import in_one
from flat_options import flat_loader
from row_files import new_directory, table_of, write_tables

ROWS = 23


def of(values: Any, type: pa.DataType | None = None) -> pa.Array:
    return pa.array([values(row) for row in range(ROWS)], type)


NUMBERS = {
    str(type): of(lambda row: row % 100, type)
    for type in (
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.uint8(),
        pa.uint16(),
        pa.uint32(),
        pa.uint64(),
        pa.float32(),
        pa.float64(),
    )
}
COLUMNS = {
    **NUMBERS,
    "float16": pa.array(np.arange(ROWS, dtype=np.float16)),
    "float32 with nulls": of(lambda row: None if row % 5 == 0 else float(row), pa.float32()),
    "boolean": of(lambda row: row % 3 == 0),
    "date32": of(lambda row: dt.date(1969, 12, 20) + dt.timedelta(row)),
    "time32": of(lambda row: dt.time(row, 5), pa.time32("ms")),
    "time64": of(lambda row: dt.time(row, 5, 6, 7), pa.time64("us")),
    "timestamp ms": of(
        lambda row: dt.datetime(1969, 12, 31) + dt.timedelta(hours=row), pa.timestamp("ms")
    ),
    "timestamp us": of(
        lambda row: dt.datetime(1969, 12, 31) + dt.timedelta(hours=row), pa.timestamp("us")
    ),
    "timestamp ns": of(
        lambda row: dt.datetime(1969, 12, 31) + dt.timedelta(hours=row), pa.timestamp("ns")
    ),
    "instant": of(
        lambda row: dt.datetime(2024, 3, 30, 12) + dt.timedelta(hours=row),
        pa.timestamp("us", "Europe/Berlin"),
    ),
    "duration": of(lambda row: dt.timedelta(seconds=row), pa.duration("ms")),
    "decimal128": of(lambda row: None if row % 4 == 0 else Decimal(row) / 4, pa.decimal128(10, 2)),
    "decimal256": of(lambda row: Decimal(row) * 10**40, pa.decimal256(60, 2)),
    "string": of(lambda row: None if row % 7 == 0 else f"text {row}"),
    "long string": of(lambda row: f"{row}" * 30, pa.large_string()),
    "binary": of(lambda row: b"\xff\x00%d" % row),
    "fixed binary": of(lambda row: b"%04d" % row, pa.binary(4)),
    "dictionary": of(lambda row: None if row % 6 == 0 else f"k{row % 3}").dictionary_encode(),
    "fixed list": of(lambda row: [float(row), row / 2], pa.list_(pa.float32(), 2)),
    "list": of(lambda row: list(range(row % 4)), pa.list_(pa.int32())),
    "large list": of(lambda row: list(range(row % 4)), pa.large_list(pa.int32())),
    "list of strings": of(
        lambda row: None if row % 4 == 0 else [f"a{item}" for item in range(row % 3)]
    ),
    "list of lists": of(
        lambda row: [[1, 2], [row]] if row % 2 else [], pa.list_(pa.list_(pa.int64()))
    ),
    "struct": of(
        lambda row: {"a": row, "b": {"c": f"x{row}" if row % 3 else None, "d": [row] * (row % 4)}}
    ),
    "map": of(lambda row: [("k", row)], pa.map_(pa.string(), pa.int32())),
    "nothing": pa.nulls(ROWS),
}
PLACES = [(0, 13), (13, ROWS)]


def write(below: Path, name: str) -> tuple[Path, pa.ChunkedArray]:
    """Two files, and the column as pyarrow reads it."""
    path = new_directory(below)
    whole = pa.table({"id": range(ROWS), "value": COLUMNS[name]})
    for number, (start, stop) in enumerate(PLACES):
        pq.write_table(
            whole.slice(start, stop - start), path / f"{number}.parquet", row_group_size=4
        )
    return path, pa.concat_tables(
        [pq.ParquetFile(path / f"{number}.parquet").read() for number in range(2)]
    ).column("value")


def rows_of(batches: list[dict[str, Any]]) -> list[Any]:
    """The values of a column by row, whatever their order and form."""
    found: dict[int, Any] = {}
    for batch in batches:
        values = batch["value"]
        for id, value in zip(batch["id"], values_of(values), strict=True):
            found[int(id)] = value
    return [found[row] for row in sorted(found)]


def values_of(column: Any) -> Any:
    """The rows of a column, with structs as dicts."""
    if isinstance(column, dict):
        fields = map(values_of, column.values())
        return [dict(zip(column, row, strict=True)) for row in zip(*fields, strict=True)]
    return column.tolist() if isinstance(column, sm.Ragged) else column


def leaves(column: Any) -> list[Any]:
    """The arrays or tensors that a column consists of."""
    if isinstance(column, dict):
        return [leaf for field in column.values() for leaf in leaves(field)]
    return [*leaves(column.values), column.offsets] if isinstance(column, sm.Ragged) else [column]


def plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


@in_one("shuffle", [False, True])
@in_one("name", COLUMNS)
def test_arrow_and_dict_have_the_values_that_pyarrow_reads(
    tmp_path: Path, name: str, shuffle: bool
) -> None:
    path, wanted = write(tmp_path, name)
    options = {"batch_size": 5, "shuffle": shuffle, "threads": 2}
    batches = list(flat_loader(path, output="arrow", **options))
    assert {batch.schema for batch in batches} == {batches[0].schema}
    assert table_of(batches).schema.field("value").type == wanted.type
    assert table_of(batches).sort_by("id").column("value").to_pylist() == wanted.to_pylist()
    assert rows_of(list(flat_loader(path, output="dict", **options))) == wanted.to_pylist()


@in_one("shuffle", [False, True])
@in_one("name", COLUMNS)
def test_arrays_have_one_type_and_the_values_that_pyarrow_reads(
    tmp_path: Path, name: str, shuffle: bool
) -> None:
    path, wanted = write(tmp_path, name)
    batches = list(
        sm.Loader(
            path, output="numpy", batch_size=5, shuffle=shuffle, runtime=sm.Runtime(threads=2)
        )
    )
    kinds = {
        tuple(
            (leaf.dtype, leaf.shape[1:]) if isinstance(leaf, np.ndarray) else type(leaf)
            for leaf in leaves(batch["value"])
        )
        for batch in batches
    }
    assert len(kinds) == 1
    found = rows_of(batches)
    if name.startswith("float32 with"):
        assert np.array_equal(np.array(found), wanted.to_numpy(), equal_nan=True)
    elif name.startswith("time") and not name.startswith("timestamp"):
        counted = wanted.cast(pa.int32() if name == "time32" else pa.int64())
        assert [value.astype(np.int64) for value in found] == counted.to_pylist()
    elif isinstance(found[0], np.datetime64 | np.timedelta64):
        assert [plain(value) for value in found] == [plain(value) for value in wanted.to_numpy()]
    else:
        assert [plain(value) for value in found] == wanted.to_pylist()


@pytest.mark.parametrize("name", COLUMNS)
def test_tensors_have_the_values_of_the_arrays(tmp_path: Path, name: str) -> None:
    torch = pytest.importorskip("torch")
    path, _ = write(tmp_path, name)
    arrays = list(sm.Loader(path, output="numpy", batch_size=5, shuffle=True))
    tensors = list(sm.Loader(path, output="torch", batch_size=5, shuffle=True))
    for array, tensor in zip(arrays, tensors, strict=True):
        for key in ("id", "value"):
            pairs = zip(leaves(array[key]), leaves(tensor[key]), strict=True)
            for ours, theirs in pairs:
                if isinstance(theirs, torch.Tensor):
                    numbers = ours.astype(np.int64) if ours.dtype.kind in "mM" else ours
                    assert theirs.numpy().dtype == numbers.dtype
                    assert np.array_equal(
                        theirs.numpy(), numbers, equal_nan=numbers.dtype.kind == "f"
                    )
                else:
                    assert theirs == ours.tolist()


@pytest.mark.parametrize("output", ["numpy", "torch"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_null_policies_hold_in_every_batch(tmp_path: Path, output: str, shuffle: bool) -> None:
    if output == "torch":
        pytest.importorskip("torch")
    values = [None if row % 7 == 3 else row for row in range(40)]
    path = write_tables(
        tmp_path,
        [pa.table({"id": range(40), "value": pa.array(values, pa.int64())})],
        row_group_size=6,
    )
    options: dict[str, Any] = {"output": output, "shuffle": shuffle, "batch_size": 4}
    with pytest.raises(ValueError, match=r"`value`.*000\.parquet"):
        flat_loader(path, **options)
    filled = rows_of(list(flat_loader(path, nulls="fill", fill_values={"value": -1}, **options)))
    assert [int(value) for value in filled] == [-1 if value is None else value for value in values]
    batches = list(flat_loader(path, nulls="mask", **options))
    assert all(
        list(batch) == ["id", "value", "value__valid", "id__valid"]
        or {"value__valid"} <= set(batch)
        for batch in batches
    )
    valid = {
        int(id): bool(mark)
        for batch in batches
        for id, mark in zip(batch["id"], batch["value__valid"], strict=True)
    }
    assert [valid[row] for row in range(40)] == [value is not None for value in values]
    assert len({str(batch["value"].dtype) for batch in batches}) == 1


def test_integers_beyond_the_exact_floats_come_out_unchanged(tmp_path: Path) -> None:
    values = [2**53 + 1, None, -(2**63), 2**63 - 1]
    marks = [True, None, False, None]
    lists = [[1, None, 3], None, [], [2**53 + 1]]
    path = write_tables(
        tmp_path, [pa.table({"value": values, "mark": marks, "list": lists})], row_group_size=3
    )
    for shuffle in (False, True):
        (batch,) = sm.Loader(path, output="dict", shuffle=shuffle)
        rows = sorted(zip(batch["value"], batch["mark"], batch["list"], strict=True), key=str)
        assert rows == sorted(zip(values, marks, lists, strict=True), key=str)


def test_writing_to_a_batch_changes_no_other(tmp_path: Path) -> None:
    path = write_tables(tmp_path, [pa.table({"id": range(40)})])
    torch = pytest.importorskip("torch")
    passing = iter(sm.Loader(path, batch_size=4, output="torch"))
    first = next(passing)
    first["id"].add_(1000)
    assert next(passing)["id"].tolist() == [4, 5, 6, 7]
    assert isinstance(first["id"], torch.Tensor)
    assert sm.Dataset(path)[0] == {"id": 0}


def test_nulls_of_a_source_that_is_not_drawn_are_not_refused(tmp_path: Path) -> None:
    for name, values in (("a", range(10)), ("nulls", [None])):
        pq.write_table(pa.table({"id": pa.array(values, pa.int64())}), tmp_path / f"{name}.parquet")
    paths = {name: tmp_path / f"{name}.parquet" for name in ("a", "nulls")}
    mixture = sm.Mixture(paths, weights={"a": 1, "nulls": 0}, epoch_rows=10)
    [batch] = sm.Loader(mixture, output="numpy")
    assert sorted(batch["id"].tolist()) == list(range(10))


@pytest.mark.slow
def test_batch_of_more_than_2_gib_has_wide_offsets_and_a_stream_is_cut(tmp_path: Path) -> None:
    rows = 2200
    words = pa.DictionaryArray.from_arrays(
        pa.array([0] * rows, pa.int32()), pa.array([b"ab" * (1 << 19)])
    )
    pq.write_table(
        pa.table({"s": words}), tmp_path / "a.parquet", store_schema=False, row_group_size=rows
    )
    batch = next(iter(sm.Loader(tmp_path / "a.parquet", batch_size=rows, output="arrow")))
    assert (batch.num_rows, batch.schema.types) == (rows, [pa.large_binary()])
    assert len(batch["s"][rows - 1].as_py()) == 1 << 20
    del batch
    lengths = 0
    for piece in pa.RecordBatchReader.from_stream(sm.Dataset(tmp_path / "a.parquet")):
        assert piece.schema.types == [pa.binary()]
        lengths += piece.num_rows
    assert lengths == rows
