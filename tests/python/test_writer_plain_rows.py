"""Rows of plain values are written without pyarrow, and as pyarrow would convert them."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import examples
from hypothesis import given, settings
from hypothesis import strategies as st

NESTED = {"list": [[1], [], None], "object": {"b": [{"c": 1.5}], "a": None}}
#: Arguments of a writer, and rows.
WRITES: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "parquet": (
        {},
        [
            {
                "text": "é",
                "bytes": b"x",
                "whole": 1,
                "real": 0.5,
                "flag": True,
                "none": None,
                **NESTED,
            }
        ],
    ),
    "parquet, integers among floats": (
        {"format": "parquet"},
        [{"list": [1, 0.5], "object": {"a": [[1], [0.5]]}}],
    ),
    "parquet, types": (
        {"format": "parquet", "columns": {"text": "str", "ids": "uint32[]"}},
        [{"text": "a", "ids": [1]}],
    ),
    "jsonl": ({}, [{"text": "é", "whole": 1, "real": 0.5, "flag": True, "none": None, **NESTED}]),
    "webdataset": ({}, [{"txt": "é", "jpg": b"x", "cls": 1, "json": NESTED}]),
    "mds": ({}, [{"text": "é", "bytes": b"x", "whole": 1, "real": 0.5, **NESTED}]),
    "mds, types": (
        {"format": "mds", "columns": {"text": "str", "label": "int", "more": "json"}},
        [{"text": "a", "label": 1, "more": NESTED}],
    ),
    "arrayrecord": ({}, [b"x", "y", {"record": b"z"}]),
}


def test_plain_rows_import_no_pyarrow_in_any_format(tmp_path: Path) -> None:
    code = f"""
import sys, shardmill
for name, (options, rows) in {WRITES}.items():
    options = {{"format": name}} | options
    with shardmill.Writer({str(tmp_path)!r} + "/" + name, **options) as writer:
        writer.write_rows(rows * 2000)
    print(name, "pyarrow" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stdout.splitlines() == [f"{name} False" for name in WRITES], run.stderr
    assert [len(sm.Dataset(tmp_path / name)) for name in WRITES] == [2000] * (len(WRITES) - 1) + [
        6000
    ]


def nested(texts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Values, some of which have another type than their neighbors."""
    return st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**64), 2**64)
        | st.floats(allow_nan=False)
        | texts,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.lists(inner, max_size=3).map(tuple)
            | st.dictionaries(
                st.sampled_from(["b", "a", "é", "\U0001f600", "\uffff"]), inner, max_size=3
            )
        ),
        max_leaves=6,
    )


#: Not both: pyarrow takes binaries in lists of strings.
VALUES = nested(st.text(max_size=3)) | nested(st.binary(max_size=3))


def like(value: Any) -> st.SearchStrategy[Any]:
    """Values of the types of `value`, or almost."""
    if isinstance(value, list | tuple):
        return st.lists(st.one_of(*map(like, value)), max_size=3) if value else st.just([])
    if isinstance(value, dict):
        return st.fixed_dictionaries(
            {}, optional={name: like(part) for name, part in value.items()}
        )
    return (
        st.none()
        | st.just(value)
        | st.sampled_from([0, 1.5, "x"]).filter(lambda one: type(one) is type(value))
    )


@settings(max_examples=examples(400, 60), deadline=None)
@given(
    values=VALUES.flatmap(
        lambda value: st.lists(like(value), min_size=1, max_size=4).map(lambda more: [value, *more])
    )
)
def test_rows_have_the_types_and_values_that_pyarrow_gives_them(
    tmp_path_factory: pytest.TempPathFactory, values: list[Any]
) -> None:
    path = tmp_path_factory.mktemp("plain") / "rows.parquet"
    rows = [{"x": value, "n": 1} for value in values]
    try:
        expected = pa.table({"x": pa.array(values), "n": pa.array([1] * len(values))})
        pq.write_table(expected, path)
        path.unlink()
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        path.unlink(missing_ok=True)
        with pytest.raises((ValueError, TypeError)), sm.Writer(path) as writer:
            writer.write_rows(rows)
        return
    try:
        with sm.Writer(path) as writer:
            writer.write_rows(rows)
    except sm.FormatError as error:
        # Strings among binaries, which pyarrow encodes, and structs without fields.
        reasons = ("strings or binaries", "not of type", "cannot hold exactly", "no such type")
        assert any(reason in str(error) for reason in reasons), error
        return
    found = pq.read_table(path)
    assert found.schema == expected.schema
    assert found.to_pylist() == expected.to_pylist()


#: A schema, a value that fits, and one that does not, or only by a conversion.
LATER: list[tuple[pa.DataType, Any, Any]] = [
    (pa.list_(pa.int8()), [1, None], [1, 300]),
    (pa.list_(pa.int8()), [1], [2, [3]]),
    (pa.list_(pa.string()), ["a"], ["b", 3]),
    (pa.list_(pa.list_(pa.int64())), [[1], None], [[2], [3, "x"]]),
    (
        pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))]),
        {"b": ["x"]},
        {"a": 1, "b": ["y", 2]},
    ),
    (pa.struct([("a", pa.int64())]), {"a": 1}, {"a": 2, "z": 3}),
    (pa.struct([("a", pa.int64())]), {}, {"a": 2.5}),
    (pa.list_(pa.struct([("a", pa.int64())])), [{"a": 1}, None], [{"a": 2}, {"a": "x"}]),
    (pa.list_(pa.float64()), [0.5, 2], [3.5, 2**53 + 1]),
    (pa.list_(pa.int64()), np.array([1, 2]), np.array([1, 2.5])),
    (pa.null(), None, 1),
]


@pytest.mark.parametrize(("data_type", "good", "bad"), LATER, ids=str)
def test_value_that_does_not_fit_leaves_the_rows_before_it_and_is_named(
    tmp_path: Path, data_type: pa.DataType, good: Any, bad: Any
) -> None:
    schema = pa.schema([("x", data_type)])
    expected = pa.array([good] * 3, data_type).to_pylist()
    with sm.Writer(tmp_path / "good.parquet", schema=schema) as writer:
        writer.write_rows([{"x": good}] * 3)
    assert pq.read_table(tmp_path / "good.parquet")["x"].to_pylist() == expected
    with (
        pytest.raises((ValueError, TypeError), match="row 3 .*column 'x'"),
        sm.Writer(tmp_path / "bad.parquet", schema=schema) as writer,
    ):
        writer.write_rows([{"x": good}] * 3 + [{"x": bad}])


@pytest.mark.parametrize("late", [[np.int8(3)], [np.int8(3), None]], ids=str)
@pytest.mark.parametrize(
    "wrap", [lambda value: value, lambda value: [value], lambda value: {"a": value, "b": value}]
)
def test_values_that_pyarrow_converts_follow_those_that_it_does_not(
    tmp_path: Path, wrap: Any, late: list[Any]
) -> None:
    plain = [[[1], [2, 3]], [], None, [[4]]]
    with sm.Writer(tmp_path / "rows.parquet") as writer:
        writer.write_rows({"x": wrap(value)} for value in [*plain * 300, [[5], late], *plain])
    expected = pa.array([wrap(value) for value in [*plain * 300, [[5], [3, *late[1:]]], *plain]])
    assert pq.read_table(tmp_path / "rows.parquet")["x"].to_pylist() == expected.to_pylist()


def test_struct_with_fields_that_must_not_be_null_or_of_one_name_is_converted_as_before(
    tmp_path: Path,
) -> None:
    strict = pa.struct([pa.field("a", pa.int64(), nullable=False)])
    with sm.Writer(tmp_path / "rows.parquet", schema=pa.schema([("x", strict)])) as writer:
        writer.write({"x": {"a": 1}})
    assert pq.read_table(tmp_path / "rows.parquet")["x"].to_pylist() == [{"a": 1}]
    twice = pa.struct([("a", pa.int64()), ("a", pa.int64())])
    with (
        pytest.raises((ValueError, TypeError)),
        sm.Writer(tmp_path / "twice.parquet", schema=pa.schema([("x", twice)])) as writer,
    ):
        writer.write({"x": {"a": 1, "b": 2}})


@pytest.mark.parametrize("row", [{"a\0b": 1}, {"x": {"a\0b": 1}}], ids=["column", "field"])
def test_name_with_nul_is_refused(tmp_path: Path, row: dict[str, Any]) -> None:
    with pytest.raises(sm.FormatError, match="NUL"), sm.Writer(tmp_path / "rows.parquet") as writer:
        writer.write(row)
    with (
        pytest.raises(sm.FormatError, match="NUL"),
        sm.Writer(tmp_path / "o", columns={"a\0": "int32"}) as writer,
    ):
        writer.write({"a\0": 1})


def test_deep_lists_are_left_to_pyarrow(tmp_path: Path) -> None:
    deep: Any = 1
    for _ in range(30):
        deep = [deep]
    with sm.Writer(tmp_path / "rows.parquet") as writer:
        writer.write({"x": deep})
    assert pq.read_table(tmp_path / "rows.parquet")["x"].to_pylist() == [deep]
