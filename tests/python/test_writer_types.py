"""Every type of Arrow in every format of `sm.Writer`.

It comes back, or an error names the column before anything is written.
"""

import base64
import datetime as dt
import json
import tarfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import in_one
from shardmill.curate import Map, ParquetSink, Pipeline, TableSource

INTERVALS = pa.array([(1, 2, 3), None, (4, 5, 6)], pa.month_day_nano_interval())
DAYS = [dt.date(2024, 2, 29), None, dt.date(1969, 1, 2)]
MOMENTS = [dt.datetime(2024, 2, 29, 12), None, dt.datetime(1969, 1, 2)]
TIMES = [dt.time(12, 30), None, dt.time(0)]
SPANS = [dt.timedelta(seconds=7), None, dt.timedelta(days=-1)]
MONEY = [Decimal("1.50"), None, Decimal("-2.25")]


def of_dictionary(values: pa.Array, keys: pa.DataType = pa.int8()) -> pa.Array:
    """Return its first value, a null and its last value."""
    return pa.DictionaryArray.from_arrays(pa.array([0, None, len(values) - 1], keys), values)


def flat() -> Iterator[pa.Array]:
    whole = (
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.uint8(),
        pa.uint16(),
        pa.uint32(),
        pa.uint64(),
    )
    yield from (pa.array([1, None, 3], kind) for kind in whole)
    yield pa.array([np.float16(1.5), None, np.float16(-2)], pa.float16())
    yield from (pa.array([1.5, None, -2.25], kind) for kind in (pa.float32(), pa.float64()))
    decimals = (pa.decimal32(7, 2), pa.decimal64(15, 2), pa.decimal128(20, 2), pa.decimal256(50, 2))
    yield from (pa.array(MONEY, kind) for kind in decimals)
    yield from (pa.array(DAYS, kind) for kind in (pa.date32(), pa.date64()))
    yield from (
        pa.array(TIMES, kind)
        for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))
    )
    for unit in ("s", "ms", "us", "ns"):
        yield pa.array(MOMENTS, pa.timestamp(unit))
        yield pa.array(MOMENTS, pa.timestamp(unit, "UTC"))
        yield pa.array(SPANS, pa.duration(unit))
    yield pa.array([True, None, False])
    yield from (
        pa.array(["a", None, "b"], kind)
        for kind in (pa.string(), pa.large_string(), pa.string_view())
    )
    binaries = (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(1))
    yield from (pa.array([b"a", None, b"b"], kind) for kind in binaries)


def nested() -> Iterator[pa.Array]:
    for kind in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view):
        yield pa.array([[1, 2], None, [3]], kind(pa.int64()))
    yield pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int64(), 2))
    yield pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64()))
    yield pa.array([{"a": 1}, None, {"a": 2}], pa.struct([("a", pa.int64())]))
    words = of_dictionary(pa.array(["x", "y"], pa.string_view()), pa.uint32())
    yield pa.ListArray.from_arrays(pa.array([0, 2, 2, 3], pa.int32()), words)
    yield pa.StructArray.from_arrays([words], names=["word"])
    yield pa.MapArray.from_arrays(
        pa.array([0, 1, 2, 3], pa.int32()), pa.array(["a", "b", "c"]), words
    )
    views = pa.array([[1, 2], None, [3]], pa.list_view(pa.int64()))
    yield pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), views)
    yield of_dictionary(pa.array([[1], [2]]))
    yield of_dictionary(pa.array([{"a": 1}, {"a": 2}]))
    for values in (pa.array(["a", "b"]), pa.array([1, 2]), pa.array(["a", "b"], pa.string_view())):
        yield pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), values)


def never_parquet() -> Iterator[pa.Array]:
    yield INTERVALS
    yield pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), INTERVALS)
    yield pa.array([{}, None, {}], pa.struct([]))
    kinds, numbers, words = (
        pa.array([0, 1, 0], pa.int8()),
        pa.array([1, 2, 3]),
        pa.array(["a", "b", "c"]),
    )
    yield pa.UnionArray.from_sparse(kinds, [numbers, words])
    dense = pa.UnionArray.from_dense(kinds, pa.array([0, 0, 1], pa.int32()), [numbers, words])
    yield dense
    yield pa.StructArray.from_arrays([dense], names=["either"])


ARRAYS = [pa.nulls(3), *flat(), *(of_dictionary(array) for array in flat()), *nested()]
UNSTORED = list(never_parquet())


def written(path: Path, name: str, array: pa.Array, **options: Any) -> list[str]:
    """Write the column between two others."""
    ends = pa.array(range(len(array)))
    with sm.Writer(path, **options) as writer:
        writer.write_batch(pa.table({"cls": ends, name: array, "id": ends}))
    return writer.files


@in_one("array", ARRAYS, ids=lambda array: str(array.type))
@in_one("threads", [0, 2])
def test_parquet_holds_the_values_of_a_type(tmp_path: Path, array: pa.Array, threads: int) -> None:
    path = tmp_path / "a.parquet"
    written(path, "x", array, threads=threads)
    assert pa.table(sm.Dataset(path))["x"].to_pylist() == array.to_pylist()
    assert pq.read_table(path)["x"].to_pylist() == array.to_pylist()


#: Types that Parquet lacks, what other readers find in their place, and the type of a
#: column of DuckDB.
COARSE = [
    (pa.timestamp("s"), MOMENTS, pa.timestamp("ms"), "TIMESTAMP"),
    (
        pa.timestamp("s", "Europe/Berlin"),
        MOMENTS,
        pa.timestamp("ms", "Europe/Berlin"),
        "TIMESTAMP WITH TIME ZONE",
    ),
    (pa.time32("s"), TIMES, pa.time32("ms"), "TIME"),
    (pa.date64(), DAYS, pa.date32(), "DATE"),
]


def nested_in(kind: pa.DataType, values: list) -> Iterator[tuple[Any, pa.DataType]]:
    """Values of a type at all depths, each with its type."""
    yield values, kind
    yield [{"a": value} for value in values], pa.struct([("a", kind)])
    yield [[value] for value in values], pa.list_(kind)
    yield [[value] for value in values], pa.large_list(kind)
    yield [[value, None] for value in values], pa.list_(kind, 2)
    yield [[("a", value)] for value in values], pa.map_(pa.string(), kind)
    yield [[{"a": [value]}] for value in values], pa.list_(pa.struct([("a", pa.list_(kind))]))


@pytest.mark.parametrize(("kind", "values", "expected", "of_duckdb"), COARSE, ids=str)
def test_units_that_parquet_lacks_become_those_that_every_reader_knows(
    tmp_path: Path, kind: pa.DataType, values: list, expected: pa.DataType, of_duckdb: str
) -> None:
    path = tmp_path / "a.parquet"
    pairs = zip(nested_in(kind, values), nested_in(expected, values), strict=True)
    columns = [(pa.array(given, of), wanted) for (given, of), (_, wanted) in pairs]
    columns.append((of_dictionary(pa.array(values, kind)), expected))
    table = pa.table({str(number): array for number, (array, _) in enumerate(columns)})
    with sm.Writer(path) as writer:
        writer.write_batch(table)
        writer.write_batch(table.slice(1))
    expected_rows = [*table.to_pylist(), *table.slice(1).to_pylist()]
    found = pq.read_table(path)
    assert found.to_pylist() == expected_rows
    types = [wanted for _, wanted in columns]
    assert found.schema.types == types
    assert sm.Dataset(path).schema.types == types
    assert pa.table(sm.Dataset(path)).to_pylist() == expected_rows
    # Also without the schema of Arrow.
    leaf = pq.ParquetFile(path).schema.column(0)
    assert leaf.logical_type.type in ("TIMESTAMP", "TIME", "DATE")
    pq.write_table(table.select(["0"]), tmp_path / "peer.parquet")
    own, peer = (
        duckdb.read_parquet(str(tmp_path / name)) for name in ("a.parquet", "peer.parquet")
    )
    assert own.types[0] == peer.types[0] == of_duckdb
    of_column = 'row_number() over () as row, "0"::varchar'
    assert own.select(of_column).fetchall()[:3] == peer.select(of_column).fetchall()


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (pa.array([2**60], pa.timestamp("s")), "timestamp"),
        (pa.array([[2**60]], pa.list_(pa.timestamp("s", "UTC"))), "timestamp"),
        (pa.array([2**30], pa.int32()).view(pa.time32("s")), "time32"),
        (
            pa.array([0, 86_400_001], pa.int64()).view(pa.date64()),
            "the date64 86400001 is not midnight",
        ),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
@pytest.mark.parametrize("threads", [0, 2])
def test_time_that_parquet_cannot_store_is_an_error_that_names_the_column(
    tmp_path: Path, array: pa.Array, message: str, threads: int
) -> None:
    with pytest.raises(
        sm.FormatError, match=r"Column `x` of .*a.parquet.* has a value that cannot be stored as"
    ) as error:
        written(tmp_path / "a.parquet", "x", array, threads=threads)
    assert message in str(error.value) and "\nhint: cast the column" in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_seconds_are_appended_to_shards_of_seconds(tmp_path: Path) -> None:
    rows = pa.table({"at": pa.array(MOMENTS, pa.timestamp("s"))})
    for _ in range(2):
        with sm.Writer(tmp_path, mode="append") as writer:
            writer.write_batch(rows)
    assert sm.Dataset(tmp_path).schema.types == [pa.timestamp("ms")]
    assert pa.table(sm.Dataset(tmp_path))["at"].to_pylist() == MOMENTS * 2
    # As shardmill wrote them before: integers, and their type in the schema of Arrow.
    old = tmp_path / "old"
    old.mkdir()
    plain = pa.table({"at": rows["at"].cast(pa.int64())})
    with pq.ParquetWriter(old / "part-00000.parquet", plain.schema, store_schema=False) as peer:
        peer.write_table(plain)
        peer.add_key_value_metadata(
            {"ARROW:schema": base64.b64encode(rows.schema.serialize()).decode()}
        )
    assert sm.Dataset(old).schema.types == [pa.timestamp("s")]
    with sm.Writer(old, mode="append") as writer:
        writer.write_batch(rows)
    assert sm.Dataset(old).schema.types == [pa.timestamp("ms")]
    assert pa.table(sm.Dataset(old))["at"].to_pylist() == MOMENTS * 2


@pytest.mark.parametrize("array", UNSTORED, ids=lambda array: str(array.type))
@pytest.mark.parametrize("threads", [0, 2])
def test_type_that_parquet_lacks_is_an_error_that_names_the_column(
    tmp_path: Path, array: pa.Array, threads: int, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(
        sm.FormatError,
        match=r"Column `x` is .*, and Parquet has no such type\nhint: cast the column",
    ):
        written(tmp_path / "a.parquet", "x", array, threads=threads)
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr().err == ""


@in_one("array", [*ARRAYS, *UNSTORED], ids=lambda array: str(array.type))
@in_one("format", ["jsonl", "mds", "webdataset"])
def test_other_formats_hold_a_type_or_name_the_column(
    tmp_path: Path, format: str, array: pa.Array, capfd: pytest.CaptureFixture[str]
) -> None:
    # MDS has no nulls; a member of raw bytes is not JSON.
    array = array[:1]
    kind = value_type(array.type)
    is_raw = any(
        word in str(kind).split("[")[0] for word in ("string", "binary")
    ) and not pa.types.is_nested(kind)
    name = "bin" if is_raw else "x.json"
    try:
        (path,) = written(tmp_path / "out", name, array, format=format)
    except sm.FormatError as error:
        assert f"olumn `{name}`" in str(error) and "\nhint: " in str(error)
        assert not (tmp_path / "out").exists()
    else:
        assert_same(read_one(path, format, name), array[0].as_py())
    assert capfd.readouterr().err == ""


def value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def read_one(path: str, format: str, name: str) -> Any:
    if format == "mds":
        return next(iter(sm.Dataset(Path(path).parent)))[name]
    if format == "jsonl":
        return json.loads(Path(path).read_text())[name]
    with tarfile.open(path) as archive:
        content = {
            member.name.split(".", 1)[1]: archive.extractfile(member).read() for member in archive
        }
    return content.get(name) if name == "bin" else json.loads(content.get(name, b"null"))


def assert_same(found: Any, value: Any) -> None:
    """Compare with a value of JSON or an array of MDS.

    JSON has other forms of decimals, times and maps.
    """
    if isinstance(value, dt.datetime):
        found = dt.datetime.fromisoformat(found).replace(tzinfo=value.tzinfo)
    elif isinstance(value, dt.date):
        found = dt.date.fromisoformat(found[: len("2024-02-29")])
    elif isinstance(value, dt.time):
        found = dt.time.fromisoformat(found)
    elif isinstance(value, Decimal):
        found = Decimal(str(found))
    elif isinstance(found, np.ndarray):
        found = found.tolist()
    elif isinstance(found, dict):
        value = dict(value)
    elif isinstance(value, str) and isinstance(found, bytes):
        found = found.decode()
    assert found == value


def test_categoricals_of_polars_come_back_from_parquet(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "category": pl.Series(["a", None, "b"], dtype=pl.Categorical),
            "enum": pl.Series(["x", "y", None], dtype=pl.Enum(["x", "y"])),
            "list": pl.Series([["a"], None, ["b", "a"]], dtype=pl.List(pl.Categorical)),
        }
    ).with_columns(struct=pl.struct("category", "enum"))
    with sm.Writer(tmp_path / "a.parquet") as writer:
        writer.write_batch(frame)
        writer.write_batch(frame.with_columns(pl.col("category").cast(pl.String)))
    assert pl.read_parquet(tmp_path / "a.parquet").equals(pl.concat([frame, frame]))


def test_interval_of_duckdb_is_an_error_that_names_the_column(tmp_path: Path) -> None:
    with (
        pytest.raises(
            sm.FormatError,
            match=r"Column `span` is month_day_nano_interval(.|\n)*hint: cast the column",
        ),
        sm.Writer(tmp_path / "a.parquet") as writer,
    ):
        writer.write_batch(duckdb.sql("select interval 1 day as span"))


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl"])
def test_changed_type_is_an_error_that_names_the_column(tmp_path: Path, name: str) -> None:
    with (
        pytest.raises(sm.FormatError, match=r"column `y` is int32 instead of int64\nhint: "),
        sm.Writer(tmp_path / name) as writer,
    ):
        writer.write_batch(pa.table({"x": [1], "y": [1]}))
        writer.write_batch(pa.table({"x": [1], "y": pa.array([1], pa.int32())}))


def with_word(table: pa.Table) -> pa.Table:
    return table.append_column("word", of_dictionary(pa.array(["x", "y"], pa.string_view())))


def with_interval(table: pa.Table) -> pa.Table:
    return table.append_column("span", INTERVALS)


def with_seconds(table: pa.Table) -> pa.Table:
    return table.append_column("at", pa.array(MOMENTS, pa.timestamp("s"))).append_column(
        "day", pa.array(DAYS, pa.date64())
    )


def test_sink_stores_seconds_and_days_in_units_of_parquet(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["0", "1", "2"]}), tmp_path / "in.parquet")
    source = TableSource(tmp_path / "in.parquet")
    Pipeline(source=source, stages=[Map(with_seconds)], sink=ParquetSink(tmp_path / "out")).run(
        progress=False
    )
    (file,) = (tmp_path / "out").glob("*.parquet")
    found = pq.read_table(file)
    assert found.schema.types[1:] == [pa.timestamp("ms"), pa.date32()]
    assert (found["at"].to_pylist(), found["day"].to_pylist()) == (MOMENTS, DAYS)


def test_sink_holds_the_same_types(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["0", "1", "2"]}), tmp_path / "in.parquet")
    source = TableSource(tmp_path / "in.parquet")
    Pipeline(source=source, stages=[Map(with_word)], sink=ParquetSink(tmp_path / "out")).run(
        progress=False
    )
    (file,) = (tmp_path / "out").glob("*.parquet")
    assert pq.read_table(file)["word"].to_pylist() == ["x", None, "y"]
    job = Pipeline(
        source=source, stages=[Map(with_interval)], sink=ParquetSink(tmp_path / "refused")
    )
    with pytest.raises(
        sm.FormatError,
        match=r"Column `span` is month_day_nano_interval(.|\n)*hint: cast the column",
    ):
        job.run(progress=False)


@pytest.mark.parametrize(
    "values",
    [
        ["a", None, "é"],
        [b"a", None],
        [1, None, -(2**63)],
        [1, 2**63],
        [True, None, False],
        [1.5, None],
        [1, 2.5],
        [True, 2.5, None],
        [None, None],
        [[1, 2], [], None],
        [{"a": 1}, None],
        [np.float32(1.5), None],
    ],
    ids=str,
)
def test_types_of_first_rows_are_those_of_pyarrow(tmp_path: Path, values: list) -> None:
    rows = [{"x": value, "n": number} for number, value in enumerate(values)]
    try:
        expected = pa.table({"x": pa.array(values), "n": pa.array(range(len(values)))})
    except (pa.ArrowException, OverflowError):
        with pytest.raises(ValueError), sm.Writer(tmp_path / "rows.parquet") as writer:
            for row in rows:
                writer.write(row)
        return
    with sm.Writer(tmp_path / "rows.parquet") as writer:
        for row in rows:
            writer.write(row)
    found = pq.read_table(tmp_path / "rows.parquet")
    assert found.schema.types == expected.schema.types
    assert found.to_pylist() == expected.to_pylist()


@pytest.mark.parametrize("format", ["parquet", "jsonl", "webdataset", "mds"])
def test_later_rows_may_have_more_distinct_values_than_the_keys_of_the_first_ones_can_index(
    tmp_path: Path, format: str
) -> None:
    few, many = (pa.array([f"{count} {number}" for number in range(count)]) for count in (100, 300))
    first = pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), few)
    with sm.Writer(tmp_path / "out", format=format) as writer:
        for array in (
            first,
            pa.DictionaryArray.from_arrays(pa.array(range(300), pa.int16()), many),
            many,
        ):
            writer.write_batch(pa.table({"txt": array}))
    expected = [*few.to_pylist(), *many.to_pylist(), *many.to_pylist()]
    assert [row["txt"] for row in sm.Dataset(tmp_path / "out")] == expected
