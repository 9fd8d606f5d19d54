"""Columns that the user fixes, at the source and at the sink (specification §1.6)."""

import json
from typing import Any

import pyarrow as pa
import pytest
from shard_builders import RESERVED, SCHEMA, document, image

TAR = {
    "a.json": {"texts": ["t"], "images": [None, "i.png"], "c": 7, "d": "x"},
    "i.png": image("PNG"),
}
ROWS = document("a", "t", image("PNG"), c=7, d="x")
EXTRAS = [pa.field("c", pa.int64()), pa.field("d", pa.string())]


@pytest.fixture(params=["tar at source", "tar at sink", "rows at source", "rows at sink"])
def run(request: Any, run_tar: Any, run_rows: Any) -> Any:
    """Runs with the given schema options at one of the four places."""

    def go(
        tar: Any = TAR,
        rows: Any = ROWS,
        sink: str = "parquet",
        extras: Any = EXTRAS,
        **options: Any,
    ) -> Any:
        codec, _, place = request.param.split()
        ends = {"source": options} if place == "source" else options
        return (
            run_tar(tar, sink=sink, **ends)
            if codec == "tar"
            else run_rows(rows, extras=extras, sink=sink, **ends)
        )

    return go


def test_strict_schema_gives_exactly_its_columns_in_its_order(run: Any) -> None:
    target = pa.schema(
        [
            ("d", pa.large_string()),
            ("sample_id", pa.string()),
            ("new", pa.float32()),
            ("position", pa.int64()),
            ("modality", pa.string()),
        ]
    )
    outcome = run(schema=target)
    assert outcome.schema.equals(target)
    assert outcome.rows[0] == {
        "d": "x",
        "sample_id": "a",
        "new": None,
        "position": -1,
        "modality": "metadata",
    }
    dropped = outcome.report.to_dict()["keys_dropped"]
    assert {
        "column `c` is not in the schema",
        "column `binary_content` is not in the schema",
    } <= set(dropped)


def test_overrides_change_types_and_add_columns_before_the_last_one(run: Any) -> None:
    outcome = run(
        schema_overrides={"c": pa.string(), "text_content": pa.large_string(), "new": pa.int8()}
    )
    assert outcome.schema.names == [*RESERVED, "c", "d", "new", "rescued"]
    assert [outcome.schema.field(name).type for name in ("c", "text_content", "new")] == [
        pa.string(),
        pa.large_string(),
        pa.int8(),
    ]
    assert (outcome.column("c"), outcome.column("new")) == (["7", None, None], [None] * 3)
    assert outcome.report.to_dict()["keys_dropped"] == {}


@pytest.mark.parametrize(
    ("name", "kind"), [("d", pa.int32()), ("c", pa.timestamp("us")), ("d", pa.float64())]
)
def test_cast_that_does_not_fit_is_an_error_that_names_the_column(
    run: Any, name: str, kind: Any
) -> None:
    if kind == pa.timestamp("us"):
        assert run(schema_overrides={name: kind}).schema.field(name).type == kind
        return
    with pytest.raises(ValueError, match=f"`{name}`"):
        run(schema_overrides={name: kind})


@pytest.mark.parametrize(
    ("value", "kind"), [(300, pa.int8()), (-1, pa.uint64()), ((1 << 53) + 1, pa.float64())]
)
def test_overflow_and_rounding_are_errors(run: Any, value: int, kind: Any) -> None:
    with pytest.raises(ValueError, match="`c`"):
        run(tar={"a.json": {"c": value}}, rows=document("a", c=value), schema_overrides={"c": kind})


LISTS = {"v": [["a"], [], None], "w": {"x": [1.5], "y": "z"}}


def test_declared_lists_and_structs_are_read_from_json(run: Any) -> None:
    lists = pa.list_(pa.list_(pa.string()))
    struct = pa.struct([("x", pa.list_(pa.float32())), ("y", pa.string())])
    is_json = {"content_type": "application/json"}
    texts = {name: json.dumps(value) for name, value in LISTS.items()}
    given = {
        "tar": {"a.json": LISTS},
        "rows": document("a", **texts),
        "extras": [pa.field(name, pa.string(), metadata=is_json) for name in LISTS],
    }
    outcome = run(**given, schema_overrides={"v": lists, "w": struct})
    assert [outcome.schema.field(name).type for name in LISTS] == [lists, struct]
    assert [outcome.column(name)[0] for name in LISTS] == list(LISTS.values())
    with pytest.raises(ValueError, match=r'\[\["a"\], \[\], null\] in JSON cannot be converted'):
        run(**given, schema_overrides={"v": pa.list_(pa.list_(pa.int8()))})


def test_schema_wins_over_overrides_with_a_warning(run: Any) -> None:
    with pytest.warns(UserWarning, match="schema_overrides"):
        outcome = run(schema=SCHEMA, schema_overrides={"c": pa.string()})
    assert outcome.schema.equals(SCHEMA)


def test_tar_sink_writes_the_columns_of_the_schema(run: Any) -> None:
    outcome = run(sink="webdataset", schema_overrides={"c": pa.string(), "new": pa.int8()})
    assert [(sample["c"], sample["d"]) for sample in outcome.samples] == [("7", "x")]
    outcome = run(sink="webdataset", schema=pa.schema([*SCHEMA, ("d", pa.string())]))
    assert [list(sample) for sample in outcome.samples] == [["sample_id", "texts", "images", "d"]]
    assert "column `c` is not in the schema" in outcome.report.to_dict()["keys_dropped"]


def test_schema_of_an_input_without_samples_is_written_all_the_same(run: Any) -> None:
    target = pa.schema([*SCHEMA, pa.field("new", pa.int8())])
    assert run(tar={"readme": "x"}, rows=[], schema=target).schema.equals(target)


def test_missing_column_that_must_not_be_null_is_an_error(run: Any) -> None:
    with pytest.raises(ValueError, match="new"):
        run(schema=pa.schema([*SCHEMA, pa.field("new", pa.int8(), nullable=False)]))
