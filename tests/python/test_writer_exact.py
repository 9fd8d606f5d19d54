"""What a column holds only in part is refused, by rows and by mappings, in every format."""

import datetime as dt
import math
import re
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import shardmill as sm
from breadth import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from shardmill.write._exact_values import first_changed

EAST = dt.timezone(dt.timedelta(hours=5))

#: Columns or None, a value that fits, one that does not.
LOSSES: list[tuple[dict[str, str] | None, Any, Any]] = [
    ({"x": "int32"}, 1, 2.9),
    ({"x": "uint8"}, 1, np.float32(2.5)),
    ({"x": "int32[]"}, [1], [1.9]),
    ({"x": "float32"}, 1.5, 1e300),
    (None, 1, 2.5),
    (None, 1, np.float64(2.5)),
    (None, 1, Decimal("2.5")),
    (None, [1, 2], [1, 2.5]),
    (None, {"a": 1}, {"a": 1, "b": 2}),
    (None, {"a": 1}, {"a": 1.5}),
    (None, dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, 5, 6)),
    (None, dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, tzinfo=EAST)),
]


@pytest.mark.parametrize("name", ["update", "timestamp", "binary"])
def test_name_of_a_field_is_not_taken_for_its_type(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [{name: 1}, {name: 2}]
    # Values are compared one by one only where their type may lose something.
    monkeypatch.setattr("shardmill.write._exact_values._is_same", None)
    assert first_changed(values, pa.array(values)) is None


@pytest.mark.parametrize("before", [0, 1, 1100])
@pytest.mark.parametrize(("columns", "good", "bad"), LOSSES, ids=[repr(bad) for *_, bad in LOSSES])
def test_value_that_its_column_would_cut_is_refused_by_row(
    tmp_path: Path, columns: dict[str, str] | None, good: Any, bad: Any, before: int
) -> None:
    if columns is None and before < 1024:
        pytest.skip("the first rows decide about the type")
    with (
        pytest.raises((ValueError, TypeError), match=f"row {before} "),
        sm.Writer(tmp_path / "out", format="parquet", columns=columns) as writer,
    ):
        writer.write_rows([{"x": good}] * before + [{"x": bad}])
    assert not list((tmp_path / "out").glob("*.parquet"))


@pytest.mark.parametrize(("columns", "good", "bad"), LOSSES, ids=[repr(bad) for *_, bad in LOSSES])
def test_batch_that_its_columns_would_cut_is_refused(
    tmp_path: Path, columns: dict[str, str] | None, good: Any, bad: Any
) -> None:
    with (
        pytest.raises((ValueError, TypeError)),
        sm.Writer(tmp_path / "out", format="parquet", columns=columns) as writer,
    ):
        writer.write_batch({"x": [good]})
        writer.write_batch({"x": [bad]})


@pytest.mark.parametrize("format", ["mds", "jsonl", "parquet", "webdataset"])
def test_fraction_behind_whole_numbers_is_refused_in_every_format(
    tmp_path: Path, format: str
) -> None:
    with (
        pytest.raises(ValueError, match="row 1100"),
        sm.Writer(tmp_path / "out", format=format) as writer,
    ):
        writer.write_rows([{"cls": 1}] * 1100 + [{"cls": 2.5}])


@pytest.mark.parametrize("values", [[1.5, np.uint64(2**64 - 1)], [1, uuid.UUID(int=5)]], ids=str)
@pytest.mark.parametrize("before", [0, 1100])
def test_value_that_pyarrow_would_replace_by_another_number_is_refused(
    tmp_path: Path, values: list[Any], before: int
) -> None:
    rows = [{"x": value} for value in [values[0]] * before + values]
    with (
        pytest.raises(
            sm.FormatError, match=f"row {before + 1} has the value {re.escape(repr(values[1]))}"
        ),
        sm.Writer(tmp_path / "out") as writer,
    ):
        writer.write_rows(rows)
    assert not (tmp_path / "out").exists()


#: Encodings of MDS, values of a list, and why it is refused.
CHANGED_ITEMS = [
    ("ndarray:uint8", [1.5], "uint8 cannot hold 1.5 exactly"),
    ("uint32[]", [1.5], "uint32 cannot hold 1.5 exactly"),
    ("ndarray:int64", [1.0, -1.9], "int64 cannot hold -1.9 exactly"),
    ("ndarray:int32", ["7", "8"], "'7' is not a real number"),
    ("ndarray:float32", ["1.5"], "'1.5' is not a real number"),
    ("ndarray:float32", [None], "None is not a real number"),
    ("ndarray:float32", [1j], "1j is not a real number"),
    ("ndarray:float32", [1e39], r"float32 cannot hold 1e\+39 exactly"),
    ("ndarray:float32", [2**24 + 1], "float32 cannot hold 16777217 exactly"),
    ("ndarray:float16", [70000], "float16 cannot hold 70000 exactly"),
    ("ndarray:float64", [2**53 + 1], "float64 cannot hold 9007199254740993 exactly"),
    ("ndarray:float64", [2**53 + 1, 0.5], "float64 cannot hold 9007199254740993 exactly"),
    ("ndarray:float64", [[1.5], [2**53 + 1]], "float64 cannot hold 9007199254740993 exactly"),
    ("ndarray:uint64", [2**63, -1], "(out of bounds|negative|too large|cannot hold)"),
    ("ndarray:int64", [2**63], "too large|cannot hold"),
    ("ndarray:int64", [2**70], "too large"),
    ("ndarray:int8", [float("nan")], "cannot convert float NaN to integer"),
    ("ndarray:uint8", [-1], "(-1 out of bounds for|cannot hold -1)"),
    ("ndarray:uint8", [256], "(256 out of bounds for|cannot hold 256)"),
    ("ndarray", [2**53 + 1, 0.5], "float64 cannot hold 9007199254740993 exactly"),
    ("str[]", [5], "Expected bytes, got a 'int' object"),
    ("str[]", "abc", "cannot hold"),
    ("int32[][]", [[1.5]], "cannot hold"),
]


@pytest.mark.parametrize("is_batch", [False, True], ids=["row", "batch"])
@pytest.mark.parametrize(
    ("encoding", "value", "reason"), CHANGED_ITEMS, ids=lambda value: str(value)
)
def test_list_that_its_mds_encoding_would_change_names_row_column_and_value(
    tmp_path: Path, encoding: str, value: Any, reason: str, is_batch: bool
) -> None:
    good = {"str[]": ["a"], "int32[][]": [[1]]}.get(encoding, [1])
    message = f"row 1 has the value {re.escape(repr(value))} in column 'x'.*{reason}"
    with (
        pytest.raises(sm.FormatError, match=message),
        sm.Writer(tmp_path / "out", format="mds", columns={"x": encoding}) as writer,
    ):
        if is_batch:
            writer.write_batch({"x": [good, value]})
        else:
            writer.write_rows([{"x": good}, {"x": value}])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("encoding", "value"),
    [
        ("ndarray:float32", [0.1, float("inf"), 3]),
        ("ndarray:float16", [0.1, 65504.0]),
        ("ndarray:float32", [2**25, 1e30]),
        ("ndarray:float64", [1e300, 2**53]),
        ("ndarray:int64", [1.0, -(2**63)]),
        ("ndarray:uint64", [2**64 - 1, 0]),
        ("ndarray:uint8", [True, np.int64(255)]),
        ("ndarray:int16:2,2", [[1, 2], [3, 4]]),
        ("ndarray:int32", [Decimal(1), Decimal(2)]),
        ("ndarray", [1, 2]),
    ],
    ids=str,
)
def test_list_that_its_mds_encoding_holds_is_stored_like_an_array(
    tmp_path: Path, encoding: str, value: list
) -> None:
    with sm.Writer(tmp_path, format="mds", columns={"x": encoding}) as writer:
        writer.write({"x": value})
    dtype = encoding.split(":")[1] if ":" in encoding else "int64"
    assert next(iter(sm.Dataset(tmp_path)))["x"] == np.array(value, dtype=dtype).tolist()


@settings(max_examples=examples(60), deadline=None)
@given(
    dtype=st.sampled_from(["uint8", "int8", "uint64", "int64", "float16", "float32", "float64"]),
    value=st.lists(
        st.integers(-(2**64), 2**64)
        | st.floats()
        | st.sampled_from([2**53 + 1, 2**24 + 1, 255, 256]),
        min_size=1,
    ),
)
def test_list_is_stored_as_an_arrow_column_would_hold_it_or_refused(
    tmp_path_factory: pytest.TempPathFactory, dtype: str, value: list
) -> None:
    out = tmp_path_factory.mktemp("lists") / "out"
    is_float = dtype.startswith("float")
    with np.errstate(over="ignore"):
        held = [
            float(np.dtype(dtype).type(item)) if is_float and isinstance(item, float) else item
            for item in value
        ]
    limits = None if is_float else np.iinfo(dtype)

    def is_held(item: float, kept: float) -> bool:
        if limits is not None:
            return (
                item == item
                and abs(item) != math.inf
                and item == int(item)
                and limits.min <= item <= limits.max
            )
        if isinstance(item, int):
            return abs(item) < 2**65 and item == float(np.array(float(item)).astype(dtype))
        return math.isinf(item) == math.isinf(kept)

    try:
        with (
            np.errstate(over="ignore"),
            sm.Writer(out, format="mds", columns={"x": f"ndarray:{dtype}"}) as writer,
        ):
            writer.write({"x": value})
    except sm.FormatError:
        with np.errstate(over="ignore"):
            assert not all(map(is_held, value, held))
        return
    with np.errstate(over="ignore"):
        assert all(map(is_held, value, held))
    found = next(iter(sm.Dataset(out)))["x"]
    np.testing.assert_array_equal(
        np.array(found, object if limits else dtype), np.array(held, object if limits else dtype)
    )


def test_map_with_a_key_twice_is_refused_in_mds(tmp_path: Path) -> None:
    maps = pa.array([[("a", 1), ("b", 2)], [("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int8()))
    with (
        pytest.raises(sm.FormatError, match='row `1` .*: a map has the key "a" twice'),
        sm.Writer(tmp_path / "out", format="mds") as writer,
    ):
        writer.write_batch(pa.table({"x": maps}))


MIXED = [("a", b"\xff"), (b"a", "b"), (["a"], [b"b"]), ({"a": "x"}, {"a": b"y"})]


@pytest.mark.parametrize("before", [1, 1100])
@pytest.mark.parametrize("format", ["parquet", "mds", "jsonl"])
@pytest.mark.parametrize(("first", "second"), MIXED, ids=repr)
def test_strings_and_binaries_in_one_column_are_refused(
    tmp_path: Path, format: Any, first: Any, second: Any, before: int
) -> None:
    if format == "mds" and not isinstance(first, str | bytes):
        pytest.skip("stored as JSON")
    with (
        pytest.raises(sm.FormatError) as error,
        sm.Writer(tmp_path / "out", format=format) as writer,
    ):
        writer.write_rows([{"t": first}] * before + [{"t": second}])
    if format == "parquet" and isinstance(first, str | bytes):
        assert f"row {before} has the value {second!r} in column 't'" in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("data_type", "value"), [(pa.string(), b"b"), (pa.binary(), "b")], ids=["string", "binary"]
)
def test_column_of_strings_or_binaries_refuses_the_other(
    tmp_path: Path, data_type: pa.DataType, value: Any
) -> None:
    schema = pa.schema([("t", data_type)])
    with (
        pytest.raises(
            sm.FormatError,
            match=f"row 0 has the value {value!r} in column 't', which is not of type",
        ),
        sm.Writer(tmp_path / "a.parquet", schema=schema) as writer,
    ):
        writer.write({"t": value})


def test_samples_take_strings_and_binaries_in_one_column(tmp_path: Path) -> None:
    with sm.Writer(tmp_path / "a.tar") as writer:
        writer.write_rows([{"txt": "a"}, {"txt": b"b"}])
    assert [row["txt"] for row in sm.Dataset(tmp_path / "a.tar")] == ["a", "b"]


@pytest.mark.parametrize(
    ("encoding", "value", "found"),
    [
        ("int", b"12345678", int.from_bytes(b"12345678", "little")),
        ("int", b"\xff" * 8, -1),
        ("uint8", b"\xff", 255),
        ("float32", np.float32(0.1).tobytes(), float(np.float32(0.1))),
        ("str", b"abc", "abc"),
        ("json", b"[1]", [1]),
        ("ndarray:int8:2,2", b"abcd", [[97, 98], [99, 100]]),
    ],
)
def test_bytes_pass_through_an_encoding_of_mds(
    tmp_path: Path, encoding: str, value: bytes, found: Any
) -> None:
    with sm.Writer(tmp_path, format="mds", columns={"x": encoding}) as writer:
        writer.write({"x": value})
    assert next(iter(sm.Dataset(tmp_path)))["x"] == found


@pytest.mark.parametrize("encoding", ["int", "uint8", "float16"])
def test_bytes_of_another_length_are_refused(tmp_path: Path, encoding: str) -> None:
    with (
        pytest.raises(sm.FormatError, match="row 0 has the value b'123' in column 'x'"),
        sm.Writer(tmp_path, format="mds", columns={"x": encoding}) as writer,
    ):
        writer.write({"x": b"123"})


def test_rows_without_any_column_are_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(ValueError, match="no columns"),
        sm.Writer(tmp_path / "out", format="parquet") as writer,
    ):
        writer.write({})
        writer.write({})


VALUES = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1) | st.none(), min_size=1),
    st.lists(st.floats(allow_nan=False) | st.none(), min_size=1),
    st.lists(st.lists(st.integers(-(2**31), 2**31 - 1)), min_size=1),
    st.lists(
        st.fixed_dictionaries({"a": st.integers(0, 9), "b": st.text() | st.none()}), min_size=1
    ),
    st.lists(
        st.datetimes(dt.datetime(1990, 1, 1), dt.datetime(2100, 1, 1)) | st.none(), min_size=1
    ),
    st.lists(st.dates() | st.none(), min_size=1),
    st.lists(st.booleans() | st.none(), min_size=1),
)


@settings(max_examples=examples(60), deadline=None)
@given(values=VALUES)
def test_values_of_one_kind_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, values: list[Any]
) -> None:
    out = tmp_path_factory.mktemp("kinds") / "out"
    with sm.Writer(out, format="parquet") as writer:
        writer.write_rows({"x": value} for value in values)
    assert [row["x"] for row in sm.Dataset(out)] == values


@pytest.mark.parametrize("format", ["parquet", "jsonl", "webdataset", "mds"])
def test_two_columns_of_one_name_are_refused_before_anything_is_written(
    tmp_path: Path, format: str
) -> None:
    table = pa.Table.from_arrays([pa.array([1, 2]), pa.array([3, 4])], names=["a", "a"])
    for options in ({}, {"columns": ["a"]}):
        with (
            pytest.raises(sm.FormatError, match="two columns have the name 'a'"),
            sm.Writer(tmp_path / "out", format=format, **options) as writer,
        ):
            writer.write_batch(table)
    assert list(tmp_path.iterdir()) == []
