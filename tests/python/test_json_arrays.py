"""JSON arrays of objects as rows, held against the json module, pyarrow and polars.

Also files that are neither lines nor such an array.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
import zstandard
from breadth import examples, in_one
from hypothesis import given, settings
from hypothesis import strategies as st
from shardmill.curate import ParquetSink, Pipeline, TableSource

ROWS = [
    {"id": number, "text": f'a "{number}" ]}},{{[ \\', "inner": {"x": [number, 1], "y": "é\n"}}
    for number in range(500)
]


def rows_of(path: Any, **options: Any) -> list[dict[str, Any]]:
    return list(sm.Dataset(path, **options))


@pytest.mark.parametrize("indent", [None, 0, 2, "\t"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf", b"\n \r\n"])
def test_array_is_read_like_lines(tmp_path: Path, indent: Any, mark: bytes) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(mark + json.dumps(ROWS, indent=indent).encode() + b"\n")
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    array, lines = sm.Dataset(path), sm.Dataset(tmp_path / "a.jsonl")
    assert array.schema.equals(lines.schema)
    assert list(array) == list(lines) == ROWS
    assert array[499] == ROWS[499]
    loader = sm.Loader(path, batch_size=64, shuffle=True, output="rows")
    assert sorted((row for batch in loader for row in batch), key=lambda row: row["id"]) == ROWS


@pytest.mark.parametrize("name", ["a.json.gz", "a.jsonl.gz", "a.json.zst", "a.jsonl"])
def test_compressed_arrays_and_other_names_are_read(tmp_path: Path, name: str) -> None:
    content = json.dumps(ROWS, indent=1).encode()
    pack = {"gz": gzip.compress, "zst": zstandard.compress}.get(name.rpartition(".")[2], bytes)
    (tmp_path / name).write_bytes(pack(content))
    assert rows_of(tmp_path / name) == ROWS


def test_other_readers_read_the_same_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(ROWS))
    assert rows_of(path) == pl.read_json(path).to_dicts()


def test_large_array_is_cut_into_blocks_that_follow_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    rows = [{"id": number, "text": "x" * 1000} for number in range(20_000)]
    path.write_text(json.dumps(rows))
    explained = sm.Dataset(path)
    assert len(explained) == 20_000
    assert [row["id"] for row in explained] == list(range(20_000))
    first = sm.Loader(
        path, batch_size=777, shuffle=True, seed=3, output="numpy", columns=["id"], lanes=1
    )
    batches = iter(first)
    seen = [id for _ in range(9) for id in next(batches)["id"].tolist()]
    second = sm.Loader(
        path,
        batch_size=1000,
        shuffle=True,
        seed=3,
        output="numpy",
        columns=["id"],
        runtime=sm.Runtime(threads=1),
    )
    second.load_state_dict(first.state_dict())
    assert sorted(seen + [id for batch in second for id in batch["id"].tolist()]) == list(
        range(20_000)
    )


@pytest.mark.parametrize("content", ["[]", " [ \n ] \n", "[\n]"])
def test_empty_array_has_no_rows(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)
    assert len(sm.Dataset(tmp_path / "a.json")) == 0


def test_objects_without_fields_are_rows_without_columns(tmp_path: Path) -> None:
    for content in ("[{}, { }]", "{}\n{ }\n"):
        (tmp_path / "a.json").write_text(content)
        assert rows_of(tmp_path / "a.json") == [{}, {}]


BROKEN = {
    "cut": ('[{"a": 1}, {"a": 2}', "ends before the array does"),
    "cut_in_text": ('[{"a": "x', "ends before the array does"),
    "open": ("[", "ends before the array does"),
    "cut_after_comma": ('[{"a": 1},\n', "ends before the array does"),
    "trailing_comma": ('[{"a": 1},\n]', "line 2.*after the comma"),
    "no_comma": ('[{"a": 1}\n{"a": 2}]', "line 2.*comma or the end"),
    "leading_comma": ('[,{"a": 1}]', "expected a value|not valid JSON"),
    "garbage_after": ('[{"a": 1}]\n{"a": 2}', "line 2.*nothing after the array"),
    "two_arrays": ('[{"a": 1}][{"a": 2}]', "nothing after the array"),
    "numbers": ("[1, 2]", "(?i)line 1.*not an object"),
    "numbers_on_lines": ("[\n1,\n2\n]", "line 2.*not an object"),
    "arrays": ("[\n[1],\n[2]\n]", "line 2.*not an object"),
    "null_element": ('[{"a": 1},\nnull]', "line 2.*not an object"),
    "bad_element": ('[{"a": 1},\n{"a": }]', "line 2.*expected a value"),
    "literal": ('[{"a": 1}, nope]', "not valid|not an object"),
    "pretty_object": (json.dumps({"a": 1, "b": [1]}, indent=2), "Line 1"),
    "pretty_objects": (json.dumps({"a": 1}, indent=2) * 2, "Line 1"),
    "scalar": ("1\n", "Line 1"),
    "string": ('"text"\n', "Line 1"),
    "lines_of_arrays": ("[1, 2]\n[3, 4]\n", "Line 1.*not an object"),
    "html": ("<html>\n</html>\n", "Line 1"),
    "late_array": ('{"a": 1}\n[1, 2]\n', "Line 2.*not an object"),
}


@in_one("extension", ["json", "jsonl", "json.gz"])
@in_one("case", BROKEN)
def test_what_is_neither_lines_nor_an_array_is_an_error_with_its_place(
    tmp_path: Path, case: str, extension: str
) -> None:
    content, message = BROKEN[case]
    path = tmp_path / f"a.{extension}"
    path.write_bytes(
        gzip.compress(content.encode()) if extension.endswith("gz") else content.encode()
    )
    with pytest.raises(ValueError, match=message) as raised:
        rows_of(path)
    assert str(path) in str(raised.value)
    assert "hint:" in str(raised.value)
    with pytest.raises(ValueError, match=message):
        list(sm.Loader(path, output="rows", batch_size=10))
    with pytest.raises(ValueError, match=message):
        pipeline = Pipeline(
            source=TableSource(str(path)), stages=[], sink=ParquetSink(str(tmp_path / "out"))
        )
        pipeline.run(progress=False)


def test_policy_for_bad_lines_applies_to_elements(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('[{"a": 1},\n[2],\n{"a": },\n{"a": 3}]')
    assert rows_of(path, errors=sm.ErrorPolicy(lines="skip")) == [{"a": 1}, {"a": 3}]
    assert rows_of(path, errors=sm.ErrorPolicy(lines="null")) == [
        {"a": 1},
        {"a": None},
        {"a": None},
        {"a": 3},
    ]
    path.write_text('[{"a": 1}')
    for policy in ("skip", "null"):
        with pytest.raises(ValueError, match="ends before the array does"):
            rows_of(path, errors=sm.ErrorPolicy(lines=policy))


def test_no_row_appears_from_a_file_of_which_nothing_could_be_inferred(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{\n"a": 1\n}\n')
    for policy in ("raise", "null"):
        with pytest.raises(ValueError, match="Line 1"):
            sm.Dataset(path, errors=sm.ErrorPolicy(lines=policy))
    assert len(sm.Dataset(path, errors=sm.ErrorPolicy(lines="skip"))) == 0


@pytest.fixture
def parquet(tmp_path: Path) -> bytes:
    pq.write_table(pa.table({"x": list(range(100))}), tmp_path / "whole.parquet")
    return (tmp_path / "whole.parquet").read_bytes()


@pytest.mark.parametrize(
    "name", ["a.json", "a.jsonl", "a.csv", "a.orc", "a.array_record", "a.tar", "a.mds"]
)
@pytest.mark.parametrize("options", [{}, {"errors": sm.ErrorPolicy(lines="skip")}])
def test_parquet_of_another_name_is_an_error_that_says_so(
    tmp_path: Path, parquet: bytes, name: str, options: dict[str, Any]
) -> None:
    (tmp_path / name).write_bytes(parquet)
    with pytest.raises((ValueError, RuntimeError), match="Parquet") as raised:
        sm.Dataset(tmp_path / name, **options)
    assert name in str(raised.value)
    if not options:
        dataset = sm.Dataset(
            [tmp_path / name, tmp_path / name], errors=sm.ErrorPolicy(files="skip")
        )
        assert [path for path, _ in dataset.skipped] == [str(tmp_path / name)] * 2


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"a,b\n1,2\n", "text"),
        (b'{"a": 1}\n', "JSON"),
        (gzip.compress(b"a,b\n1,2\n" * 100, mtime=0), "gzip"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "PNG"),
    ],
)
@pytest.mark.parametrize("name", ["a.parquet", "a.orc", "a.array_record"])
def test_other_bytes_of_a_name_are_named(
    tmp_path: Path, name: str, content: bytes, found: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises((ValueError, RuntimeError), match=f"look like .*{found}") as raised:
        sm.Dataset(tmp_path / name)
    assert name in str(raised.value)


def test_command_line_reads_and_converts_arrays(tmp_path: Path) -> None:
    source, target = tmp_path / "a.json", tmp_path / "a.parquet"
    rows = [{"id": row["id"], "text": row["text"]} for row in ROWS]
    source.write_text(json.dumps(rows, indent=2))
    command = [sys.executable, "-m", "shardmill"]
    subprocess.run(
        [*command, "convert", str(source), str(target), "--no-progress"],
        check=True,
        capture_output=True,
    )
    assert pq.read_table(target).to_pylist() == rows
    head = subprocess.run(
        [*command, "head", str(source), "--json"], check=True, capture_output=True, text=True
    )
    assert json.loads(head.stdout.splitlines()[0]) == rows[0]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=examples(150), deadline=None)
@given(
    values=st.lists(
        st.fixed_dictionaries({"n": st.integers(0, 9), "json": VALUES.map(json.dumps)}), max_size=8
    ),
    indent=st.sampled_from([None, 0, 3]),
    ascii=st.booleans(),
    data=st.data(),
)
def test_arrays_are_what_the_json_module_makes_of_them_and_cuts_are_errors(
    tmp_path_factory: pytest.TempPathFactory,
    values: list[Any],
    indent: Any,
    ascii: bool,
    data: st.DataObject,
) -> None:
    path = tmp_path_factory.mktemp("arrays") / "a.json"
    text = json.dumps(values, indent=indent, ensure_ascii=ascii).encode("utf-8", "surrogatepass")
    path.write_bytes(text)
    assert rows_of(path) == values
    cut = data.draw(st.integers(1, len(text) - 1))
    path.write_bytes(text[:cut])
    with pytest.raises(ValueError, match="array"):
        rows_of(path)
