"""Filters through the loader against pyarrow's and polars' filter over the whole table.

However the files were written.
"""

import datetime as dt
import math
import operator
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import IS_WHOLE, covering, examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from row_files import flat, new_directory, table_of

ROWS = 60
NAN, INFINITY = float("nan"), float("inf")
BERLIN = dt.timezone(dt.timedelta(hours=2))


def some(values: list[Any], type: pa.DataType | None = None, seed: int = 3) -> pa.Array:
    """Rows of these values, every ninth of them null."""
    rng = random.Random(seed)
    return pa.array([None if row % 9 == 4 else rng.choice(values) for row in range(ROWS)], type)


def table() -> pa.Table:
    floats = [0.0, -0.0, NAN, 1.5, -1.5, INFINITY, -INFINITY, 3.0, 2.0**53, 1e-310]
    hours = [dt.datetime(1969, 12, 31) + dt.timedelta(hours=hour) for hour in range(0, 60, 7)]
    instants = [dt.datetime(2024, 3, 30, 22) + dt.timedelta(hours=hour) for hour in range(12)]
    return pa.table(
        {
            "id": pa.array(range(ROWS)),
            "int8": some([-128, 127, 0, 5], pa.int8()),
            "int64": some([-(2**63), 2**63 - 1, 0, 2**53, 2**53 + 1, -1], pa.int64()),
            "uint8": some([0, 4, 255, 200], pa.uint8()),
            "uint32": some([0, 1, 2**31 - 1, 2**31, 2**32 - 1], pa.uint32()),
            "uint64": some([0, 1, 2**63 - 1, 2**63, 2**64 - 1], pa.uint64()),
            "float16": pa.array(
                np.array([[0.0, -0.0, 1.5, NAN, -2.0][row % 5] for row in range(ROWS)], np.float16)
            ),
            "float32": some(floats, pa.float32()),
            "float64": some(floats, pa.float64()),
            "boolean": some([True, False]),
            "decimal": some(
                [Decimal(text) for text in ("0.00", "-1.50", "99999999.99", "1.25")],
                pa.decimal128(10, 2),
            ),
            "wide_decimal": some([Decimal(0), Decimal(-1), Decimal(10**45)], pa.decimal256(60, 0)),
            "string": some(["", "a", "aé", "z" * 100, "z" * 100 + "y", "\U0001f600", "\uffff"]),
            "binary": some([b"", b"a", b"\xff", b"\xff\xff", b"z" * 100]),
            "category": some(["k0", "k1", "k4"]).dictionary_encode(),
            "date": some([dt.date(1969, 12, 25), dt.date(1970, 1, 1), dt.date(2030, 1, 1)]),
            "timestamp": some(hours, pa.timestamp("us")),
            "nanoseconds": some(hours, pa.timestamp("ns")),
            "instant": some(instants, pa.timestamp("ms", tz="Europe/Berlin")),
            "nothing": pa.nulls(ROWS, pa.int32()),
        }
    )


LITERALS: dict[str, list[Any]] = {
    "int8": [-129, -128, 0, 5, 127, 128, 1.5],
    "int64": [-(2**63), 2**63 - 1, 2**53, 2**53 + 1, -1, 2**64],
    "uint8": [-1, 0, 4, 255, 256],
    "uint32": [-1, 0, 2**31, 2**32 - 1, 2**32],
    "uint64": [-1, 0, 2**63, 2**64 - 1],
    "float16": [0.0, -0.0, 1.5, -2.0, NAN],
    "float32": [0.0, -0.0, 1.5, INFINITY, -INFINITY, NAN, 3],
    "float64": [0.0, -0.0, 1e-310, INFINITY, -INFINITY, NAN, 2**53, 2**53 + 1],
    "boolean": [True, False],
    "decimal": [Decimal("1.25"), Decimal("-1.50"), 0, Decimal("99999999.99")],
    "wide_decimal": [0, -1, 10**45],
    "string": ["", "a", "aé", "z" * 100, "zz", "\U0001f600", "\uffff"],
    "binary": [b"", b"a", b"\xff", b"z" * 100],
    "category": ["k0", "k4", "x", ""],
    "date": [dt.date(1970, 1, 1), dt.date(1969, 12, 25), dt.date(2100, 1, 1)],
    "timestamp": [
        dt.datetime(1970, 1, 1),
        dt.datetime(1969, 12, 31, 7),
        dt.datetime(1969, 12, 31, 7, 0, 0, 1),
    ],
    "nanoseconds": [dt.datetime(1970, 1, 1), dt.datetime(1969, 12, 31, 7)],
    "instant": [
        dt.datetime(2024, 3, 31, 1, tzinfo=dt.UTC),
        dt.datetime(2024, 3, 31, 3, tzinfo=BERLIN),
    ],
    "nothing": [0],
}

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

WRITTEN: dict[str, dict[str, Any]] = {
    "row groups of four": {"row_group_size": 4},
    "row groups of one": {"row_group_size": 1},
    "no statistics": {"row_group_size": 4, "write_statistics": False},
    "page index": {
        "row_group_size": 10,
        "write_page_index": True,
        "data_page_size": 1,
        "write_batch_size": 2,
    },
    "version 1": {"row_group_size": 5, "version": "1.0"},
    "INT96": {"row_group_size": 5, "use_deprecated_int96_timestamps": True},
    "bloom filters": {
        "row_group_size": 4,
        "write_statistics": False,
        "bloom_filter_options": {
            name: {"ndv": 100, "fpp": 0.01}
            for name in table().column_names
            if name not in ("boolean", "nothing")
        },
    },
}


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The table in three files, written in each way."""
    below, whole = tmp_path_factory.mktemp("filters"), table()
    found = {}
    for name, options in WRITTEN.items():
        found[name] = new_directory(below)
        for part in range(3):
            pq.write_table(whole.slice(part * 20, 20), found[name] / f"{part}.parquet", **options)
    return found


def kept_by(path: Path, condition: sm.Expression, **options: Any) -> list[int]:
    return flat(
        sm.Loader(
            path,
            filter=condition,
            columns=["id"],
            output="numpy",
            runtime=sm.Runtime(threads=1),
            **options,
        )
    )


SCHEMA = table().schema
VALUES = {name: table().column(name).to_pylist() for name in table().column_names}


def expected(name: str, op: str, literal: Any) -> tuple[list[int], list[int]]:
    """Rows for which the comparison is true, and for which it is false.

    By Python's own comparison of exact values.
    """
    outcomes = []
    for value in VALUES[name]:
        if value is None:
            outcomes.append(None)
            continue
        if (
            isinstance(literal, dt.datetime)
            and literal.tzinfo is None
            and isinstance(value, dt.datetime)
        ):
            value = value.replace(tzinfo=None)
        outcomes.append(OPERATORS[op](float(value) if name == "float16" else value, literal))
    return [row for row in range(ROWS) if outcomes[row]], [
        row for row in range(ROWS) if outcomes[row] is False
    ]


@covering(1, name=list(LITERALS), written=list(WRITTEN))
def test_comparison_keeps_the_rows_for_which_python_finds_it_true(
    directories: dict[str, Path], name: str, written: str
) -> None:
    for literal in LITERALS[name]:
        for op, compare in OPERATORS.items():
            condition = compare(sm.col(name), literal)
            is_true, is_false = expected(name, op, literal)
            assert kept_by(directories[written], condition) == is_true, f"{name} {op} {literal!r}"
            assert kept_by(directories[written], ~condition) == is_false, (
                f"not {name} {op} {literal!r}"
            )


@pytest.mark.parametrize("written", WRITTEN)
def test_membership_and_missing_values_are_found_with_and_without_bloom_filters(
    directories: dict[str, Path], written: str
) -> None:
    for name in (
        list(LITERALS) if IS_WHOLE else list(LITERALS)[list(WRITTEN).index(written) % 3 :: 3]
    ):
        literals = LITERALS[name]
        members = [
            literal
            for literal in literals
            if not (isinstance(literal, float) and math.isnan(literal))
        ][:3]
        hits = {row for literal in members for row in expected(name, "==", literal)[0]}
        every, there = (
            set(range(ROWS)),
            {row for row in range(ROWS) if VALUES[name][row] is not None},
        )
        # As in Arrow, a missing value is in no list, and so in the complement of each.
        assert kept_by(directories[written], sm.col(name).is_in(members)) == sorted(hits), name
        assert kept_by(directories[written], ~sm.col(name).is_in(members)) == sorted(
            every - hits
        ), name
        assert kept_by(directories[written], sm.col(name).is_null()) == sorted(every - there), name
        assert kept_by(directories[written], ~sm.col(name).is_null()) == sorted(there), name


Pair = tuple[sm.Expression, Any]


def trees() -> st.SearchStrategy[Pair]:
    """The same condition for the loader and for pyarrow."""
    exact = ["int8", "int64", "float64", "string", "date", "uint8", "boolean"]

    def leaf(name: str, op: str, place: int) -> Pair:
        # Literals that the column could hold: pyarrow compares others in a common type that rounds.
        literals = [value for value in LITERALS[name] if value in VALUES[name]]
        literal = literals[place % len(literals)]
        typed = pa.scalar(literal, SCHEMA.field(name).type)
        return OPERATORS[op](sm.col(name), literal), OPERATORS[op](pc.field(name), typed)

    leaves = st.one_of(
        st.builds(
            leaf, st.sampled_from(exact), st.sampled_from(list(OPERATORS)), st.integers(0, 6)
        ),
        st.sampled_from(exact).map(lambda name: (sm.col(name).is_null(), pc.field(name).is_null())),
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(lambda two: (two[0][0] & two[1][0], two[0][1] & two[1][1])),
            st.tuples(inner, inner).map(lambda two: (two[0][0] | two[1][0], two[0][1] | two[1][1])),
            inner.map(lambda one: (~one[0], ~one[1])),
        ),
        max_leaves=6,
    )


@settings(
    max_examples=examples(120),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(pair=trees(), written=st.sampled_from(list(WRITTEN)))
def test_random_conditions_on_several_columns_keep_what_pyarrow_keeps(
    directories: dict[str, Path], pair: Pair, written: str
) -> None:
    ours, theirs = pair
    assert kept_by(directories[written], ours) == table().filter(theirs).column("id").to_pylist()


def test_kept_rows_have_the_values_that_pyarrow_keeps(directories: dict[str, Path]) -> None:
    condition = (sm.col("int8") > 0) | sm.col("string").is_null()
    found = table_of(
        sm.Loader(directories["row groups of four"], filter=condition, output="arrow", batch_size=7)
    )
    wanted = table().filter((pc.field("int8") > 0) | pc.field("string").is_null())
    for name in wanted.column_names:
        assert str(found.column(name).to_pylist()) == str(wanted.column(name).to_pylist()), name


def test_polars_keeps_the_same_rows(directories: dict[str, Path]) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.read_parquet(
        directories["row groups of four"] / "*.parquet",
        columns=["id", "int8", "string", "uint64", "date"],
    )
    column = polars.col
    pairs: list[tuple[sm.Expression, Any]] = [
        (
            (sm.col("int8") > 0) & ~(sm.col("string") == "a"),
            (column("int8") > 0) & ~(column("string") == "a"),
        ),
        (sm.col("uint64") >= 2**63, column("uint64") >= 2**63),
        (sm.col("string") > "z", column("string") > "z"),
        (sm.col("date") <= dt.date(1970, 1, 1), column("date") <= dt.date(1970, 1, 1)),
        (sm.col("string").is_in(["", "a"]), column("string").is_in(["", "a"])),
    ]
    for ours, theirs in pairs:
        for written in ("row groups of four", "bloom filters", "page index"):
            assert kept_by(directories[written], ours) == frame.filter(theirs)["id"].to_list()


def test_rows_that_polars_wrote_are_filtered_like_its_own(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(
        {
            "id": range(1000),
            "value": [row * 7 % 13 for row in range(1000)],
            "name": [f"n{row % 31}" for row in range(1000)],
        }
    )
    frame.write_parquet(tmp_path / "polars.parquet", row_group_size=64, statistics="full")
    for ours, theirs in [
        (sm.col("value") > 6, polars.col("value") > 6),
        (sm.col("name") == "n7", polars.col("name") == "n7"),
        (
            (sm.col("id") >= 500) & (sm.col("name") < "n2"),
            (polars.col("id") >= 500) & (polars.col("name") < "n2"),
        ),
    ]:
        assert kept_by(tmp_path, ours) == frame.filter(theirs)["id"].to_list()


def test_sorted_data_is_read_where_the_rows_are(tmp_path: Path) -> None:
    """A tenth of the rows for at most 15 % of the bytes."""
    rows = 20_000
    data = pa.table(
        {
            "id": range(rows),
            "label": np.arange(rows) // 2000,
            **{f"f{i}": np.random.default_rng(i).random(rows) for i in range(6)},
        }
    )
    pq.write_table(data, tmp_path / "sorted.parquet", row_group_size=500)
    read = []
    for condition in (None, sm.col("label") == 3):
        loader = sm.Loader(
            tmp_path, filter=condition, output="numpy", runtime=sm.Runtime(threads=1)
        )
        assert len(flat(loader)) == (rows if condition is None else rows // 10)
        read.append(loader.metrics().bytes_read)
    assert read[1] <= 0.15 * read[0]


def test_filter_that_keeps_nothing_is_an_empty_loader(directories: dict[str, Path]) -> None:
    loader = sm.Loader(directories["no statistics"], filter=sm.col("id") > 1000, output="numpy")
    assert (len(loader), list(loader), loader.epoch) == (0, [], 1)


def test_filter_uses_columns_that_are_not_delivered(directories: dict[str, Path]) -> None:
    loader = sm.Loader(
        directories["page index"],
        filter=sm.col("int8") == 5,
        columns=["string", "id"],
        output="dict",
    )
    assert all(list(batch) == ["string", "id"] for batch in loader)


def test_list_of_conditions_is_their_conjunction_and_a_list_of_lists_their_disjunction(
    directories: dict[str, Path],
) -> None:
    path = directories["row groups of four"]
    both = sm.Loader(path, filter=[("id", ">=", 10), ("id", "<", 20)], output="arrow")
    either = sm.Loader(path, filter=[[("id", "<", 3)], [("id", "in", [50, 51])]], output="arrow")
    assert (flat(both), flat(either)) == (list(range(10, 20)), [0, 1, 2, 50, 51])


def test_data_set_with_a_filter_counts_and_finds_its_rows(directories: dict[str, Path]) -> None:
    data = sm.Dataset(directories["row groups of four"], filter=sm.col("id") >= 40, columns=["id"])
    assert (len(data), data[0], data[-1]) == (20, {"id": 40}, {"id": 59})
    assert data.take([19, 0, 0, 5]).column("id").to_pylist() == [59, 40, 40, 45]
    assert [row["id"] for row in data] == list(range(40, 60))
    with pytest.raises(IndexError):
        data[20]


COMPUTED = [
    "id + int8 > 100",
    "id - int8 * 2 <= -200 or id = 7",
    "-id between -20 and -15",
    "id * -3 % 4 = -1 and uint8 / 4 > 1",
    "(id - 10) / 4 in (0.25, 3, 12)",
    "uint8 / (id - 20) < 0 or int8 % (id % 5) = 0",
    "not uint8 / int8 is null",
    "int8 = uint8 or id < int8",
    "decimal * 2 = 2.5 or decimal + id > 50",
    "starts_with(string, 'z') or starts_with(category, 'k1')",
    "not starts_with(string, 'a') and ends_with(string, 'y')",
    "contains(lower(category), '4') and length(string) >= 2",
    "lower(string) = 'aé' or length(\"binary\") = 100",
    "string < category and string <> ''",
    "date > '1969-12-31' and date <= '2030-01-01' and timestamp < '1970-01-01T12:00:00'",
    "nothing + 1 > 0 or nothing = id",
]


@pytest.mark.parametrize("text", COMPUTED)
def test_computed_condition_keeps_what_duckdb_keeps_however_the_files_were_written(
    directories: dict[str, Path], text: str
) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        connection.execute("SET error_on_division_by_zero = false")
        connection.execute("SET ieee_floating_point_ops = false")
        connection.register("stored", table().drop_columns(["float16", "wide_decimal"]))
        # DuckDB computes in the narrowest type, and overflows.
        wide = ", ".join(f"{name}::BIGINT AS {name}" for name in ("int8", "uint8", "uint32"))
        connection.execute(
            "CREATE VIEW rows AS "
            f"SELECT * REPLACE ({wide}, category::VARCHAR AS category) FROM stored"
        )
        binary = text.replace('length("binary")', 'octet_length("binary")')
        wanted = [
            row
            for (row,) in connection.execute(
                f"SELECT id FROM rows WHERE {binary} ORDER BY id"
            ).fetchall()
        ]
    for written, path in directories.items():
        assert flat(sm.Loader(path, filter=text, columns=["id"], output="numpy")) == wanted, written


def test_prefix_in_a_sorted_column_reads_few_of_a_thousand_row_groups(tmp_path: Path) -> None:
    groups, rows = 1000, 20
    rng = np.random.default_rng(0)
    names = [
        f"{group:04}/{row:02}/" + rng.bytes(60).hex()
        for group in range(groups)
        for row in range(rows)
    ]
    pq.write_table(
        pa.table({"id": range(groups * rows), "name": names}),
        tmp_path / "a.parquet",
        row_group_size=rows,
    )

    def read(prefix: str, kept: int) -> int:
        loader = sm.Loader(
            tmp_path, filter=sm.col("name").starts_with(prefix), columns=["id"], output="numpy"
        )
        assert len(loader.dataset) == kept
        return loader.metrics().bytes_read

    footer, every = read("x", 0), read("", groups * rows)
    assert read("012", 10 * rows) - footer <= 0.05 * (every - footer)


def test_integer_out_of_range_is_an_error_and_a_float_is_not(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2], "big": [2**63 - 1, 3]}), tmp_path / "a.parquet")
    for text in ("big + 1 > 0", "big * big > 0", "-2 - big < 0"):
        with pytest.raises(
            ValueError, match=r"An integer in `.*big.*` is out of range[\s\S]*hint: multiply"
        ):
            len(sm.Loader(tmp_path, filter=text, columns=["id"], output="numpy"))
    assert kept_by(tmp_path, sm.col("big") * 1.0 + 1 > 0) == [1, 2]


@pytest.mark.parametrize(
    "condition", [sm.col("string") > 5, sm.col("int8") + 1 == "a", sm.col("strings") == "a"]
)
def test_wrong_types_and_names_are_refused_before_rows_are_read(
    directories: dict[str, Path], condition: sm.Expression
) -> None:
    with pytest.raises((TypeError, KeyError), match=r"int64|string|did you mean `string`"):
        sm.Loader(
            directories["row groups of four"], filter=condition, columns=["id"], output="numpy"
        )
