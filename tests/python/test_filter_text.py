"""Filters as text: DuckDB keeps the same rows for the same text; errors point at their place."""

import operator
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from shardmill._native import plan
from shardmill.errors import LiteralTypeError, MissingColumnError, OptionError
from shardmill.expressions import Expression, Value, parse_filter

ROWS = 24
TABLE = pa.table(
    {
        "id": pa.array(range(ROWS)),
        "i": pa.array([[-7, -2, 0, 3, None, 5][row % 6] for row in range(ROWS)], pa.int64()),
        "j": pa.array([[0, 2, -3, None][row % 4] for row in range(ROWS)], pa.int32()),
        "f": pa.array([[0.5, -1.25, 0.0, None, 8.0][row % 5] for row in range(ROWS)], pa.float64()),
        "s": pa.array([["", "a", "É", "aé.*", None, "B%_", "ab"][row % 7] for row in range(ROWS)]),
        "t b": pa.array([["a", "b", None, "É", "A"][row % 5] for row in range(ROWS)]),
        "meta.day": pa.array([[None, 0, 19_000, -5][row % 4] for row in range(ROWS)], pa.date32()),
        "nothing": pa.nulls(ROWS, pa.int32()),
    }
)


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect()
    connection.execute("SET error_on_division_by_zero = false")
    connection.execute("SET ieee_floating_point_ops = false")
    connection.execute("CREATE MACRO is_nan(x) AS isnan(x)")
    connection.register("rows", TABLE)
    yield connection
    connection.close()


def kept_by(expression: Expression) -> list[int]:
    truth = pa.array(plan.evaluate(expression.tree, TABLE.to_batches()[0])).to_pylist()
    return [row for row, is_true in enumerate(truth) if is_true]


def kept_by_duckdb(database: duckdb.DuckDBPyConnection, text: str) -> list[int]:
    return [
        row
        for (row,) in database.execute(f"SELECT id FROM rows WHERE {text} ORDER BY id").fetchall()
    ]


@pytest.mark.parametrize(
    "text",
    [
        "i + 2 * j - f / 2 < 3",
        "-i % 3 = -2 or i % -3 = 1",
        "i / j >= 1",
        "i % j is null",
        "1 / i is not null and not i = 3",
        "i - -2 = 0 OR - f > 1",
        "i not in (3, 5) and s NOT IN ('a')",
        "not s in ('a', 'it''s') or not i in (-7)",
        "i between -2 and 3 and f not between 0 and 1",
        "3 between i and j or 2 * 3 < i + 1",
        'lower("t b") = s or "t b" < s',
        "starts_with(s, 'a') or ends_with(lower(\"t b\"), 'é')",
        "contains(s, '.*') or contains(s, '%_') or contains(s, '')",
        "length(s) > 1 and length(s) + j <> 4",
        "\"meta.day\" >= '1970-01-01' and \"meta.day\" != '2022-01-08'",
        "i = j + 2 or i < f",
        "nothing = 1 or not nothing + i = 1 or nothing in (1)",
        "not is_nan(f) and not is_nan(f * 2)",
        "(((i > 0) and (f > 0)) or ((i) < ((-1))))",
        "i > 0 or i < 0 and f > 0",
        "not i > 0 and f > 0",
        "60 * 60 % 7 = i + 3 * 1.5e0 - 6.5",
    ],
)
def test_text_keeps_the_rows_that_duckdb_keeps(
    database: duckdb.DuckDBPyConnection, text: str
) -> None:
    assert kept_by(parse_filter(text)) == kept_by_duckdb(database, text)


BOOLEANS = pa.table(
    {
        "id": pa.array(range(9)),
        "is_ok": pa.array([truth for truth in (True, False, None) for _ in range(3)]),
        "is_bad": pa.array([True, False, None] * 3),
    }
)


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("is_ok", sm.col("is_ok")),
        ("not is_bad", ~sm.col("is_bad")),
        ("is_ok and not is_bad", sm.col("is_ok") & ~sm.col("is_bad")),
        ("(is_ok) or (not (is_bad))", sm.col("is_ok") | ~sm.col("is_bad")),
        ("id > 2 and is_bad or is_ok", ((sm.col("id") > 2) & sm.col("is_bad")) | sm.col("is_ok")),
        ("is_ok and id < 2", sm.col("is_ok") & (sm.col("id") < 2)),
        ("is_ok = is_bad", sm.col("is_ok") == sm.col("is_bad")),
        ("is_ok and true and 1 = 1", None),
        ("false or is_ok or 'a' > 'b' or 1.5 <> 1.5", None),
        ("2 between 1 and 3 and not 1 > 2 and is_bad", None),
    ],
)
def test_boolean_columns_and_constants_are_conditions(
    database: duckdb.DuckDBPyConnection,
    tmp_path: Path,
    text: str,
    expression: Expression | Value | None,
) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(BOOLEANS, path)
    wanted = database.execute(f"SELECT id FROM '{path}' WHERE {text} ORDER BY id").fetchall()
    for kept in (text, expression):
        if kept is not None:
            assert [(row["id"],) for row in sm.Dataset(path, filter=kept)] == wanted


FLOATS = pa.table(
    {
        "f": [0.0, -0.0, 2.0, None],
        "g": pa.array([0.1, -0.0, 0.5, None], pa.float32()),
    }
)


@pytest.mark.parametrize("name", ["f", "g"])
@pytest.mark.parametrize("value", ["0", "0.0", "-0.0", "0.1", "0.5", "2"])
def test_in_keeps_the_rows_that_equality_keeps(tmp_path: Path, name: str, value: str) -> None:
    pq.write_table(FLOATS, tmp_path / "rows.parquet", row_group_size=1)
    for listed, compared in (("in", "="), ("not in", "!=")):
        kept = [
            list(map(repr, sm.Dataset(tmp_path / "rows.parquet", filter=text)))
            for text in (f"{name} {listed} ({value})", f"{name} {compared} {value}")
        ]
        assert kept[0] == kept[1]


@pytest.mark.parametrize("text", ["1 = 1", "true", "1 = 2", "not 'a' = 'a'"])
def test_filters_without_columns_keep_all_rows_or_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(BOOLEANS, path)
    wanted = duckdb.sql(f"SELECT count(*) FROM '{path}' WHERE {text}").fetchall()
    assert [(len(sm.Dataset(path, filter=text)),)] == wanted
    batches = sm.Loader(path, filter=text, columns=["id"], output="numpy")
    assert [(sum(len(batch["id"]) for batch in batches),)] == wanted


@pytest.mark.parametrize(
    "wrong", [lambda: sm.col("a") > 1 & sm.col("b"), lambda: (sm.col("a") > 1) & 5]
)
def test_comparisons_without_parentheses_say_so(wrong: Callable[[], object]) -> None:
    with pytest.raises(
        TypeError, match=r"hint: & and \| bind tighter than comparisons; write \(col"
    ):
        wrong()


TIMES = pa.table(
    {
        "id": pa.array(range(4)),
        "local": pa.array([1714559400, 1714559460, 1714552200, None], pa.timestamp("s")),
        "instant": pa.array(
            [1714559400, 1714559460, 1714552200, None], pa.timestamp("s", "Europe/Berlin")
        ),
        "clock": pa.array([37800, 37860, 0, None], pa.time32("s")),
    }
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("local = '2024-05-01 10:30'", [0]),
        ("local > '2024-05-01T10:30'", [1]),
        ("instant = '2024-05-01 10:30'", [0]),
        ("instant = '2024-05-01T10:30Z'", [0]),
        ("instant = '2024-05-01 10:30+02:00'", [2]),
        ("instant = '2024-05-01T10:31:00+00:00'", [1]),
        ("clock = '10:30'", [0]),
    ],
)
def test_times_may_lack_seconds_and_are_in_utc_without_a_zone(text: str, wanted: list[int]) -> None:
    truth = pa.array(plan.evaluate(parse_filter(text).tree, TIMES.to_batches()[0])).to_pylist()
    assert [row for row, is_true in enumerate(truth) if is_true] == wanted
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'")
    database.register("times", TIMES)
    assert [
        row for (row,) in database.execute(f"SELECT id FROM times WHERE {text}").fetchall()
    ] == wanted


@pytest.mark.parametrize(
    ("condition", "hint"),
    [
        (parse_filter("local > '2024-05-01 10:30Z'"), "the column has no time zone"),
        (parse_filter("local > '2024-05-01T10:30:00+02:00'"), "the column has no time zone"),
        (parse_filter("local > '2024-05-01 10:30 Europe/Berlin'"), "the column has no time zone"),
        (parse_filter("local > '2024-05-01 10:30:00 UTC'"), "the column has no time zone"),
        (sm.col("local") > datetime(2024, 5, 1, tzinfo=UTC), "the column has no time zone"),
        (sm.col("instant") > datetime(2024, 5, 1), "the column has a time zone"),
        (parse_filter("local > instant"), ""),
    ],
    ids=str,
)
def test_times_with_a_zone_and_without_one_are_not_compared(
    condition: Expression, hint: str
) -> None:
    with pytest.raises(LiteralTypeError, match=f"(?s)timestamp.*cannot be compared.*{hint}"):
        plan.check(condition.tree, TIMES.schema)


Pair = tuple[str, Any]
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": operator.mod,
}
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
columns = st.sampled_from(["i", "j", "f"]).map(lambda name: (name, sm.col(name)))
lengths = st.just(("length(s)", sm.col("s").length()))
constants = st.sampled_from([0, 1, 3, 0.5, 2.0]).map(lambda value: (str(value), value))
numbers: st.SearchStrategy[Pair] = st.recursive(
    columns | lengths,
    lambda inner: st.one_of(
        st.builds(
            lambda left, op, right: (
                f"({left[0]} {op}{right[0]})",
                ARITHMETIC[op](left[1], right[1]),
            ),
            inner,
            st.sampled_from(list(ARITHMETIC)),
            inner | constants,
        ),
        inner.map(lambda of: (f"(- {of[0]})", -of[1])),
    ),
    max_leaves=3,
)
texts: st.SearchStrategy[Pair] = st.sampled_from(
    [("s", sm.col("s")), ('"t b"', sm.col("t b")), ("LOWER(s)", sm.col("s").lower())]
)
parts = st.sampled_from(["", "a", "É", "%_", ".*", "'"])


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def compared(left: Pair, op: str, right: Pair) -> Pair:
    return f"{left[0]}{op}{right[0]}", COMPARISONS[op](left[1], right[1])


def of_part(of: Pair, name: str, part: str) -> Pair:
    return f"{name}({of[0]} , {quoted(part)})", getattr(of[1], name)(part)


conditions: st.SearchStrategy[Pair] = st.recursive(
    st.one_of(
        st.builds(compared, numbers, st.sampled_from(list(COMPARISONS)), numbers | constants),
        st.builds(compared, texts, st.sampled_from(list(COMPARISONS)), texts),
        st.builds(of_part, texts, st.sampled_from(["starts_with", "ends_with", "contains"]), parts),
        numbers.map(lambda of: (f"{of[0]} is\nNOT null", of[1].is_valid())),
        texts.map(lambda of: (f"{of[0]} is null", of[1].is_null())),
        st.builds(
            lambda of, low, high: (
                f"{of[0]} between {low[0]} and {high[0]}",
                of[1].between(low[1], high[1]),
            ),
            numbers,
            constants,
            constants | numbers,
        ),
        st.builds(
            lambda of, members: (
                f"{of[0]} not in ({', '.join(map(quoted, members))})",
                ~of[1].is_in(members, null_is_unknown=True),
            ),
            texts,
            st.lists(parts, min_size=1, max_size=3),
        ),
    ),
    lambda inner: st.one_of(
        st.builds(
            lambda one, other: (f"({one[0]}) And ({other[0]})", one[1] & other[1]), inner, inner
        ),
        st.builds(
            lambda one, other: (f"({one[0]} or {other[0]})", one[1] | other[1]), inner, inner
        ),
        inner.map(lambda one: (f"not ({one[0]})", ~one[1])),
    ),
    max_leaves=4,
)


@settings(max_examples=examples(300), deadline=None)
@given(pair=conditions)
def test_text_is_parsed_to_the_same_expression_and_keeps_what_duckdb_keeps(
    database: duckdb.DuckDBPyConnection, pair: Pair
) -> None:
    text, expression = pair
    assert parse_filter(text).tree == expression.tree
    assert kept_by(expression) == kept_by_duckdb(database, text), text


@pytest.mark.parametrize(
    ("text", "problem", "at"),
    [
        ("", "a column, a constant, a function or `(` is expected", 0),
        ("quality + 1", "a comparison is expected", 11),
        ("1", "a comparison is expected", 0),
        ("quality >", "a column, a constant, a function or `(` is expected", 9),
        ("quality > 0.5 lang = 'en'", "`and` or `or` is expected", 14),
        ("(a > 1 and (b < 2)", "`)` is expected", 18),
        ("a > 1)", "`and` or `or` is expected", 5),
        ("lang = 'en", "the closing quote is missing", 7),
        ('"lang = 1', "the closing quote is missing", 0),
        ("a > $", "'$' is not expected here", 4),
        ("a ~ 'x'", "'~' is not expected here; write `not`", 2),
        ("a > 1 && a < 5", "'&' is not expected here; write `and`", 6),
        ("a > 1 || a < 5", "'|' is not expected here; write `or`", 6),
        ("!a", "'!' is not expected here; write `not`", 0),
        ("a like 'x%'", "there are no patterns; use starts_with(a, 'x')", 2),
        ("a not ilike 'x%'", "there are no patterns; use starts_with(a, 'x')", 6),
        ("a is true", "a boolean column is a condition by itself", 5),
        ('a in ("b")', "in filters, strings take single quotes: 'b'", 6),
        ('contains(a, "b")', "in filters, strings take single quotes: 'b'", 12),
        ("1 < a < 5", "comparisons cannot be chained; use `between` or `and`", 6),
        ("lengths(a) > 1", "there is no function `lengths`; did you mean `length`?", 0),
        ("regexp(a, 'x')", "there is no function `regexp`", 0),
        ("contains(a)", "`,` and a string are expected", 10),
        (
            "contains(a, en)",
            "a string in single quotes is expected; put strings in quotes: 'en'",
            12,
        ),
        ("lower('A') = a", "a column is expected", 6),
        ("a = null", "use `is null`", 4),
        ("a is 5", "`null` or `not null` is expected", 5),
        ("a in ()", "is expected", 6),
        ("a in (1, b)", "a constant is expected; put strings in quotes: 'b'", 9),
        ("a not 5", "`in` or `between` is expected", 6),
        ("a between 1 or 2", "`and` is expected between the bounds", 12),
        ("a = 1 and 1 = 'x'", "a number cannot be compared with a string", 10),
        ("true = 1", "a boolean cannot be compared with a number", 0),
        ("(a > 1) + 1 = 2", "`+` takes numbers", 0),
        ("a + 'x' = 2", "`+` takes numbers", 4),
        ("a = 1 / 0", "division by zero", 6),
        ("a = " + "9" * 5000, "the number is too large", 4),
        ("(" * 5000, "nested more than 48 levels deep", 49),
        ("not " * 5000 + "a = 1", "nested more than 48 levels deep", 4 * 49),
        ("a = " + "-" * 5000 + "1", "nested more than 48 levels deep", 4 + 49),
    ],
)
def test_error_says_what_was_expected_and_points_at_its_place(
    text: str, problem: str, at: int
) -> None:
    with pytest.raises(OptionError) as error:
        parse_filter(text)
    message, shown, caret = str(error.value).split("\n")
    assert problem in message
    assert (shown + " ")[caret.index("^")] == (text + " ")[at]
    assert len(shown) < 130


def test_caret_is_below_its_place_after_wide_and_combining_characters() -> None:
    with pytest.raises(OptionError) as error:
        parse_filter("a = '日本e\N{COMBINING ACUTE ACCENT}' x")
    _, shown, caret = str(error.value).split("\n")
    # Two characters of two columns, and one of none.
    assert caret.index("^") == shown.index("x") + 2 - 1


def test_deep_computations_are_refused_and_long_filters_are_not() -> None:
    with pytest.raises(OptionError, match="nested more than 48 levels deep"):
        parse_filter("a" + " + a" * 1000 + " > 1")
    conditions = 20_000
    long = " or ".join(f"i = {number}" for number in range(conditions))
    assert len(parse_filter(long).tree["or"]) == conditions
    assert kept_by(parse_filter(long)) == kept_by(sm.col("i") >= 0)


@settings(max_examples=examples(300), deadline=None)
@given(text=st.text("ab1.'\"` ()=<>+-*/%,\n\0", max_size=30) | st.text(max_size=20))
def test_any_text_is_an_expression_or_an_option_error(text: str) -> None:
    try:
        assert isinstance(parse_filter(text), Expression)
    except OptionError as error:
        assert "^" in str(error)


def test_names_of_columns_may_be_quoted_or_dotted() -> None:
    parsed = parse_filter('meta.lang = \'de\' and "a ""b" > 1 and `c-d` > 1 and "not" > 1')
    assert parsed.tree["and"] == [
        (sm.col("meta.lang") == "de").tree,
        *[(sm.col(name) > 1).tree for name in ('a "b', "c-d", "not")],
    ]


def test_text_is_taken_wherever_an_expression_is(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(TABLE, path)
    text, wanted = "i > 0 and s is not null", kept_by(parse_filter("i > 0 and s is not null"))
    batches = sm.Loader(path, filter=text, columns=["id"], output="numpy", batch_size=ROWS)
    assert [batch["id"].tolist() for batch in batches] == [wanted]
    mixture = sm.Mixture({"a": sm.Dataset(path, filter=text, columns=["id"])})
    assert len(sm.Dataset(path, filter=text)) == len(wanted) == mixture.num_rows
    from shardmill.curate import Filter, TableSource
    from shardmill.curate._filters import native_options

    assert native_options(Filter(text))["filter"]["expression"] == parse_filter(text).tree
    assert TableSource(path, filter=text).filter == text


@pytest.mark.parametrize(
    ("text", "error", "problem"),
    [
        (
            "s > 5",
            LiteralTypeError,
            "Column `s` is string; it cannot be compared with the integer 5",
        ),
        (
            "i = 'a'",
            LiteralTypeError,
            'Column `i` is int64; it cannot be compared with the string "a"',
        ),
        (
            "s = i",
            LiteralTypeError,
            "Column `s` is string; it cannot be compared with column `i`, which is int64",
        ),
        (
            "lower(s) = 1",
            LiteralTypeError,
            "`lower(s)` is string; it cannot be compared with the integer 1",
        ),
        ("s + 1 = 2", LiteralTypeError, "Column `s` is string; `+` takes numbers"),
        (
            "length(i) = 2",
            LiteralTypeError,
            "Column `i` is int64; `length` takes strings, binary values and lists",
        ),
        ("lower(i) = 'a'", LiteralTypeError, "Column `i` is int64; `lower` takes strings"),
        (
            "contains(i, 'a')",
            LiteralTypeError,
            "Column `i` is int64; `contains` takes strings and binary values",
        ),
        ("is_nan(s)", LiteralTypeError, "Column `s` is string; `is_nan` takes numbers"),
        (
            "meta.day > '2024-02-31'",
            LiteralTypeError,
            "hint: dates and times are written as ISO 8601",
        ),
        ("meta.dy > '2024-01-31'", MissingColumnError, "hint: did you mean `meta.day`?"),
        ("s = en", MissingColumnError, "hint: put strings in single quotes: 'en'"),
        ('s = "en"', MissingColumnError, "hint: put strings in single quotes: 'en'"),
        ('"en" = s', MissingColumnError, "hint: put strings in single quotes: 'en'"),
        ("i", LiteralTypeError, "hint: only a boolean column is a condition by itself"),
        ("s > 5", LiteralTypeError, "hint: the column holds strings; write the value in quotes"),
        (
            "i > '5'",
            LiteralTypeError,
            "hint: the column holds numbers; write the value without quotes",
        ),
    ],
)
def test_types_and_names_are_checked_before_rows_are_read(
    text: str, error: type[Exception], problem: str
) -> None:
    with pytest.raises(error) as raised:
        plan.check(parse_filter(text).tree, TABLE.schema)
    assert problem in str(raised.value)


def test_values_and_chained_comparisons_have_no_truth() -> None:
    column = sm.col("x")
    assert isinstance(column, Value)
    for wrong in (
        lambda: column and 1,
        lambda: not column,
        lambda: 1 < column < 5,
        lambda: (column > 1) and True,
    ):
        with pytest.raises(TypeError, match=r"use & \| ~ .* \.between\(low, high\)"):
            wrong()
