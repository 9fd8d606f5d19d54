"""One column with different types in two files.

The type of the column, its values and filters, held against pyarrow and DuckDB.
"""

from __future__ import annotations

import operator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from row_files import table_of, write_tables
from shardmill.curate import ParquetSink, Pipeline, TableSource
from shardmill.errors import FormatError

DAY = datetime(2024, 2, 29, 12, 30, 15)

RULES: list[tuple[pa.DataType, list[Any], pa.DataType, list[Any], pa.DataType]] = [
    (pa.int64(), [-5, 2**53], pa.float64(), [0.5, float("inf")], pa.float64()),
    (pa.int32(), [1, 2**31 - 1], pa.int64(), [2**40], pa.int64()),
    (pa.uint32(), [2**32 - 1], pa.int64(), [-1], pa.int64()),
    (pa.uint64(), [2**63 - 1], pa.int64(), [-(2**63)], pa.int64()),
    (pa.float32(), [0.1, -0.0], pa.float64(), [0.1], pa.float64()),
    (pa.string(), ["a"], pa.large_string(), ["b"], pa.large_string()),
    (
        pa.dictionary(pa.int8(), pa.string()),
        ["a", "b"],
        pa.large_string(),
        ["b"],
        pa.large_string(),
    ),
    (pa.binary(), [b"\xff"], pa.large_binary(), [b""], pa.large_binary()),
    (
        pa.timestamp("ms"),
        [DAY],
        pa.timestamp("us"),
        [DAY.replace(microsecond=1)],
        pa.timestamp("us"),
    ),
    (
        pa.timestamp("ms", "UTC"),
        [DAY.replace(tzinfo=UTC)],
        pa.timestamp("ns", "UTC"),
        [None],
        pa.timestamp("ns", "UTC"),
    ),
    (pa.time32("ms"), [time(1, 2, 3)], pa.time64("us"), [time(1, 2, 3, 4)], pa.time64("us")),
    (
        pa.decimal128(5, 2),
        [Decimal("1.25")],
        pa.decimal128(9, 1),
        [Decimal("-7.5")],
        pa.decimal128(10, 2),
    ),
    (pa.null(), [None, None], pa.date32(), [date(2024, 2, 29)], pa.date32()),
    (
        pa.list_(pa.int32()),
        [[1, None], None, []],
        pa.list_(pa.int64()),
        [[2**40]],
        pa.list_(pa.int64()),
    ),
    (pa.list_(pa.int64()), [[1], [2, 3]], pa.list_(pa.float64()), [[0.5]], pa.list_(pa.float64())),
    (
        pa.list_(pa.float32(), 2),
        [[1, 2], None],
        pa.list_(pa.float64(), 2),
        [[3, 4]],
        pa.list_(pa.float64(), 2),
    ),
    (
        pa.list_(pa.float32(), 2),
        [[1, 2], None],
        pa.list_(pa.float32()),
        [[3]],
        pa.list_(pa.float32()),
    ),
    (
        pa.map_(pa.string(), pa.int32()),
        [[("a", 1)]],
        pa.map_(pa.string(), pa.int64()),
        [[("b", 2**40)]],
        pa.map_(pa.string(), pa.int64()),
    ),
    (
        pa.struct([("a", pa.int32()), ("b", pa.string())]),
        [{"a": 1, "b": "x"}, None],
        pa.struct([("c", pa.float32()), ("a", pa.float64())]),
        [{"c": 0.5, "a": 1.5}],
        pa.struct([("a", pa.float64()), ("b", pa.string()), ("c", pa.float32())]),
    ),
]


def two_files(tmp_path: Path, first: pa.Array, second: pa.Array, **options: Any) -> Path:
    return write_tables(
        tmp_path, [pa.table({"value": first}), pa.table({"value": second})], **options
    )


@pytest.mark.parametrize(
    ("first", "first_values", "second", "second_values", "expected"), RULES, ids=str
)
def test_two_types_are_one_that_holds_the_values_of_both(
    tmp_path: Path,
    first: pa.DataType,
    first_values: list[Any],
    second: pa.DataType,
    second_values: list[Any],
    expected: pa.DataType,
) -> None:
    parts = [pa.array(first_values, first), pa.array(second_values, second)]
    rows = table_of(sm.Loader(two_files(tmp_path, *parts), output="arrow"))
    assert rows.schema.field("value").type == expected
    if not pa.types.is_dictionary(
        first
    ):  # pyarrow has no common type for a dictionary and other strings.
        tables = [pa.table({"value": part}) for part in parts]
        assert rows.equals(pa.concat_tables(tables, promote_options="permissive"))
    swapped = table_of(sm.Loader(two_files(tmp_path, *parts[::-1]), output="arrow")).column("value")
    assert sorted(map(plain, swapped.to_pylist())) == sorted(
        map(plain, rows.column("value").to_pylist())
    )


def plain(value: Any) -> str:
    """Of equal values, whatever the order of their fields."""
    return str(sorted(value.items()) if isinstance(value, dict) else value)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.array([1]), pa.array(["1"])),
        (pa.array([True]), pa.array([1])),
        (pa.array([DAY], pa.timestamp("us")), pa.array([DAY], pa.timestamp("us", "UTC"))),
        (
            pa.array([DAY], pa.timestamp("us", "Europe/Paris")),
            pa.array([DAY], pa.timestamp("us", "UTC")),
        ),
        (pa.array([1]).dictionary_encode(), pa.array(["a"]).dictionary_encode()),
        (pa.array([Decimal("0.1")]), pa.array([0.1])),
        (pa.array([[1]]), pa.array([["a"]])),
        (pa.array([{"a": 1}]), pa.array([{"a": "x"}])),
    ],
    ids=str,
)
def test_types_without_a_common_one_name_both_files_and_both_types(
    tmp_path: Path, first: pa.Array, second: pa.Array
) -> None:
    path = two_files(tmp_path, first, second)
    with pytest.raises(
        ValueError,
        match=r"(?s)`value` is .+ in `.*000\.parquet` and .+ in `.*001\.parquet`.*hint: .*glob",
    ):
        sm.Dataset(path)


@pytest.mark.parametrize(
    ("first", "second", "row", "value"),
    [
        (pa.array([0.5]), pa.array([2**53, None, 2**53 + 1]), 2, "9007199254740993"),
        (pa.array([0.5], pa.float32()), pa.array([1, 2**63 - 1]), 1, "9223372036854775807"),
        (pa.array([-1]), pa.array([1, 2**63], pa.uint64()), 1, "9223372036854775808"),
        (
            pa.array([DAY], pa.timestamp("ns")),
            pa.array([0, 2**62], pa.timestamp("ms")),
            1,
            "4611686018427387904",
        ),
        (pa.array([[0.5]]), pa.array([[1], [], [2, 2**53 + 1]]), 2, "9007199254740993"),
        (pa.array([{"a": 0.5}]), pa.array([{"a": 1}, {"a": 2**53 + 1}]), 1, "9007199254740993"),
    ],
    ids=str,
)
def test_value_that_would_change_is_an_error_that_names_its_row(
    tmp_path: Path, first: pa.Array, second: pa.Array, row: int, value: str
) -> None:
    path = two_files(tmp_path, first, second, row_group_size=1)
    message = rf"Row {row} of `.*001\.parquet`: .*{value}.* in column `value`"
    with pytest.raises(FormatError, match=message):
        list(sm.Loader(path, output="arrow"))
    skipping = sm.Loader(path, output="arrow", errors=sm.ErrorPolicy(rows="skip", max_rows=1))
    assert sum(batch.num_rows for batch in skipping) == len(first) + len(second) - 1
    sink = ParquetSink(str(tmp_path / "out"))
    if pa.types.is_integer(first.type) or pa.types.is_floating(first.type):
        with pytest.raises(FormatError, match=message):
            Pipeline(source=TableSource(path), stages=[], sink=sink).run()


TYPES = {
    pa.int8(): st.integers(-(2**7), 2**7 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**53), 2**53),
    pa.uint16(): st.integers(0, 2**16 - 1),
    pa.uint64(): st.integers(0, 2**53),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
}
COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]


@st.composite
def numbers(draw: st.DrawFn) -> list[pa.Array]:
    types = draw(st.lists(st.sampled_from(list(TYPES)), min_size=2, max_size=4))
    return [
        pa.array(draw(st.lists(st.none() | TYPES[kind], min_size=1, max_size=12)), kind)
        for kind in types
    ]


@settings(max_examples=examples(60), deadline=None)
@given(parts=numbers(), data=st.data())
def test_filters_see_the_common_type(
    tmp_path_factory: pytest.TempPathFactory, parts: list[pa.Array], data: st.DataObject
) -> None:
    path = write_tables(
        tmp_path_factory.mktemp("data"),
        [pa.table({"value": part}) for part in parts],
        row_group_size=3,
    )
    dataset = sm.Dataset(path)
    common = dataset.schema.field("value").type
    unified = pa.concat_arrays([part.cast(common) for part in parts])
    assert table_of(sm.Loader(path, output="arrow")).column("value").combine_chunks() == unified
    limit = data.draw(
        st.sampled_from([value for value in unified.to_pylist() if value is not None] or [0])
        | st.integers(-300, 300)
    )
    compare = data.draw(st.sampled_from(COMPARISONS))
    kept = [value for value in unified.to_pylist() if value is not None and compare(value, limit)]
    assert [
        row["value"] for row in sm.Dataset(path, filter=compare(sm.col("value"), limit))
    ] == kept
    nulls = sm.Dataset(path, filter=sm.col("value").is_null())
    assert len(nulls) == unified.null_count


def test_rows_and_filter_are_those_of_duckdb(tmp_path: Path) -> None:
    tables = [
        pa.table(
            {
                "id": pa.array(range(100), pa.int32()),
                "score": pa.array([row % 3 for row in range(100)]),
            }
        ),
        pa.table(
            {"score": [row / 4 for row in range(100)], "id": pa.array(range(100, 200), pa.int64())}
        ),
        pa.table(
            {"id": pa.array(range(200, 210), pa.uint8()), "score": pa.nulls(10), "more": ["x"] * 10}
        ),
    ]
    path = write_tables(tmp_path, tables, row_group_size=7)
    query = f"SELECT id, score, more FROM read_parquet('{path}/*.parquet', union_by_name=true)"
    everything = duckdb.sql(f"{query} ORDER BY id").to_arrow_table()
    assert table_of(sm.Loader(path, output="arrow")).to_pylist() == everything.to_pylist()
    for condition, filter in (
        ("score > 1.5", sm.col("score") > 1.5),
        ("id >= 150 AND score < 20", (sm.col("id") >= 150) & (sm.col("score") < 20)),
    ):
        expected = duckdb.sql(f"{query} WHERE {condition} ORDER BY id").to_arrow_table()
        assert (
            table_of(sm.Loader(path, output="arrow", filter=filter)).to_pylist()
            == expected.to_pylist()
        )


def test_blocks_are_pruned_by_statistics_of_the_own_type_of_a_file(tmp_path: Path) -> None:
    path = two_files(
        tmp_path,
        pa.array(range(1000)),
        pa.array([row + 0.5 for row in range(1000)]),
        row_group_size=100,
    )
    plan = sm.Loader(path, filter=sm.col("value") >= 950).explain()
    assert plan["blocks"] == 2
    assert [row["value"] for row in sm.Dataset(path, filter=sm.col("value") == 999)] == [999.0]


def test_orc_files_are_widened_as_well(tmp_path: Path) -> None:
    (tmp_path / "orc").mkdir()
    orc.write_table(pa.table({"value": pa.array([1, 2], pa.int32())}), tmp_path / "orc" / "a.orc")
    orc.write_table(pa.table({"value": [0.5]}), tmp_path / "orc" / "b.orc")
    assert [row["value"] for row in sm.Dataset(tmp_path / "orc")] == [1.0, 2.0, 0.5]


def test_state_of_files_with_one_schema_is_that_of_before(tmp_path: Path) -> None:
    """A common type is not part of the identity of a data set, so states do not depend on it."""
    same = write_tables(tmp_path, [pa.table({"value": [1, 2]}), pa.table({"value": [3, 4]})])
    loader = sm.Loader(same, batch_size=1)
    next(iter(loader))
    state = loader.state_dict()
    resumed = sm.Loader(same, batch_size=1, output="arrow")
    resumed.load_state_dict(state)
    assert [batch.column("value").to_pylist() for batch in resumed] == [[2], [3], [4]]


def test_later_files_of_a_table_job_keep_their_values(tmp_path: Path) -> None:
    path = two_files(tmp_path, pa.array([[1.5]]), pa.array([[2]], pa.list_(pa.int8())))
    Pipeline(source=TableSource(path), stages=[], sink=ParquetSink(str(tmp_path / "out"))).run()
    assert pq.read_table(tmp_path / "out").to_pydict() == {"value": [[1.5], [2.0]]}
