"""Columns of several files, projections, and row groups of every size."""

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from row_files import flat, ids, new_directory, numpy_loader, table_of, write_files, write_tables
from shardmill.errors import FormatError


def test_columns_are_matched_by_name_widened_and_filled_with_nulls(tmp_path: Path) -> None:
    path = write_tables(
        tmp_path,
        [
            pa.table({"id": pa.array([1, 2], pa.int32()), "only_first": [1.0, 2.0]}),
            pa.table({"text": ["x"], "id": pa.array([2**40], pa.int64())}),
            pa.table({"id": pa.array([], pa.int8())}),
        ],
    )
    rows = table_of(sm.Loader(path, output="arrow"))
    assert rows.schema == pa.schema(
        [("id", pa.int64()), ("only_first", pa.float64()), ("text", pa.string())]
    )
    assert rows.to_pylist() == [
        {"id": 1, "only_first": 1.0, "text": None},
        {"id": 2, "only_first": 2.0, "text": None},
        {"id": 2**40, "only_first": None, "text": "x"},
    ]
    assert flat(sm.Loader(path, output="arrow", filter=sm.col("text").is_null())) == [1, 2]
    assert flat(sm.Loader(path, output="arrow", filter=sm.col("id") > 5)) == [2**40]


@pytest.mark.parametrize(
    ("first", "second", "widened"),
    [
        (pa.int8(), pa.int64(), pa.int64()),
        (pa.uint8(), pa.int8(), pa.int16()),
        (pa.uint32(), pa.int32(), pa.int64()),
        (pa.uint16(), pa.uint64(), pa.uint64()),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.string(), pa.large_string(), pa.large_string()),
        (pa.binary(), pa.large_binary(), pa.large_binary()),
        (pa.dictionary(pa.int8(), pa.string()), pa.string(), pa.string()),
        (
            pa.dictionary(pa.int8(), pa.string()),
            pa.dictionary(pa.int16(), pa.string()),
            pa.dictionary(pa.int32(), pa.string()),
        ),
    ],
)
def test_types_are_widened_where_no_value_changes(
    tmp_path: Path, first: pa.DataType, second: pa.DataType, widened: pa.DataType
) -> None:
    is_text = pa.types.is_dictionary(first) or not (
        pa.types.is_integer(first) or pa.types.is_floating(first)
    )
    values = [b"a", b"b"] if pa.types.is_binary(first) else ["a", "b"] if is_text else [0, 100]
    parts = [
        pa.array(values).cast(type) if pa.types.is_dictionary(type) else pa.array(values, type)
        for type in (first, second)
    ]
    for order in itertools.permutations(parts):
        path = write_tables(tmp_path, [pa.table({"value": part}) for part in order])
        for shuffle in (False, True):
            rows = table_of(sm.Loader(path, output="arrow", shuffle=shuffle))
            assert rows.schema.field("value").type == widened
            assert sorted(rows.column("value").to_pylist()) == sorted(values * 2)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.array([1]), pa.array(["x"])),
        (pa.array([0], pa.timestamp("us")), pa.array([0], pa.timestamp("us", "UTC"))),
        (pa.array([[1]]), pa.array([1])),
    ],
)
def test_conflict_names_both_files_and_the_column(
    tmp_path: Path, first: pa.Array, second: pa.Array
) -> None:
    path = write_tables(
        tmp_path, [pa.table({"id": [1], "value": values}) for values in (first, second)]
    )
    with pytest.raises(ValueError, match=r"`value`.*000\.parquet.*001\.parquet"):
        numpy_loader(path)


def test_more_categories_than_the_keys_of_one_file_can_count(tmp_path: Path) -> None:
    path = new_directory(tmp_path)
    values = []
    for file in range(4):
        names = [f"{file}-{row % 100}" for row in range(300)]
        values += names
        column = pa.array(names).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string()))
        pq.write_table(
            pa.table({"id": range(file * 300, file * 300 + 300), "name": column}),
            path / f"{file}.parquet",
            row_group_size=100,
        )
    for output, shuffle in itertools.product(["arrow", "dict", "numpy"], [False, True]):
        found: dict[int, str] = {}
        for batch in sm.Loader(path, output=output, batch_size=500, shuffle=shuffle):
            names = batch.column("name").to_pylist() if output == "arrow" else batch["name"]
            found |= dict(zip(flat([batch]), names, strict=True))
        assert [found[row] for row in range(1200)] == values


def test_projection_keeps_the_order_that_was_asked_for(tmp_path: Path) -> None:
    path = write_files(tmp_path, [20], row_group=6)
    for columns in itertools.permutations(["id", "text", "half"], 2):
        for output in ("numpy", "dict", "arrow"):
            batch = next(iter(sm.Loader(path, columns=columns, output=output, shuffle=True)))
            assert list(batch.schema.names if output == "arrow" else batch) == list(columns)
    assert sm.Dataset(path, columns=["text", "id"])[3] == {"text": "row 3", "id": 3}


def test_no_columns_are_rows_all_the_same(tmp_path: Path) -> None:
    path = write_files(tmp_path, [6, 3], row_group=4)
    assert [
        batch.num_rows for batch in sm.Loader(path, columns=[], output="arrow", batch_size=4)
    ] == [4, 4, 1]
    assert list(numpy_loader(path, columns=[], batch_size=4)) == [{}] * 3
    assert [
        batch["__padded"].sum()
        for batch in numpy_loader(path, columns=[], batch_size=4, tail="pad")
    ] == [0, 0, 3]
    filtered = sm.Loader(
        path, columns=[], output="arrow", batch_size=4, shuffle=True, filter=sm.col("id") > 2
    )
    assert [batch.num_rows for batch in filtered] == [4, 2]
    data = sm.Dataset(path, columns=[])
    assert (list(data), data[2], data.take([1, 1]).num_rows) == ([{}] * 9, {}, 2)


def test_column_names_may_be_anything(tmp_path: Path) -> None:
    names = ["", "a.b", "with space", "ä\U0001f600", "id`quoted`", "__index_level_0__"]
    path = write_tables(tmp_path, [pa.table({name: [place] for place, name in enumerate(names)})])
    (batch,) = numpy_loader(path)
    assert {name: int(value[0]) for name, value in batch.items()} == {
        name: place for place, name in enumerate(names)
    }
    (batch,) = numpy_loader(path, columns=["a.b", ""], filter=sm.col("with space") == 2)
    assert list(batch) == ["a.b", ""]


def test_nested_columns_do_not_shift_those_behind_them(tmp_path: Path) -> None:
    """Parquet counts leaves, users count columns."""
    rows = [
        {
            "s": {"a": row, "b": {"c": str(row)}},
            "l": [row] * (row % 3),
            "m": [("k", row)],
            "id": row,
        }
        for row in range(30)
    ]
    schema = pa.schema(
        [
            ("s", pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.string())]))])),
            ("l", pa.list_(pa.int64())),
            ("m", pa.map_(pa.string(), pa.int64())),
            ("id", pa.int64()),
        ]
    )
    path = write_tables(tmp_path, [pa.Table.from_pylist(rows, schema)], row_group_size=7)
    assert flat(numpy_loader(path, columns=["id"], filter=sm.col("id") >= 25)) == list(
        range(25, 30)
    )
    for shuffle in (False, True):
        loader = sm.Loader(
            path, output="arrow", batch_size=4, shuffle=shuffle, filter=sm.col("id") < 20
        )
        assert (
            table_of(loader).sort_by("id").to_pylist()
            == pa.Table.from_pylist(rows[:20], schema).to_pylist()
        )
    for columns in (["m", "s"], ["id", "l"]):
        (batch,) = sm.Loader(path, output="dict", columns=columns)
        assert batch == {name: [row[name] for row in rows] for name in columns}


def test_a_large_row_group_is_cut_and_comes_in_order(tmp_path: Path) -> None:
    rows = 2_500_000
    path = write_tables(
        tmp_path,
        [
            pa.table(
                {"id": np.arange(rows), "more": np.arange(rows) / 2, "yet_more": np.arange(rows)}
            )
        ],
        row_group_size=rows,
    )
    loader = numpy_loader(path, columns=["id"], batch_size=1000, threads=2)
    assert loader.explain()["blocks"] > 1
    assert np.array_equal(np.concatenate([batch["id"] for batch in loader]), np.arange(rows))
    mixed = numpy_loader(
        path, columns=["id", "more"], batch_size=4096, shuffle=True, shuffle_window_bytes=1
    )
    batches = list(mixed)
    found = {name: np.concatenate([batch[name] for batch in batches]) for name in ("id", "more")}
    assert np.array_equal(found["id"] / 2, found["more"])
    assert np.array_equal(np.sort(found["id"]), np.arange(rows))
    assert flat(numpy_loader(path, columns=["id"], filter=sm.col("id") >= rows - 3)) == [
        rows - 3,
        rows - 2,
        rows - 1,
    ]
    assert sm.Dataset(path, columns=["id"])[rows - 1] == {"id": rows - 1}


def test_duplicate_names_in_a_file_are_refused(tmp_path: Path) -> None:
    path = write_tables(
        tmp_path, [pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["x", "x"])]
    )
    with pytest.raises(FormatError, match="two columns named `x`"):
        numpy_loader(path)


@pytest.mark.slow
@pytest.mark.parametrize("shuffle", [False, True])
def test_text_of_more_than_two_gibibytes_in_one_column_is_delivered(
    tmp_path: Path, shuffle: bool
) -> None:
    """32-bit offsets end at 2 GiB; one batch here has more."""
    text, rows = "x" * (1 << 20), 2300
    path = new_directory(tmp_path)
    with pq.ParquetWriter(
        path / "large.parquet", pa.schema([("id", pa.int64()), ("text", pa.large_string())])
    ) as writer:
        for start in range(0, rows, 100):
            part = pa.table(
                {"id": range(start, start + 100), "text": pa.array([text] * 100, pa.large_string())}
            )
            writer.write_table(part, row_group_size=rows)
    seen = 0
    for batch in sm.Loader(path, output="arrow", batch_size=rows, shuffle=shuffle):
        lengths = pc.binary_length(batch.column("text"))
        assert set(lengths.to_pylist()) == {1 << 20}
        seen += batch.num_rows
    assert seen == rows


def test_ids_of_every_batch_have_the_type_of_the_column(tmp_path: Path) -> None:
    """Files of two widths: no batch may show it."""
    path = write_tables(
        tmp_path,
        [
            pa.table({"id": pa.array(range(7), pa.int16())}),
            pa.table({"id": pa.array(range(7, 20), pa.int32())}),
        ],
        row_group_size=3,
    )
    batches = list(numpy_loader(path, batch_size=4))
    assert {batch["id"].dtype for batch in batches} == {np.dtype(np.int32)}
    assert ids(batches)[0] == [0, 1, 2, 3]
