"""Types have one name wherever they are printed: pyarrow's without the names of list items."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from hypothesis import given
from hypothesis import strategies as st
from shardmill._native.formats import type_names
from shardmill.cli._commands import run
from shardmill.data._type_names import type_name

FLAT = [
    *(pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.float16(), pa.float32(), pa.float64()),
    *(
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.binary(),
        pa.large_binary(),
        pa.binary_view(),
    ),
    *(
        pa.binary(16),
        pa.date32(),
        pa.date64(),
        pa.time32("s"),
        pa.time32("ms"),
        pa.time64("us"),
        pa.time64("ns"),
    ),
    *(
        pa.duration("us"),
        pa.timestamp("s"),
        pa.timestamp("ns", tz="Europe/Berlin"),
        pa.timestamp("us", tz="UTC"),
    ),
    *(
        pa.month_day_nano_interval(),
        pa.decimal32(5, 2),
        pa.decimal64(10, 0),
        pa.decimal128(38, -2),
        pa.decimal256(40, 3),
    ),
    *(pa.uuid(), pa.json_()),
]
NAMES = st.sampled_from(["a", "b c", "é"])


def field(name: str, data_type: pa.DataType, nullable: bool) -> pa.Field:
    return pa.field(name, data_type, nullable or pa.types.is_null(data_type))


def nested(of: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    fields = st.builds(field, NAMES, of, st.booleans())
    items = st.builds(field, st.just("item"), of, st.booleans())
    return st.one_of(
        *(
            st.builds(kind, items)
            for kind in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view)
        ),
        st.builds(pa.list_, items, st.integers(1, 4)),
        st.builds(pa.struct, st.lists(fields, max_size=3, unique_by=lambda field: field.name)),
        st.builds(pa.map_, st.just(pa.string()), of, st.booleans()),
        st.builds(
            lambda data_type: pa.run_end_encoded(pa.int32(), data_type), st.sampled_from(FLAT[:20])
        ),
        st.builds(lambda data_type: pa.dense_union([pa.field("a", data_type)], [5]), of),
        st.builds(lambda data_type: pa.sparse_union([pa.field("a", data_type)]), of),
    )


@given(st.recursive(st.sampled_from(FLAT), nested, max_leaves=4))
def test_a_type_is_named_as_by_pyarrow(data_type: pa.DataType) -> None:
    assert type_name(data_type) == re.sub(r"((?:list|list_view)<)item: ", r"\1", str(data_type))


def test_a_dictionary_is_named_by_its_values_and_indices() -> None:
    assert (
        type_name(pa.dictionary(pa.int8(), pa.string()))
        == "dictionary<values=string, indices=int8>"
    )


def test_columns_have_one_type_in_all_output(tmp_path, capsys) -> None:
    columns = {
        "s": (pa.string(), ["a"]),
        "l": (pa.list_(pa.float64()), [[1.0]]),
        "t": (pa.timestamp("us"), [5]),
        "d": (pa.decimal128(5, 2), [None]),
        "r": (pa.struct([("x", pa.int8())]), [{"x": 1}]),
    }
    table = pa.table(
        {name: pa.array(values, data_type) for name, (data_type, values) in columns.items()}
    )
    path = str(tmp_path / "a.parquet")
    pq.write_table(table, path)
    names = ["string", "list<double>", "timestamp[us]", "decimal128(5, 2)", "struct<x: int8>"]
    assert type_names(sm.Dataset(path).schema) == names
    for command in ("inspect", "head"):
        assert run([command, path]) == 0
        shown = capsys.readouterr().out
        assert [name for name in names if name not in shown] == [], command
    for name, named in zip(columns, names, strict=True):
        with pytest.raises(sm.Error, match=re.escape(f"`{name}` is {named};")):
            sm.Dataset(path, filter=f"{name} = true")


def test_a_failed_cast_names_types_alike(tmp_path) -> None:
    pq.write_table(pa.table({"x": [[1]]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": pa.array([[[1]]])}), tmp_path / "b.parquet")
    with pytest.raises(
        sm.Error, match=re.escape("list<int64>") + ".*" + re.escape("list<list<int64>>")
    ):
        sm.Dataset(tmp_path)


def test_rust_prints_no_type_by_its_own_name() -> None:
    """Errors go through `type_name`; `Display` of a Rust type has the names of Rust."""
    root = Path(__file__).parents[2]
    variant = re.compile(
        r"#\[error\((?P<message>(?:[^\]\"]|\"(?:[^\"\\]|\\.)*\")*)\)\]"
        r"\s*\w+\s*\{(?P<fields>[^}]*)\}",
        # A long message has a backslash at the end of a line.
        re.DOTALL,
    )
    printed = []
    for file in (*root.glob("crates/*/src/**/*.rs"), *root.glob("python/src/**/*.rs")):
        text = file.read_text(encoding="utf-8").partition("#[cfg(test)]")[0]
        printed += [
            f"{file.name}: {found}"
            for found in re.findall(r".*data_type\(\)\.to_string\(\).*", text)
        ]
        for found in variant.finditer(text):
            names = re.findall(r"(\w+): (?:Box<)?DataType", found["fields"])
            printed += [
                f"{file.name}: {name}" for name in names if "{" + name + "}" in found["message"]
            ]
    assert not printed
