"""Filters keep the rows that ``pyarrow.Table.filter`` keeps."""

import datetime
import decimal
import math
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from shardmill._native import plan
from shardmill.errors import LiteralTypeError, MissingColumnError, UnsupportedExpressionError
from shardmill.expressions import Expression, expression_of

UTC = datetime.UTC
Decimal = decimal.Decimal
NAN = math.nan
INFINITY = math.inf


def truth(expression: Any, table: pa.Table | pa.RecordBatch) -> list[bool | None]:
    """Of our own evaluation, for each row."""
    batch = table.combine_chunks().to_batches()[0] if isinstance(table, pa.Table) else table
    return pa.array(plan.evaluate(expression_of(expression).tree, batch)).to_pylist()


def kept_rows(expression: Any, table: pa.Table) -> list[int]:
    return [row for row, is_true in enumerate(truth(expression, table)) if is_true]


def oracle(expression: pc.Expression, table: pa.Table) -> list[int]:
    numbered = table.append_column("__row", pa.array(range(table.num_rows)))
    return numbered.filter(expression).column("__row").to_pylist()


def column(values: Any, data_type: pa.DataType) -> pa.Table:
    return pa.table({"x": pa.array(values, data_type)})


the_column = pc.field("x")
NS = 1_000_000_000
MOMENTS = [
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999),
    datetime.datetime(2024, 2, 29),
    None,
]
STAMPS = [-1, 0, 1, NS, None]

# Columns, and literals to compare them with as pyarrow does.
CASES: list[tuple[str, pa.Table, list[Any]]] = [
    ("int8", column([-128, -1, 0, 127, None], pa.int8()),
     [-128, 0, 127, 128, -129, 0.5, -0.5, Decimal("0.5"), True]),
    ("uint8", column([0, 1, 255, None], pa.uint8()), [0, 255, 256, 254.5]),
    ("int32", column([-(2**31), 0, 2**31 - 1, None], pa.int32()), [0, 2**31, -(2**31), Decimal(0)]),
    ("int64", column([-(2**63), 2**53, 2**53 + 1, 2**63 - 1, None], pa.int64()),
     [2**53, 2**53 + 1, 2**63 - 1]),
    ("uint64", column([0, 1, 2**62, None], pa.uint64()), [0, 1, 2**62]),
    ("float64", column([-INFINITY, -1.5, -0.0, 0.0, 0.1, 1.5, INFINITY, NAN, None], pa.float64()),
     [0.0, -0.0, 0.1, 1, INFINITY, -INFINITY, NAN, Decimal("0.1"), Decimal("1.5")]),
    ("float32", column([-INFINITY, -0.0, 0.0, 0.1, 1.5, NAN, None], pa.float32()),
     [0.0, 0.1, 1, 1.5, 1e300, INFINITY, NAN, Decimal("0.1")]),
    ("decimal",
     column([Decimal("-1.10"), Decimal("0.00"), Decimal("1.10"), None], pa.decimal128(10, 2)),
     [Decimal("1.1"), Decimal("1.105"), Decimal("-1.10000"), 0, 1, Decimal("1e9")]),
    ("decimal256", column([Decimal("-1.10"), Decimal("1.10"), None], pa.decimal256(50, 2)),
     [Decimal("1.1"), 0]),
    ("bool", column([True, False, None], pa.bool_()), [True, False]),
    ("string", column(["", "a", "ä", "a\0", "b", None], pa.string()), ["", "a", "ä", "z"]),
    ("large_string", column(["", "a", "b", None], pa.large_string()), ["a"]),
    ("binary", column([b"", b"\xff", b"a", None], pa.binary()), [b"a", b"\xff"]),
    ("large_binary", column([b"", b"\xff", b"a", None], pa.large_binary()), [b"a"]),
    ("fixed_binary", column([b"aa", b"\xff\xff", None], pa.binary(2)), [b"aa"]),
    ("dictionary", pa.table({"x": pa.array(["a", "b", None, "a"]).dictionary_encode()}),
     ["a", "c"]),
    ("date32", column([datetime.date(1969, 12, 31), datetime.date(2024, 2, 29), None], pa.date32()),
     [datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29),
      datetime.datetime(2024, 2, 29, 0, 0, 0, 1)]),
    ("date64", column([datetime.date(1969, 12, 31), datetime.date(2024, 2, 29), None], pa.date64()),
     [datetime.date(2024, 2, 29)]),
    ("timestamp_s", column([0, 1_709_164_800, None], pa.timestamp("s")),
     [datetime.datetime(2024, 2, 29), datetime.datetime(2024, 2, 29, 0, 0, 0, 1),
      datetime.date(2024, 2, 29)]),
    ("timestamp_us", column(MOMENTS, pa.timestamp("us")),
     [*MOMENTS[:2], datetime.date(2024, 2, 29)]),
    ("timestamp_ns", column(STAMPS, pa.timestamp("ns")), [datetime.datetime(1970, 1, 1, 0, 0, 1)]),
    ("timestamp_zone", column([0, 1_709_164_800_000, None], pa.timestamp("ms", "UTC")),
     [datetime.datetime(2024, 2, 29, tzinfo=UTC),
      datetime.datetime(2024, 2, 29, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))]),
    ("time32", column([0, 3_723, None], pa.time32("s")),
     [datetime.time(1, 2, 3), datetime.time(1, 2, 3, 5)]),
    ("time64", column([0, 3_723_000_005_000, None], pa.time64("ns")), [datetime.time(1, 2, 3, 5)]),
    ("duration", column([-1, 3, None], pa.duration("s")),
     [datetime.timedelta(seconds=3), datetime.timedelta(seconds=3, microseconds=-1)]),
    ("null", pa.table({"x": pa.nulls(3)}), []),
]  # fmt: skip
OPERATORS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


def oracle_or_none(build: Callable[[], pc.Expression], table: pa.Table) -> list[int] | None:
    """``None`` where pyarrow itself gives up on the types."""
    try:
        return oracle(build(), table)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return None


@pytest.mark.parametrize(("name", "table", "literals"), CASES, ids=[case[0] for case in CASES])
def test_comparisons_keep_what_pyarrow_keeps(
    name: str, table: pa.Table, literals: list[Any]
) -> None:
    compared = 0
    for literal in literals:
        for compare in OPERATORS:
            for is_negated in (False, True):
                theirs = compare(the_column, literal)
                expected = oracle_or_none(
                    lambda theirs=theirs, is_negated=is_negated: ~theirs if is_negated else theirs,
                    table,
                )
                if expected is None:
                    continue
                compared += 1
                ours = compare(sm.col("x"), literal)
                assert kept_rows(~ours if is_negated else ours, table) == expected, (name, ours)
                assert kept_rows(~theirs if is_negated else theirs, table) == expected, (
                    name,
                    theirs,
                )
    assert compared >= 2 * len(literals)


@pytest.mark.parametrize(("name", "table", "literals"), CASES, ids=[case[0] for case in CASES])
def test_memberships_and_null_tests_keep_what_pyarrow_keeps(
    name: str, table: pa.Table, literals: list[Any]
) -> None:
    own = [value for value in table.column("x").to_pylist() if value is not None]
    values = (
        pa.array(own[1:], table.schema.field("x").type)
        if name != "dictionary"
        else pa.array(own[1:])
    )
    with_null = pa.concat_arrays([values, pa.nulls(1, values.type)])
    tests = [
        the_column.is_null(),
        the_column.is_valid(),
        the_column.isin([]),
        the_column.isin(values),
        the_column.isin(with_null),
    ]
    tests += [the_column.is_null(nan_is_null=True)] if name != "dictionary" else []
    tests += [pc.is_nan(the_column)] if "float" in name else []
    for test in tests:
        for expression in (test, ~test):
            expected = oracle_or_none(lambda expression=expression: expression, table)
            if expected is not None:
                assert kept_rows(expression, table) == expected, expression
    ours = [
        sm.col("x").is_null(),
        sm.col("x").is_valid(),
        sm.col("x").is_in([]),
        sm.col("x").is_in(values),
    ]
    assert [kept_rows(expression, table) for expression in ours[:3]] == [
        oracle(test, table)
        for test in (
            the_column.is_null(),
            the_column.is_valid(),
            the_column.isin(pa.array([], values.type)),
        )
    ]


# --- where pyarrow gives up or rounds


def test_integer_beside_a_float_is_not_rounded() -> None:
    table = column([2**53, 2**53 + 1, 2**53 + 2], pa.int64())
    assert kept_rows(sm.col("x") == float(2**53), table) == [0]
    assert kept_rows(sm.col("x") > float(2**53), table) == [1, 2]
    assert kept_rows(sm.col("x") < 1e300, table) == [0, 1, 2]
    floats = column([float(2**53), float(2**53 + 2)], pa.float64())
    assert kept_rows(sm.col("x") > 2**53 + 1, floats) == [1]
    assert kept_rows(sm.col("x") == 2**53 + 1, floats) == []


def test_integers_beyond_every_type_compare_by_value() -> None:
    table = column([0, 2**64 - 1], pa.uint64())
    assert kept_rows(sm.col("x") > -1, table) == [0, 1]
    assert kept_rows(sm.col("x") == 2**64 - 1, table) == [1]
    assert kept_rows(sm.col("x") < 10**40, table) == [0, 1]
    assert kept_rows(sm.col("x").is_in([2**64 - 1, -1, 10**40]), table) == [1]


@pytest.mark.parametrize(
    "data_type", [pa.string_view(), pa.binary_view(), pa.large_string(), pa.binary(1)]
)
def test_layouts_of_text_and_bytes_are_alike(data_type: pa.DataType) -> None:
    table = column(
        [b"a", b"b", None] if "binary" in str(data_type) else ["a", "b", None], data_type
    )
    assert kept_rows(sm.col("x") >= b"b", table) == [1]
    assert kept_rows(sm.col("x").is_in([b"a", b"c"]), table) == [0]
    assert kept_rows(sm.col("x").starts_with("b"), table) == [1]
    assert kept_rows(~sm.col("x").is_in([b"a"]), table) == [1, 2]


def test_instants_are_alike_in_every_zone() -> None:
    berlin = column([0, 1_709_164_800_000, None], pa.timestamp("ms", "Europe/Berlin"))
    assert kept_rows(sm.col("x") >= datetime.datetime(2024, 2, 29, tzinfo=UTC), berlin) == [1]
    assert kept_rows(sm.col("x") == "2024-02-29T01:00:00+01:00", berlin) == [1]
    assert kept_rows(sm.col("x") == "2024-02-29", berlin) == [1]


def test_columns_are_compared_by_value() -> None:
    table = pa.table(
        {
            "i": pa.array([2**53 + 1, 1, None, 3], pa.int64()),
            "f": pa.array([float(2**53), 1.0, 1.0, NAN]),
            "u": pa.array([2**64 - 1, 1, 1, 0], pa.uint64()),
            "s": pa.array(["a", "b", "c", None]),
            "v": pa.array(["a", "a", "d", "e"], pa.string_view()),
        }
    )
    col = sm.col
    assert truth(col("i") > col("f"), table) == [True, False, None, False]
    assert truth(col("i") == col("f"), table) == [False, True, None, False]
    assert truth(col("i") < col("u"), table) == [True, False, None, False]
    assert truth(col("s") < col("v"), table) == [False, False, True, None]
    assert kept_rows(pc.field("i") >= pc.field("i"), table) == [0, 1, 3]
    with pytest.raises(LiteralTypeError, match="`i`"):
        truth(col("i") < col("s"), table)


def test_large_lists_are_found() -> None:
    table = column([*range(20_000), None], pa.int32())
    values = list(range(0, 20_000, 2))
    assert kept_rows(sm.col("x").is_in(values), table) == values
    assert kept_rows(the_column.isin(values), table) == values


# --- random trees

ROWS = st.lists(
    st.tuples(
        st.sampled_from([-(2**20), -1, 0, 1, 2, 3, None]),
        st.sampled_from([-INFINITY, -1.0, -0.0, 0.0, 0.5, 1.0, INFINITY, NAN, None]),
        st.sampled_from(["", "a", "aa", "ä", "b", None]),
        st.sampled_from([True, False, None]),
    ),
    min_size=1,
    max_size=12,
)
INTEGERS = st.sampled_from([-1, 0, 1, 2, 4])
FLOATS = st.sampled_from([-1.0, -0.0, 0.0, 0.5, INFINITY, NAN])
TEXTS = st.sampled_from(["", "a", "ä", "c"])
COMPARISON = st.sampled_from(OPERATORS)
LEAVES = st.one_of(
    st.builds(
        lambda op, value: op(pc.field("i"), value),
        COMPARISON,
        INTEGERS | st.sampled_from([0.5, -0.5]),
    ),
    st.builds(lambda op, value: op(pc.field("f"), value), COMPARISON, FLOATS | INTEGERS),
    st.builds(lambda op, value: op(pc.field("s"), value), COMPARISON, TEXTS),
    st.builds(lambda op, value: op(pc.field("b"), value), COMPARISON, st.booleans()),
    st.builds(
        lambda values: pc.field("i").isin(pa.array(values, pa.int32())),
        st.lists(INTEGERS | st.none(), max_size=3),
    ),
    st.builds(
        lambda values: pc.field("f").isin(pa.array(values, pa.float64())),
        st.lists(FLOATS | st.none(), max_size=3),
    ),
    st.builds(
        lambda values: pc.field("s").isin(pa.array(values, pa.string())),
        st.lists(TEXTS | st.none(), max_size=3),
    ),
    st.builds(
        lambda name, nan: pc.field(name).is_null(nan_is_null=nan),
        st.sampled_from("ifsb"),
        st.booleans(),
    ),
    st.just(pc.field("b")),
    st.just(pc.field("i") == pa.scalar(None, pa.int32())),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(operator.and_, inner, inner),
        st.builds(operator.or_, inner, inner),
        st.builds(operator.invert, inner),
    ),
    max_leaves=8,
)


@settings(max_examples=examples(400), deadline=None)
@given(rows=ROWS, tree=TREES)
def test_random_trees_keep_what_pyarrow_keeps(
    rows: list[tuple[Any, ...]], tree: pc.Expression
) -> None:
    types = {"i": pa.int32(), "f": pa.float64(), "s": pa.string(), "b": pa.bool_()}
    columns = zip(types.items(), zip(*rows, strict=True), strict=True)
    table = pa.table({name: pa.array(values, data_type) for (name, data_type), values in columns})
    assert kept_rows(tree, table) == oracle(tree, table)


# --- literals


@pytest.mark.parametrize(
    ("literal", "form"),
    [
        (numpy.int8(-1), -1),
        (numpy.uint64(2**64 - 1), 2**64 - 1),
        (numpy.float32(0.1), float(numpy.float32(0.1))),
        (numpy.bool_(True), True),
        (numpy.str_("a"), "a"),
        (numpy.bytes_(b"a"), {"binary": "61"}),
        (numpy.datetime64(1, "ns"), {"timestamp": {"value": 1, "unit": "ns"}}),
        (numpy.datetime64("1970-01-02"), {"timestamp": {"value": 86_400, "unit": "s"}}),
        (numpy.timedelta64(3, "m"), {"duration": {"value": 180, "unit": "s"}}),
        (Decimal("-1.10"), {"decimal": {"unscaled": "-110", "scale": 2}}),
        (Decimal("1E+3"), {"decimal": {"unscaled": "1", "scale": -3}}),
        (NAN, {"float": "nan"}),
        (-INFINITY, {"float": "-inf"}),
        (datetime.date(1970, 1, 2), {"date": 1}),
        (datetime.time(0, 0, 1, 2), {"time": {"value": 1_000_002, "unit": "us"}}),
        (datetime.timedelta(days=-1), {"duration": {"value": -86_400_000_000, "unit": "us"}}),
        (
            pa.scalar(5, pa.timestamp("ns", "UTC")),
            {"timestamp": {"value": 5, "unit": "ns", "zone": "UTC"}},
        ),
    ],
)
def test_literals_are_exact(literal: Any, form: Any) -> None:
    assert (sm.col("x") == literal).tree["compare"]["value"] == form


@pytest.mark.parametrize(
    "literal", [None, object(), [1], Decimal("NaN"), numpy.datetime64("NaT"), 1j]
)
def test_what_no_column_holds_is_refused_at_once(literal: Any) -> None:
    with pytest.raises(TypeError, match="a column is"):
        sm.col("x") == literal  # noqa: B015  # pyright: ignore[reportUnusedExpression]
    with pytest.raises(TypeError):
        sm.col("x").is_in([1, literal])


@pytest.mark.parametrize(
    "filtered",
    [
        lambda: sm.col("\ud800"),
        lambda: sm.col("x") == "a\ud800",
        lambda: sm.col("x").is_in(["a", "\ud800"]),
        lambda: sm.col("x").contains("\udfff"),
        lambda: expression_of([("\ud800", "==", 1)]),
        lambda: expression_of("x = '\ud800'"),
        lambda: expression_of('"\ud800" = 1'),
    ],
)
def test_surrogate_in_a_name_or_a_literal_is_refused_at_once(filtered: Any) -> None:
    with pytest.raises(
        sm.OptionError, match=r"(column name|string) '.*\\ud[8f].*' .*is not valid Unicode"
    ):
        filtered()


def test_check_names_the_column_and_the_literal_before_rows_are_read() -> None:
    schema = pa.schema({"x": pa.int32(), "t": pa.timestamp("us", "UTC"), "l": pa.list_(pa.int32())})

    def check(expression: Expression) -> None:
        plan.check(expression.tree, schema)

    check((sm.col("x") < 5) & sm.col("l").is_null())
    with pytest.raises(MissingColumnError, match="`y`"):
        check(sm.col("y") < 5)
    for wrong in (
        sm.col("x") == "5",
        sm.col("x").is_in([1, "5"]),
        sm.col("l") == 1,
        sm.col("t") < datetime.datetime(2024, 1, 1),
    ):
        with pytest.raises(LiteralTypeError, match="cannot be compared"):
            check(wrong)


# --- filters of other kinds


def test_filter_lists_and_expressions_mean_the_same() -> None:
    table = column([1, 2, 3, None], pa.int32())
    assert kept_rows([("x", ">=", 2), ("x", "not in", [3])], table) == [1]
    assert kept_rows([[("x", "==", 1)], [("x", "in", [3])]], table) == [0, 2]


@pytest.mark.parametrize("value", [b"x > 5", 5, None, lambda row: True, ("x", "==", 1)])
def test_what_is_no_filter_is_a_type_error(value: Any) -> None:
    with pytest.raises(TypeError, match="a filter must be an expression"):
        expression_of(value)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        (pc.field("x").cast(pa.int64()) == 1, "cast"),
        (pc.add(pc.field("x"), pc.field("x")) == 2, "add"),
        (pc.field(0) == 1, "columns by name"),
        (pc.scalar(5), "5"),
    ],
)
def test_what_has_no_counterpart_is_named(expression: pc.Expression, problem: str) -> None:
    with pytest.raises(UnsupportedExpressionError, match=problem) as error:
        expression_of(expression)
    assert isinstance(error.value, NotImplementedError | ValueError)


def test_fields_of_structs_are_those_that_pyarrow_refers_to(tmp_path: Path) -> None:
    values = [{"x": 1, "y": {"z": "a"}}, {"x": 5, "y": None}, None, {"x": 9, "y": {"z": "b"}}]
    table = pa.table({"s": pa.array(values), "n": list(range(4))})
    pq.write_table(table, tmp_path / "s.parquet")
    x, z = pc.field("s", "x"), pc.field("s", "y", "z")
    for expression in (
        x > 4,
        x.isin([1, 9]),
        (z == "b") | (pc.field("n") == 2),
        z.is_null(),
        x > pc.field("n"),
    ):
        found = [row["n"] for row in sm.Dataset(tmp_path / "s.parquet", filter=expression)]
        assert found == oracle(expression, table), expression


def test_names_and_texts_are_taken_from_the_tree_and_not_from_its_text() -> None:
    name, text = "a == 'b') | (", 'it\'s "quoted" \\ and, (long) \0'
    table = pa.table({name: [text, "other", None]})
    assert kept_rows(pc.field(name) == text, table) == [0]
    assert kept_rows(pc.scalar(text) == pc.field(name), table) == [0]
    assert kept_rows(pc.field(name) == pa.scalar(text).cast(pa.large_string()), table) == [0]
    assert kept_rows(
        (pc.field(name) == pc.scalar(text).cast(pa.large_string())) | pc.scalar(False), table
    ) == [0]


def test_long_chains_stay_flat() -> None:
    table = column(list(range(1000)), pa.int32())
    ours, theirs = sm.col("x") == 0, the_column == 0
    for value in range(1, 500):
        ours, theirs = ours | (sm.col("x") == value), theirs | (the_column == value)
    assert kept_rows(ours, table) == list(range(500))
    assert kept_rows(theirs, table) == list(range(500))


# --- computed values


@pytest.mark.parametrize(
    "data_type",
    [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())],
)
def test_lower_case_and_length_are_those_of_python_in_every_layout(data_type: pa.DataType) -> None:
    texts = ["", "ABC", "Straße", "ÉÀ", "İ", "ΑΣ", "😀", None]
    table = pa.table({"x": pa.array(texts).cast(data_type)})
    for row, text in enumerate(texts[:-1]):
        assert row in kept_rows(sm.col("x").lower() == text.lower(), table)
        assert row in kept_rows(sm.col("x").length() == len(text), table)
        assert row in kept_rows(sm.col("x").lower().ends_with(text.lower()[-1:]), table)
    assert (
        kept_rows(sm.col("x").length().is_null(), table)
        == kept_rows(sm.col("x").lower().is_null(), table)
        == [7]
    )


@pytest.mark.parametrize(
    "data_type",
    [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2), pa.list_(pa.int8()),
     pa.large_list(pa.int8()), pa.list_(pa.int8(), 2), pa.list_view(pa.int8()),
     pa.large_list_view(pa.int8())],
    ids=str,
)  # fmt: skip
def test_length_counts_bytes_and_elements(data_type: pa.DataType) -> None:
    values = [b"ab", b"", None] if "binary" in str(data_type) else [[1, 2], [], None]
    values = [value for value in values if value or "2" not in str(data_type) or value is None]
    table = column(values, data_type)
    assert truth(sm.col("x").length() == 2, table) == [
        None if value is None else len(value) == 2 for value in values
    ]


def test_parts_of_texts_are_literal_and_those_of_bytes_need_no_encoding() -> None:
    table = pa.table({"s": ["a.b", "aXb", "%", None], "b": [b"\xff\x00", b"\x00", b"", None]})
    assert kept_rows(sm.col("s").contains("a.b") | sm.col("s").contains("%"), table) == [0, 2]
    assert truth(sm.col("b").contains(b"\x00"), table) == [True, True, False, None]
    assert kept_rows(sm.col("b").ends_with(b"\x00") & ~sm.col("b").starts_with(b"\xff"), table) == [
        1
    ]
    with pytest.raises(TypeError, match="a part of a string"):
        sm.col("s").contains(1)  # pyright: ignore[reportArgumentType]


def test_wide_integers_and_decimals_are_computed_exactly() -> None:
    big = [2**64 - 1, 0, None]
    table = pa.table(
        {"u": pa.array(big, pa.uint64()), "d": [Decimal("0.10"), Decimal("-2.50"), None]}
    )
    assert kept_rows(sm.col("u") + 1 == 2**64, table) == [0]
    assert kept_rows(sm.col("u") - 1 == -1, table) == [1]
    assert kept_rows(sm.col("d") * 3 == Decimal("0.3"), table) == [0]
    assert kept_rows(sm.col("d") + sm.col("u") == Decimal("-2.5"), table) == [1]
    assert kept_rows(sm.col("d") / 0 == 1, table) == kept_rows(~(sm.col("d") % 0 == 1), table) == []


def test_remainder_has_the_sign_of_the_dividend() -> None:
    values = [-(2**63), -7, 7]
    for divisor in (-1, 3, -3, 2.5):
        expected = [math.fmod(value, divisor) for value in values]
        for row, rest in enumerate(expected):
            assert row in kept_rows(sm.col("x") % divisor == rest, column(values, pa.int64()))


def test_column_of_nulls_makes_every_computation_unknown() -> None:
    table, x = pa.table({"x": pa.nulls(2), "i": [1, 2]}), sm.col("x")
    for condition in (
        x.lower() == "a",
        x.length() < sm.col("i"),
        x + sm.col("i") > 1,
        1 / x > 0,
        x.contains("a"),
        x.is_nan(),
    ):
        assert truth(condition, table) == [None, None]
    assert truth((x % 2).is_null(), table) == [True, True]


def test_nan_is_asked_of_any_number() -> None:
    assert truth(sm.col("x").is_nan(), column([1, None], pa.int32())) == [False, None]
    assert truth((sm.col("x") / 2).is_nan(), column([NAN, 1.0, None], pa.float64())) == [
        True,
        False,
        None,
    ]


def test_values_are_computed_with_numbers_only() -> None:
    for wrong in ("a", True, None, datetime.date(2024, 1, 1)):
        with pytest.raises(TypeError):
            sm.col("x") + wrong  # pyright: ignore[reportOperatorIssue, reportUnusedExpression]
    deep = sm.col("x")
    with pytest.raises(ValueError, match="nested more than 48 levels"):
        for _ in range(100):
            deep = deep + 1


@pytest.mark.parametrize(
    ("name", "close"),
    [
        ("is_not_null", "is_valid"),
        ("isin", "is_in"),
        ("startswith", "starts_with"),
        ("is_between", "between"),
    ],
)
def test_method_of_another_library_names_the_method_here(name, close):
    with pytest.raises(
        AttributeError,
        match=f"^a column of a filter has no attribute '{name}'\nhint: did you mean '{close}'\\?$",
    ):
        getattr(sm.col("x"), name)


def test_column_without_such_a_method_lists_the_methods():
    with pytest.raises(AttributeError) as raised:
        sm.col("x").sqrt()
    assert (
        str(raised.value)
        .splitlines()[1]
        .startswith("hint: the methods are between, compare, contains, ")
    )
