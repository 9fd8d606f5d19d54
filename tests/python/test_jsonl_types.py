"""JSONL fields whose first values do not show their type.

A field, a fraction or a value comes after the sample that types are inferred from.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Literal

import polars as pl
import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import covering, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from shardmill.curate import ParquetSink, Pipeline, TableSource
from shardmill.errors import FormatError

LATE = 3_100
"""Rows are about 400 bytes long, and the sample of a file ends after 1 MiB."""

Row = dict[str, Any]


def rows_with(late: Row, *, first: Row | None = None, after: int = 20) -> list[Row]:
    """Rows whose other values look like what the scan for late values searches for."""
    text = '2-1, 3.5 [1.5, "score": 0.5' * 10
    rows: list[Row] = [
        {"id": row, "text": text, "half": row / 2, "vector": [0.5, row + 0.25]}
        | (first or {"score": row % 2})
        for row in range(LATE + after)
    ]
    rows[LATE] |= late
    return rows


def write(path: Path, rows: list[Row], *, indent: int | None = None) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        json.dumps(rows, indent=indent)
        if path.suffix == ".json"
        else "".join(json.dumps(row) + "\n" for row in rows)
    )
    return path


@pytest.mark.parametrize("value", [0.5, -0.25, 1e-7, 1e300])
def test_integers_with_a_late_fraction_are_floats_in_every_row(
    tmp_path: Path, value: float
) -> None:
    rows = rows_with({"score": value})
    path = write(tmp_path / "a.jsonl", rows)
    for threads in (1, 2):
        dataset = sm.Dataset(path)
        assert dataset.schema.field("score").type == pa.float64()
        assert dataset.schema.field("id").type == pa.int64()
        batches = list(
            sm.Loader(dataset, batch_size=500, output="arrow", runtime=sm.Runtime(threads=threads))
        )
        assert pa.Table.from_batches(batches).column("score").to_pylist() == [
            row["score"] for row in rows
        ]
    oracle = pl.read_ndjson(path, infer_schema_length=None)
    assert [row["score"] for row in dataset] == oracle["score"].to_list()
    assert [row["id"] for row in sm.Dataset(path, filter=sm.col("score") == value)] == [LATE]


@pytest.mark.parametrize("place", [0, 1])
def test_a_late_fraction_in_any_file_decides_for_all(tmp_path: Path, place: int) -> None:
    files = [rows_with({}), rows_with({})]
    files[place][LATE]["score"] = 0.5
    for number, rows in enumerate(files):
        write(tmp_path / "in" / f"{number}.jsonl", rows)
    expected = [float(row["score"]) for rows in files for row in rows]
    dataset = sm.Dataset(tmp_path / "in")
    assert dataset.schema.field("score").type == pa.float64()
    assert [row["score"] for row in dataset] == expected
    Pipeline(
        source=TableSource(tmp_path / "in"), stages=[], sink=ParquetSink(str(tmp_path / "out"))
    ).run()
    # Files are split into several outputs, each with the types of its own rows.
    assert [row["score"] for row in sm.Dataset(tmp_path / "out")] == expected
    command = [
        sys.executable,
        "-m",
        "shardmill",
        "convert",
        str(tmp_path / "in"),
        str(tmp_path / "one.parquet"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    assert pq.read_table(tmp_path / "one.parquet").column("score").to_pylist() == expected


@pytest.mark.parametrize("name", ["a.json", "a.jsonl.gz"])
def test_arrays_and_compressed_files_are_looked_through_as_well(tmp_path: Path, name: str) -> None:
    rows = rows_with({"score": 0.5})
    path = write(tmp_path / name.removesuffix(".gz"), rows, indent=1)
    if name.endswith(".gz"):
        (tmp_path / name).write_bytes(gzip.compress(path.read_bytes(), 1))
        path.unlink()
    assert [row["score"] for row in sm.Dataset(tmp_path / name)] == [row["score"] for row in rows]


@pytest.mark.parametrize(
    ("first", "late", "expected"),
    [
        ({"a": None}, {"a": 5}, pa.int64()),
        ({"a": None}, {"a": 0.5}, pa.float64()),
        ({"a": None}, {"a": "x"}, pa.string()),
        ({"a": None}, {"a": {"b": [1]}}, pa.struct([("b", pa.list_(pa.int64()))])),
        ({"a": []}, {"a": ["x"]}, pa.list_(pa.string())),
        ({"a": 1}, {"a": 2**64 - 1}, pa.uint64()),
        ({"a": -1}, {"a": 2**64}, pa.float64()),
        ({"a": [1]}, {"a": [2, 2**63]}, pa.list_(pa.uint64())),
        ({"a": [1, 2]}, {"a": [1, None, 2.5]}, pa.list_(pa.float64())),
        ({"a": [[1], [2, 3]]}, {"a": [[1], [2.5]]}, pa.list_(pa.list_(pa.float64()))),
        ({"a": {"b": 1}}, {"a": {"b": 0.5}}, pa.struct([("b", pa.float64())])),
        ({"a": [{"b": 1}]}, {"a": [{"b": 0.5}]}, pa.list_(pa.struct([("b", pa.float64())]))),
    ],
    ids=str,
)
def test_late_values_complete_the_type(
    tmp_path: Path, first: Row, late: Row, expected: pa.DataType
) -> None:
    rows = rows_with(late, first=first)
    path = write(tmp_path / "a.jsonl", rows)
    dataset = sm.Dataset(path)
    assert dataset.schema.field("a").type == expected
    assert dataset.take(range(LATE - 2, LATE + 2)).column("a").to_pylist() == [
        row["a"] for row in rows[LATE - 2 : LATE + 2]
    ]


@pytest.mark.parametrize(
    ("late", "named"),
    [
        ({"score": "high"}, '"high"` in column `score` is not a valid int64'),
        ({"score": True}, "true` in column `score` is not a valid int64"),
        ({"text": 1}, "1` in column `text` is not a valid string"),
    ],
    ids=str,
)
def test_late_values_of_another_kind_are_errors_where_they_are_read(
    tmp_path: Path, late: Row, named: str
) -> None:
    path = write(tmp_path / "a.jsonl", rows_with(late))
    with pytest.raises(FormatError, match=rf"(?s)Line {LATE + 1} of .*a\.jsonl.*{named}.*`schema`"):
        list(sm.Loader(path, output="arrow"))


def test_integer_that_float64_would_round_is_an_error_with_its_line(tmp_path: Path) -> None:
    rows = rows_with({"score": 0.5})
    rows[7]["score"] = 2**53 + 1
    path = write(tmp_path / "a.jsonl", rows)
    with pytest.raises(
        FormatError,
        match=r"Line 8 of .*a\.jsonl`: "
        rf"column `score` has the integer `{2**53 + 1}`, which double rounds",
    ):
        list(sm.Loader(path, output="arrow"))
    schema = pa.schema([("score", pa.float64())])
    assert sm.Dataset(path, schema=schema)[7] == {"score": float(2**53)}, "as the user said"


LATE_FIELDS = [
    ({"a": 1}, {"new": 1}),
    ({"a": 1}, {"new": {"b": [{"c": "x"}]}, "a": None}),
    ({"a": {"b": 1}}, {"a": {"b": 1, "new": 2}}),
    ({"a": {"b": 1}}, {"a": {"b": 1, "id": 2}}),
    ({"a": {"b": 1}}, {"b": "x"}),
    ({"a": {}}, {"a": {"new": 2}}),
    ({"a": [{"b": 1}]}, {"a": [{"b": 1}, {"b": 2, "new": "x"}]}),
    ({"a": [{"b": {"c": 1}}]}, {"a": [{"b": {"new": [1], "c": 1}}]}),
    ({"a": None}, {"a": {"b": 1, "c": {"d": 0.5}}}),
]


@covering(1, name=["a.jsonl", "a.json", "a.jsonl.gz"], fields=LATE_FIELDS)
def test_late_fields_join_the_schema_and_are_null_before(
    tmp_path: Path, fields: tuple[Row, Row], name: str
) -> None:
    first, late = fields
    rows = rows_with(late, first=first)
    path = write(tmp_path / name.removesuffix(".gz"), rows)
    read_by_polars = pl.read_json if name == "a.json" else pl.read_ndjson
    oracle = read_by_polars(path, infer_schema_length=None)
    if name.endswith(".gz"):
        path = path.with_name(name)
        path.write_bytes(gzip.compress((tmp_path / "a.jsonl").read_bytes(), 1))
    dataset = sm.Dataset(path)
    assert dataset.schema.names == oracle.columns
    assert pl.DataFrame(dataset.take(range(LATE - 1, LATE + 2))).equals(oracle[LATE - 1 : LATE + 2])
    known = sm.Dataset(path, schema=pa.schema([("id", pa.int64())]))
    assert known[LATE] == {"id": LATE}, "as the user said"


def test_all_rows_with_late_fields_are_those_of_pyarrow(tmp_path: Path) -> None:
    rows = rows_with({"new": 1, "a": {"b": 3, "new": None}}, first={"a": {"b": 1}})
    rows[LATE + 1] |= {"a": {"new": 0.5}, "new": 2.5}
    path = write(tmp_path / "a.jsonl", rows)
    oracle = pa.json.read_json(path, read_options=pa.json.ReadOptions(block_size=1 << 24))
    for threads in (1, 2):
        batches = sm.Loader(
            path, batch_size=500, output="arrow", runtime=sm.Runtime(threads=threads)
        )
        assert pa.Table.from_batches(list(batches)).equals(oracle)
    filtered = sm.Dataset(path, filter="new > 1 or a.new is not null", columns=["id", "a.new"])
    assert list(filtered) == [{"id": LATE + 1, "a.new": 0.5}]


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 1])
def test_late_fields_of_any_file_are_columns_of_all(tmp_path: Path, place: int) -> None:
    files = [rows_with({}), rows_with({})]
    files[place][LATE] |= {"new": {"b": "x"}}
    for number, rows in enumerate(files):
        write(tmp_path / "in" / f"{number}.jsonl", rows)
    expected = [row.get("new") for rows in files for row in rows]
    assert [row["new"] for row in sm.Dataset(tmp_path / "in")] == expected
    Pipeline(
        source=TableSource(tmp_path / "in"), stages=[], sink=ParquetSink(str(tmp_path / "out"))
    ).run()
    assert sum(
        pq.read_table(file).num_rows for file in (tmp_path / "out").glob("*.parquet")
    ) == len(expected)
    with_new = [
        file for file in (tmp_path / "out").glob("*.parquet") if "new" in pq.read_schema(file).names
    ]
    assert [
        value for file in with_new for value in pq.read_table(file)["new"].to_pylist() if value
    ] == [{"b": "x"}]


def test_late_fields_of_two_types_are_an_error_with_file_and_line(tmp_path: Path) -> None:
    write(tmp_path / "in" / "0.jsonl", rows_with({"new": 1}))
    write(tmp_path / "in" / "1.jsonl", rows_with({"new": "x"}))
    with pytest.raises(
        FormatError, match=rf'(?s)Line {LATE + 1} of .*1\.jsonl`: `"x"` in column `new` .*`schema`'
    ):
        list(sm.Loader(tmp_path / "in", output="arrow"))


def test_names_that_are_data_are_an_error_with_a_line_once_there_are_too_many(
    tmp_path: Path,
) -> None:
    rows = rows_with({}, first={"a": {"b": 1}}, after=2000)
    for row in rows[LATE:]:
        row["a"] = {f"user {row['id']}": 1}
    path = write(tmp_path / "a.jsonl", rows)
    with pytest.raises(
        FormatError,
        match=r"(?s)Line \d+ of .*a\.jsonl` has the field `a\.user \d+`.*hint: .*`schema`",
    ):
        list(sm.Loader(path, output="arrow"))
    assert sm.Dataset(path, columns=["id"])[LATE] == {"id": LATE}


@pytest.mark.parametrize("policy", ["skip", "null"])
def test_policies_on_bad_lines_see_late_fields(
    tmp_path: Path, policy: Literal["skip", "null"]
) -> None:
    path = write(tmp_path / "a.jsonl", rows_with({"a": {"b": 1, "new": 2}}, first={"a": {"b": 1}}))
    row = sm.Dataset(path, errors=sm.ErrorPolicy(lines=policy))[LATE]
    assert (row["id"], row["a"]) == (LATE, {"b": 1, "new": 2})


def test_policies_on_bad_lines_see_the_late_type(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", rows_with({"score": 0.5}))
    for policy in ("skip", "null"):
        dataset = sm.Dataset(path, errors=sm.ErrorPolicy(lines=policy))
        assert dataset[LATE]["score"] == 0.5


@settings(max_examples=examples(25), deadline=None)
@given(
    late=st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**53), 2**53)),
    at=st.integers(0, 1 << 20),
    separators=st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", "  : ")]),
)
def test_late_fraction_is_found_wherever_it_lies(
    tmp_path_factory: pytest.TempPathFactory, late: float, at: int, separators: tuple[str, str]
) -> None:
    """Chunks of 1 MiB are scanned: a value may lie across the border of two."""
    path = tmp_path_factory.mktemp("late") / "a.jsonl"
    line = json.dumps({"n": 1, "pad": "x" * 1000}, separators=separators) + "\n"
    lines = [line] * ((1 << 20) // len(line) + 2)
    last = json.dumps({"pad": "", "n": late}, separators=separators) + "\n"
    fill = max(0, (1 << 21) - len(line) * len(lines) - len(last) - at % 60 - 30)
    lines += [json.dumps({"pad": "x" * fill, "n": 2}, separators=separators) + "\n", last]
    path.write_text("".join(lines))
    is_fraction = isinstance(late, float)
    dataset = sm.Dataset(path)
    assert dataset.schema.field("n").type == (pa.float64() if is_fraction else pa.int64())
    assert dataset[-1]["n"] == late


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.lists(
        st.lists(json_values, max_size=3) | st.dictionaries(st.text(), json_values, max_size=3),
        min_size=1,
    )
)
def test_objects_and_lists_are_their_json_text_where_the_schema_has_a_string(rows):
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "rows.jsonl"
        path.write_text(
            "".join(
                f'{{"x": {json.dumps(row)} , "s": {{"y":{json.dumps(row)}}}}}\n' for row in rows
            )
        )
        schema = pa.schema([("x", pa.string()), ("s", pa.struct([("y", pa.large_string())]))])
        table = pa.table(sm.Dataset(path, schema=schema))
    # The text itself, so that the types of numbers and the order of keys stay.
    assert table["x"].to_pylist() == [json.dumps(row) for row in rows]
    assert table["s"].to_pylist() == [{"y": json.dumps(row)} for row in rows]


def test_null_policy_stores_nulls_for_values_and_for_lines_that_are_not_json(
    tmp_path: Path,
) -> None:
    lenient = sm.ErrorPolicy(lines="null")
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1, "b": 1}\n{"a": "x", "b": 2}\n{"a": nan, "b": 3, "c": 3}\n[1]\n')
    rows = list(sm.Dataset(path, errors=lenient))
    assert rows == [
        {"a": 1, "b": 1},
        {"a": None, "b": 2},
        {"a": None, "b": None},
        {"a": None, "b": None},
    ]
    path.write_text('{"a": nan}\n')
    with pytest.raises(
        sm.FormatError, match="Line 1 of .* is not valid JSON at byte 7: expected a value"
    ):
        len(sm.Dataset(path, errors=lenient))


@pytest.mark.parametrize("others", ["", '{"text": "good"}\n'])
def test_half_of_a_surrogate_pair_is_named_as_such(tmp_path: Path, others: str) -> None:
    (tmp_path / "x.jsonl").write_text(others + '{"text":"a\\ud800b"}\n')
    with pytest.raises(
        ValueError, match=r"is not valid JSON at byte 11: the escape is half of a surrogate pair"
    ):
        pa.table(sm.Dataset(tmp_path / "x.jsonl"))


@pytest.mark.parametrize("first", ["", '{"a": 1}\n', '{"a": 0.5}\n'])
@pytest.mark.parametrize(
    "number",
    [2**64 + 1, -(2**63) - 1, 10**30 + 1, 10**400],
    ids=lambda number: f"{len(str(number))} digits",
)
def test_integer_beyond_64_bits_that_no_type_holds_is_an_error_and_not_rounded(
    tmp_path: Path, first: str, number: int
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{first}{{"a": {number}}}\n')
    with pytest.raises(
        FormatError,
        match=rf"Line {2 if first else 1} of .*a\.jsonl`: "
        rf"column `a` has the integer `{str(number)[:20]}",
    ):
        list(sm.Dataset(path))


def test_integers_beyond_64_bits_that_float64_holds_are_kept(tmp_path: Path) -> None:
    numbers = [2**64, -(2**70), 10**22, 3 * 2**500]
    (tmp_path / "a.jsonl").write_text("".join(f'{{"a": {number}}}\n' for number in numbers))
    assert [int(row["a"]) for row in sm.Dataset(tmp_path / "a.jsonl")] == numbers
