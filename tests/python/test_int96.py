"""Times of 96 bits in Parquet, as Spark, Hive and Impala write them.

Exact values in every output, or an error that names column, row and value.
"""

from __future__ import annotations

import base64
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from shardmill.errors import FormatError

END = datetime(9999, 12, 31)
FAR = [
    END,
    datetime(2020, 1, 1),
    None,
    datetime(1600, 1, 1),
    datetime(1, 1, 1),
    datetime(1970, 1, 1),
]


def write(path: Path, times: Any, *, has_schema: bool = False, **options: Any) -> Path:
    """Columns ``t``, and ``i``, the number of the row."""
    table = pa.table({"t": times, "i": range(len(times))})
    pq.write_table(
        table, path, use_deprecated_int96_timestamps=True, store_schema=has_schema, **options
    )
    return path


@settings(max_examples=25, deadline=None)
@given(
    times=st.lists(st.none() | st.datetimes(datetime(1, 1, 1), END), min_size=1, max_size=30),
    rows=st.integers(1, 9),
)
def test_times_of_any_year_are_those_that_pyarrow_and_duckdb_read(
    tmp_path_factory: pytest.TempPathFactory, times: list[datetime | None], rows: int
) -> None:
    path = write(
        tmp_path_factory.mktemp("int96") / "a.parquet",
        pa.array(times, pa.timestamp("us")),
        row_group_size=rows,
    )
    found = pa.table(sm.Dataset(path))
    assert found.equals(pq.read_table(path, coerce_int96_timestamp_unit="us"))
    assert [row["t"] for row in sm.Dataset(path)] == times
    batch = next(iter(sm.Loader(path, batch_size=100, output=sm.Output("numpy", nulls="mask"))))
    assert [
        time.item() if valid else None
        for time, valid in zip(batch["t"], batch["t__valid"], strict=True)
    ] == times
    for bound in (datetime(1700, 1, 1), datetime(2100, 1, 1)):
        kept = pa.table(sm.Dataset(path, filter=sm.col("t") > bound))["i"].to_pylist()
        assert [(row,) for row in kept] == duckdb.sql(
            f"select i from '{path}' where t > '{bound}' order by i"
        ).fetchall()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_stored_schema_decides_about_unit_and_zone(
    tmp_path: Path, unit: str, zone: str | None
) -> None:
    kind = pa.timestamp(unit, zone)
    values = (
        pa.array([0, -1, 4_102_444_800, None], pa.int64())
        .cast(pa.timestamp("s"))
        .cast(pa.timestamp(unit))
        .cast(kind)
    )
    path = write(tmp_path / "a.parquet", values, has_schema=True)
    found = pa.table(sm.Dataset(path))["t"]
    assert found.type == kind
    assert found.combine_chunks() == values


def test_nested_times_arrive_at_any_depth(tmp_path: Path) -> None:
    times = pa.array(FAR, pa.timestamp("us"))
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 2, 5, 6], pa.int32()), times)
    entries = pa.MapArray.from_arrays(
        pa.array([0, 1, 1, 4, 6], pa.int32()), pa.array(list("abcdef")), times
    )
    structs = pa.StructArray.from_arrays(
        [times.slice(0, 4), pa.array(["x", None, "y", "z"])], names=["at", "s"]
    )
    table = pa.table(
        {
            "l": lists,
            "m": entries,
            "s": structs,
            "d": pa.array(["a", "b", "a", "c"]).dictionary_encode(),
        }
    )
    pq.write_table(
        table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True, store_schema=False
    )
    expected = pq.read_table(tmp_path / "a.parquet", coerce_int96_timestamp_unit="us")
    assert pa.table(sm.Dataset(tmp_path / "a.parquet")).to_pylist() == expected.to_pylist()
    at = pa.table(sm.Dataset(tmp_path / "a.parquet", columns=["s.at", "s.s"]))
    assert at["s.at"].to_pylist() == FAR[:4] and at["s.s"].to_pylist() == ["x", None, "y", "z"]


def far_nanoseconds(tmp_path: Path, rows: int = 3) -> Path:
    """A stored schema says nanoseconds; the last row is out of their range."""
    times = pa.array([datetime(2000, 1, 1)] * (rows - 1) + [END], pa.timestamp("us"))
    schemas = [pa.schema([("t", pa.timestamp(unit)), ("i", pa.int64())]) for unit in ("us", "ns")]
    coarse, fine = (base64.b64encode(schema.serialize().to_pybytes()) for schema in schemas)
    path = write(tmp_path / "far.parquet", times, has_schema=True, row_group_size=2)
    content = path.read_bytes()
    assert content.count(coarse) == 1
    path.write_bytes(content.replace(coarse, fine))
    return path


def test_value_beyond_the_unit_of_the_footer_is_an_error_in_every_output(tmp_path: Path) -> None:
    path = far_nanoseconds(tmp_path)
    message = (
        r"Column `t` of `.*far\.parquet` has a value in row 2 "
        r"that timestamp\[ns\] cannot hold: 9999-12-31T00:00:00"
    )
    reads = {
        "rows": lambda: list(sm.Dataset(path)),
        "take": lambda: sm.Dataset(path).take([2]),
        "filter": lambda: len(sm.Dataset(path, filter=sm.col("t") > datetime(2100, 1, 1))),
        **{
            kind: lambda kind=kind: list(sm.Loader(path, batch_size=2, output=kind))
            for kind in ("arrow", "numpy", "dict")
        },
        "shuffled": lambda: list(sm.Loader(path, batch_size=2, output="numpy", shuffle=True)),
    }
    for read in reads.values():
        with pytest.raises(FormatError, match=message):
            read()
    assert pa.table(sm.Dataset(path, columns=["i"]))["i"].to_pylist() == [0, 1, 2]
    kept = sm.Dataset(path, filter=sm.col("i") < 2)
    assert [row["t"] for row in kept] == [datetime(2000, 1, 1)] * 2


def test_fraction_of_a_microsecond_is_an_error_without_a_stored_schema(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", pa.array([0, 1_000, 1_001], pa.timestamp("ns")))
    with pytest.raises(
        FormatError, match=r"`t` .* row 2 .*timestamp\[us\].*: 1970-01-01T00:00:00\.000001001"
    ):
        list(sm.Dataset(path))


def test_row_of_a_nested_value_is_named(tmp_path: Path) -> None:
    lists = pa.array([[1_000], [], None, [0, 5]], pa.list_(pa.timestamp("ns")))
    pq.write_table(
        pa.table({"t": lists}),
        tmp_path / "a.parquet",
        use_deprecated_int96_timestamps=True,
        store_schema=False,
    )
    with pytest.raises(FormatError, match=r"`t` .* row 3 "):
        list(sm.Dataset(tmp_path / "a.parquet"))


def shardmill(*arguments: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "shardmill", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_convert_writes_the_times_of_the_source_and_verify_agrees(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", pa.array(FAR, pa.timestamp("us")))
    assert shardmill("verify", path).returncode == 0
    assert shardmill("convert", path, tmp_path / "b.parquet").returncode == 0
    expected = duckdb.sql(f"select t from '{path}' order by i").fetchall()
    assert duckdb.sql(f"select t from '{tmp_path / 'b.parquet'}' order by i").fetchall() == expected
    far = far_nanoseconds(tmp_path)
    for command in (("convert", far, tmp_path / "c.parquet"), ("verify", far)):
        done = shardmill(*command)
        assert done.returncode != 0 and "9999-12-31" in done.stdout + done.stderr
    assert not (tmp_path / "c.parquet").exists()


def test_intervals_of_duckdb_keep_their_months(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    query = (
        "select interval (m) month + interval (m) day + interval (m * 5) millisecond as v "
        "from range(0, 30, 7) as t(m)"
    )
    duckdb.sql(f"copy ({query}) to '{path}' (format parquet)")
    found = pa.table(sm.Dataset(path))["v"]
    assert found.type == pa.month_day_nano_interval()
    assert [tuple(value) for value in found.to_pylist()] == [
        (m, m, m * 5_000_000) for m in range(0, 30, 7)
    ]


def test_zone_of_the_source_is_kept_where_files_disagree_about_the_unit(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    at = datetime(2500, 1, 1, tzinfo=UTC)
    write(tmp_path / "d/a.parquet", pa.array([at], pa.timestamp("us", "UTC")), has_schema=True)
    table = pa.table({"t": pa.array([at + timedelta(1)], pa.timestamp("ms", "UTC")), "i": [0]})
    pq.write_table(table, tmp_path / "d/b.parquet")
    assert [row["t"] for row in sm.Dataset(tmp_path / "d")] == [at, at + timedelta(1)]
