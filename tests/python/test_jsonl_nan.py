"""Numbers of JSON that are not finite, and values whose type only a schema decides.

Held against the json module.
"""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import shardmill as sm
from breadth import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from shardmill.curate import ParquetSink, Pipeline, TableSource

NAMES = ["NaN", "Infinity", "-Infinity"]


def write(path: Path, text: str) -> Path:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def shown(value: Any) -> str:
    """NaN equals itself as text."""
    return repr(value)


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.jsonl.gz"])
@settings(max_examples=examples(60), deadline=None)
@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {
                "x": st.none() | st.floats() | st.integers(-9, 9),
                "y": st.lists(st.none() | st.floats(), min_size=1),
            }
        ),
        min_size=1,
    )
)
def test_floats_are_what_the_json_module_reads(
    tmp_path_factory: pytest.TempPathFactory, name: str, rows: list[dict[str, Any]]
) -> None:
    rows = [{"x": 0.5, "y": [0.5]}, *rows]
    lines = [json.dumps(row) for row in rows]
    text = f"[{','.join(lines)}]" if name == "a.json" else "\n".join(lines)
    path = write(tmp_path_factory.mktemp("rows") / name, text)
    expected = [json.loads(line) for line in lines]
    expected = [
        {"x": None if row["x"] is None else float(row["x"]), "y": row["y"]} for row in expected
    ]
    dataset = sm.Dataset(path)
    assert dataset.schema == pa.schema([("x", pa.float64()), ("y", pa.list_(pa.float64()))])
    assert shown(list(dataset)) == shown(expected)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("column", ["score", "list"])
def test_late_names_make_a_column_of_integers_double(
    tmp_path: Path, name: str, column: str
) -> None:
    lines = [f'{{"score": {row}, "list": [{row}], "pad": "{"x" * 60}"}}\n' for row in range(30_000)]
    late = {
        "score": f'{{"score": {name}, "list": [1]}}\n',
        "list": f'{{"list": [1.0, {name}], "score": 1}}\n',
    }[column]
    path = write(tmp_path / "a.jsonl", "".join([*lines, late]))
    dataset = sm.Dataset(path, columns=[column])
    wanted = {"score": pa.float64(), "list": pa.list_(pa.float64())}[column]
    assert dataset.schema.field(column).type == wanted
    assert shown(dataset[-1]) == shown({column: json.loads(late)[column]})


@pytest.mark.parametrize("name", NAMES)
def test_names_are_values_of_float_types_and_errors_of_others(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "a.jsonl", f'{{"a": 1}}\n{{"a": {name}}}\n')
    for kind in (pa.float32(), pa.float64()):
        (batch,) = sm.Loader(sm.Dataset(path, schema=pa.schema([("a", kind)])), output="numpy")
        assert batch["a"].dtype == kind.to_pandas_dtype()
        assert shown(batch["a"].tolist()) == shown([1.0, float(name)])
    for kind, called in (
        (pa.int64(), "int64"),
        (pa.decimal128(9, 2), r"decimal128\(9, 2\)"),
        (pa.bool_(), "bool"),
    ):
        text = "true" if called == "bool" else "1"
        write(path, f'{{"a": {text}}}\n{{"a": {name}}}\n')
        with pytest.raises(
            sm.FormatError, match=rf"Line 2 of .*`{name}` in column `a` is not a valid {called}"
        ):
            list(sm.Dataset(path, schema=pa.schema([("a", kind)])))


def test_given_strings_are_the_text_of_mixed_values(tmp_path: Path) -> None:
    values = [
        "5",
        '"A"',
        "true",
        "1.50",
        "-0",
        "1E5",
        "NaN",
        "-Infinity",
        "null",
        '"a\\n"',
        "123456789012345678901",
    ]
    path = write(
        tmp_path / "a.jsonl",
        "".join(f'{{"x": {value}, "s": {{"y": [{value}]}}}}\n' for value in values),
    )
    schema = pa.schema([("x", pa.string()), ("s", pa.struct([("y", pa.list_(pa.large_string()))]))])
    expected = [json.loads(value) if value[0] in 'n"' else value for value in values]
    table = pa.table(sm.Dataset(path, schema=schema))
    assert table["x"].to_pylist() == expected
    assert table["s"].to_pylist() == [{"y": [value]} for value in expected]
    Pipeline(
        source=TableSource(path, schema=schema), stages=[], sink=ParquetSink(tmp_path / "out")
    ).run(progress=False)
    assert pa.table(sm.Dataset(tmp_path / "out"))["x"].to_pylist() == expected


@pytest.mark.parametrize(
    "text", ["nan", "-NaN", "Inf", "+Infinity", "NaNs", "Infinityy", "1NaN", "NAN"]
)
def test_other_names_are_errors_for_both(tmp_path: Path, text: str) -> None:
    line = f'{{"a": {text}}}'
    with pytest.raises(json.JSONDecodeError, match="line 1"):
        json.loads(line)
    path = write(tmp_path / "a.jsonl", '{"a": 0.5}\n' + line)
    with pytest.raises(sm.FormatError, match=r"Line 2 of .* is not valid JSON at byte"):
        list(sm.Dataset(path))


@pytest.mark.parametrize("name", NAMES)
def test_names_can_be_errors_with_a_place(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "a.jsonl", f'{{"a": {{"b": [1.5]}}}}\n{{"a": {{"b": [2, {name}]}}}}\n')
    text = sm.TextOptions(nan="raise")
    with pytest.raises(
        sm.FormatError,
        match=rf"Line 2 of .*`{name}` in column `a.b\[1\]` is not a valid double\nhint:",
    ):
        list(sm.Dataset(path, text=text))
    with pytest.raises(sm.FormatError, match=rf"Line 2 of .*`{name}` in column"):
        source = TableSource(path, text=text)
        Pipeline(source=source, stages=[], sink=ParquetSink(tmp_path / "out")).run(progress=False)
    rows = list(sm.Dataset(path, text=text, errors=sm.ErrorPolicy(lines="null")))
    assert rows == [{"a": {"b": [1.5]}}, {"a": {"b": [2.0, None]}}]
    assert len(sm.Dataset(path, text=text, errors=sm.ErrorPolicy(lines="skip"))) == 1


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_json_of_a_tar_is_read_with_names_and_written_without(tmp_path: Path, value: float) -> None:
    with sm.Writer(tmp_path / "a.tar") as writer:
        writer.write({"json": json.dumps({"a": [value]}).encode()})
    assert shown(sm.Dataset(tmp_path / "a.tar")[0]["json"]) == shown({"a": [value]})
    with pytest.raises(sm.FormatError, match=r"`000000000.json` .*not valid JSON"):
        list(sm.Dataset(tmp_path / "a.tar", text=sm.TextOptions(nan="raise")))
    for name in ("b.tar", "b.jsonl"):
        with (
            pytest.raises(
                sm.FormatError,
                match=r"(?s)[Rr]ow 1 has .*column ['`]json['`].*JSON has no.*\nhint: ",
            ),
            sm.Writer(tmp_path / name) as writer,
        ):
            writer.write({"json": {"a": 0.5}})
            writer.write({"json": {"a": value}})
        assert not (tmp_path / name).exists()


@pytest.mark.parametrize(
    ("lines", "line", "value"),
    [
        (["123456789012345678901234567890"], 1, "123456789012345678901234567890"),
        (["18446744073709551615", "-1"], 1, "18446744073709551615"),
        (["-1", "1", "18446744073709551615"], 3, "18446744073709551615"),
    ],
)
def test_integers_that_no_type_holds_are_named_and_a_schema_reads_them(
    tmp_path: Path, lines: list[str], line: int, value: str
) -> None:
    path = write(tmp_path / "a.jsonl", "".join(f'{{"a": {text}}}\n' for text in lines))
    reason = (
        rf"Line {line} of `.*a\.jsonl`: "
        rf"column `a` has the integer `{value}`, which double rounds, and no integer type"
    )
    with pytest.raises(
        sm.FormatError, match=rf"{reason}.*\nhint: .*`schema`: string.*decimal128\(38, 0\).*double"
    ):
        list(sm.Dataset(path))
    for kind, read in ((pa.string(), str), (pa.decimal128(38, 0), int), (pa.float64(), float)):
        rows = list(sm.Dataset(path, schema=pa.schema([("a", kind)])))
        assert [read(row["a"]) for row in rows] == [read(text) for text in lines]
