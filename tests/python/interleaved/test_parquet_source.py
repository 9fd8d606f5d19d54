"""Interleaved Parquet as input (specification §1.8, §2.6)."""

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from breadth import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shard_builders import (
    RESERVED,
    curate,
    document,
    from_parquet,
    image,
    row,
    table,
    write_parquet,
    written,
)

JSON_METADATA = {b"content_type": b"application/json"}
C = [pa.field("c", pa.int64())]


def two_files(tmp_path: Path, out: Any, first: pa.Table, second: pa.Table, **options: Any) -> Any:
    write_parquet(tmp_path / "in" / "a.parquet", first)
    write_parquet(tmp_path / "in" / "b.parquet", second)
    return curate(from_parquet(tmp_path / "in", files_per_partition=2, **options), to=out())


def with_column(values: list[Any], kind: pa.DataType, name: str = "c") -> pa.Table:
    rows = [found for number, _ in enumerate(values) for found in document(f"d{number}")]
    base = table(rows)
    return base.append_column(pa.field(name, kind), pa.array(values, kind))


def test_file_of_three_columns_gets_the_others_as_nulls(run_rows: Any) -> None:
    schema = pa.schema(
        [("sample_id", pa.string()), ("position", pa.int32()), ("modality", pa.string())]
    )
    rows = [row("a", -1, "metadata"), row("a", 0, "text")]
    outcome = run_rows(table(rows, schema=schema))
    assert outcome.schema.names == [*RESERVED, "rescued"]
    assert outcome.rows == written(rows)


@pytest.mark.parametrize("column", ["position", "modality"])
def test_file_without_a_mandatory_column_is_quarantined_by_name(
    tmp_path: Path, out: Any, column: str
) -> None:
    write_parquet(tmp_path / "in" / "bad.parquet", table(document("a", "t")).drop_columns([column]))
    write_parquet(tmp_path / "in" / "good.parquet", document("b", "t"))
    outcome = curate(from_parquet(tmp_path / "in"), to=out())
    assert set(outcome.column("sample_id")) == {"b"}
    (item,) = outcome.report.quarantined
    assert f"column `{column}` is missing" in item["reason"]


def test_file_without_sample_id_is_a_key_error_that_names_it(run_rows: Any) -> None:
    with pytest.raises(KeyError, match=r"in\.parquet"):
        run_rows(table(document("a")).drop_columns(["sample_id"]))


def test_column_that_occurs_twice_is_quarantined(run_rows: Any) -> None:
    twice = table(document("a")).append_column("c", pa.array([1])).append_column("c", pa.array([2]))
    assert "occurs twice" in run_rows(twice).report.quarantined[0]["reason"]


@pytest.mark.parametrize(
    ("fields", "names"),
    [(None, ["c", "d"]), ((), []), (("d",), ["d"]), (("sample_id", "d"), ["d"])],
)
def test_fields_choose_the_passthrough_columns(
    run_rows: Any, fields: Any, names: list[str]
) -> None:
    extras = [pa.field("c", pa.int64()), pa.field("d", pa.string())]
    outcome = run_rows(document("a", "t", c=1, d="x"), extras=extras, source={"fields": fields})
    assert outcome.schema.names == [*RESERVED, *names, "rescued"]
    assert all(outcome.column("c") == [1, None] for name in names if name == "c")


def test_column_order_of_the_file_is_kept_and_absent_columns_follow(run_rows: Any) -> None:
    source = table(document("a", c=1), C).select(["c", "modality", "sample_id", "position"])
    outcome = run_rows(source)
    assert outcome.schema.names[:4] == ["c", "modality", "sample_id", "position"]
    others = [name for name in RESERVED if name not in outcome.schema.names[:4]]
    assert outcome.schema.names[4:] == [*others, "rescued"]


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (pa.dictionary(pa.int32(), pa.string()), pa.string()),
        (pa.large_string(), pa.large_string()),
        (pa.string_view(), pa.string()),
        (pa.string(), pa.string()),
    ],
)
def test_string_types_of_reserved_and_passthrough_columns(
    run_rows: Any, given: Any, stored: Any
) -> None:
    base = table(document("a", "t", image()), [pa.field("c", pa.string())])
    source = base
    for name in ("sample_id", "text_content", "content_type", "modality", "c"):
        index = source.schema.get_field_index(name)
        values = source.column(name).to_pylist()
        plain = pa.array(values, pa.string())
        array = plain.dictionary_encode() if pa.types.is_dictionary(given) else plain.cast(given)
        source = source.set_column(index, pa.field(name, array.type), array)
    outcome = run_rows(source)
    assert {
        outcome.schema.field(name).type for name in ("sample_id", "text_content", "modality", "c")
    } == {stored}
    assert outcome.rows == written(table(base.to_pylist(), schema=base.schema).to_pylist())


@pytest.mark.parametrize(
    "kind",
    [pa.binary(), pa.large_binary(), pa.binary_view(), pa.dictionary(pa.int32(), pa.binary())],
)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": "snappy", "use_dictionary": True},
        {"compression": "zstd", "row_group_size": 2},
    ],
)
@pytest.mark.parametrize("memory_bytes", [1, 1 << 25])
def test_binary_types_and_encodings_give_the_same_bytes(
    tmp_path: Path, out: Any, kind: Any, options: Any, memory_bytes: int
) -> None:
    bodies = [b"", b"short", b"x" * 12, b"y" * 13, image("PNG"), b"z" * 100_000, image("PNG")]
    base = table(document("a", *bodies))
    plain = base.column("binary_content").to_pylist()
    array = pa.array(plain, pa.binary())
    array = array.dictionary_encode() if pa.types.is_dictionary(kind) else array.cast(kind)
    source = base.set_column(5, pa.field("binary_content", array.type), array)
    path = write_parquet(tmp_path / "in.parquet", source, **options)
    outcome = curate(from_parquet(path), to=out(), memory_bytes=memory_bytes)
    assert outcome.column("binary_content") == plain
    assert outcome.schema.field("binary_content").type == pa.large_binary()


def test_integer_ids_and_wide_positions_are_cast(run_rows: Any) -> None:
    schema = pa.schema(
        [("sample_id", pa.int64()), ("position", pa.int64()), ("modality", pa.string())]
    )
    outcome = run_rows(table([row(7, -1, "metadata"), row(7, 0, "text")], schema=schema))
    assert outcome.shape() == [("7", -1, "metadata"), ("7", 0, "text")]


@pytest.mark.parametrize(
    ("kind", "value"),
    [(pa.int64(), 1 << 31), (pa.int64(), -(1 << 31) - 1), (pa.float64(), 1.5), (pa.string(), "x")],
)
def test_position_that_is_no_32_bit_integer_is_an_error_that_names_file_and_column(
    run_rows: Any, kind: Any, value: Any
) -> None:
    schema = pa.schema([("sample_id", pa.string()), ("position", kind), ("modality", pa.string())])
    with pytest.raises(ValueError, match=r"in\.parquet.*position"):
        run_rows(table([row("a", value, "text")], schema=schema))


def test_rows_without_id_are_quarantined_and_split_their_document(run_rows: Any) -> None:
    rows = [*document("a", "1"), row(None, 0, "text"), row(None, 1, "image"), row("a", 1, "text")]
    outcome = run_rows(rows)
    assert outcome.shape() == [("a", -1, "metadata"), ("a", 0, "text"), ("a", 1, "text")]
    assert outcome.report.rows_dropped == {"null sample_id, position or modality": 2}
    assert outcome.report.counts("input")["images"] == 1
    assert outcome.report.counts("output")["samples"] == 2
    (item,) = outcome.report.quarantined
    assert item["reason"] == "2 rows without sample_id, position or modality"


@pytest.mark.parametrize("bad", [row("a", 1, None), row("a", None, "text")])
def test_row_without_modality_or_position_does_not_split_its_document(
    run_rows: Any, bad: Any
) -> None:
    outcome = run_rows([*document("a", "1"), bad, row("a", 2, "text")])
    assert outcome.shape() == [("a", -1, "metadata"), ("a", 0, "text"), ("a", 2, "text")]
    assert outcome.report.counts("output")["samples"] == 1
    (item,) = outcome.report.quarantined
    assert item["reason"] == "1 row without sample_id, position or modality"


def test_metadata_row_starts_a_new_document_of_the_same_id(run_rows: Any) -> None:
    outcome = run_rows(
        [*document("a", "1"), *document("a", "2"), *document("b"), *document("a", "3")],
        sink="webdataset",
    )
    assert [(sample["sample_id"], sample["texts"]) for sample in outcome.samples] == [
        ("a", ["1"]),
        ("a", ["2"]),
        ("b", []),
        ("a", ["3"]),
    ]
    assert [name for name, _ in outcome.members] == ["a.json", "a+2.json", "b.json", "a+3.json"]
    assert outcome.report.to_dict()["duplicate_sample_ids"] == 2


def many_documents(sizes: list[int]) -> list[dict[str, Any]]:
    """Documents with the given number of texts each; some are huge."""
    return [
        found
        for number, size in enumerate(sizes)
        for found in document(
            f"d{number}", *[f"{number}/{text}" * (1 + text % 7) for text in range(size)]
        )
    ]


@pytest.mark.parametrize("memory_bytes", [1, 1000, 1 << 25])
@pytest.mark.parametrize("row_group_size", [1, 3, 1000])
@pytest.mark.parametrize("max_batch_bytes", [None, 1, 2000])
def test_documents_survive_every_border(
    tmp_path: Path, out: Any, memory_bytes: int, row_group_size: int, max_batch_bytes: Any
) -> None:
    rows = many_documents([1, 0, 40, 2, 0, 0, 7, 90, 1])
    path = write_parquet(tmp_path / "in.parquet", rows, row_group_size=row_group_size)
    outcome = curate(
        from_parquet(path, max_batch_bytes=max_batch_bytes), to=out(), memory_bytes=memory_bytes
    )
    assert outcome.rows == written(table(rows).to_pylist())
    assert outcome.report.counts("output")["samples"] == 9
    assert outcome.report.to_dict()["duplicate_sample_ids"] == 0
    for file in outcome.files:
        ids = pq.read_table(file).column("sample_id").to_pylist()
        assert len(set(ids)) == 1 or max_batch_bytes != 1


def test_documents_of_one_id_in_two_files_stay_apart(tmp_path: Path, out: Any) -> None:
    first, second = table(document("a", "1")), table([row("a", 0, "text", text_content="2")])
    outcome = two_files(tmp_path, out, first, second)
    assert outcome.report.counts("output")["samples"] == 2
    assert outcome.report.to_dict()["duplicate_sample_ids"] == 1


@pytest.mark.parametrize(
    ("first", "second", "kind", "cells"),
    [
        (([1], pa.int8()), ([2], pa.int64()), pa.int64(), [1, 2]),
        (([1], pa.uint8()), ([-2], pa.int8()), pa.int16(), [1, -2]),
        (([None], pa.null()), ([2], pa.int64()), pa.int64(), [None, 2]),
        (([None], pa.string()), ([2], pa.int64()), pa.int64(), [None, 2]),
        ((["a"], pa.string()), (["b"], pa.large_string()), pa.large_string(), ["a", "b"]),
        (
            (["a"], pa.string()),
            (["b"], pa.dictionary(pa.int8(), pa.string())),
            pa.string(),
            ["a", "b"],
        ),
        (([1], pa.int32()), ([0.5], pa.float64()), pa.float64(), [1.0, 0.5]),
        (([1 << 60], pa.int64()), ([0.5], pa.float32()), pa.float64(), [float(1 << 60), 0.5]),
        (([0.5], pa.float32()), ([1 << 63], pa.uint64()), pa.float64(), [0.5, float(1 << 63)]),
        (([None], pa.null()), ([None], pa.null()), pa.string(), [None, None]),
        (([[1]], pa.list_(pa.int64())), ([None], pa.string()), pa.list_(pa.int64()), [[1], None]),
    ],
)
def test_types_of_several_files_are_promoted_without_loss(
    tmp_path: Path, out: Any, first: Any, second: Any, kind: Any, cells: Any
) -> None:
    outcome = two_files(tmp_path, out, with_column(*first), with_column(*second))
    field = outcome.schema.field("c")
    assert (field.type, field.metadata) == (kind, None)
    assert outcome.column("c") == cells
    assert outcome.report.warnings == {}


@pytest.mark.parametrize(
    ("first", "second", "cells"),
    [
        (([1], pa.int64()), (["x"], pa.string()), ["1", '"x"']),
        (([True], pa.bool_()), ([1], pa.int8()), ["true", "1"]),
        (
            ([[1, None]], pa.list_(pa.int8())),
            ([{"k": "ü"}], pa.struct([("k", pa.string())])),
            ["[1, null]", '{"k": "ü"}'],
        ),
    ],
)
def test_types_that_no_type_holds_become_json_with_a_warning(
    tmp_path: Path, out: Any, first: Any, second: Any, cells: Any
) -> None:
    outcome = two_files(tmp_path, out, with_column(*first), with_column(*second))
    field = outcome.schema.field("c")
    assert (field.type, field.metadata, outcome.column("c")) == (pa.string(), JSON_METADATA, cells)
    assert any("`c`" in warning for warning in outcome.report.warnings)


@pytest.mark.parametrize(
    ("first", "second", "kind", "cells", "rescued"),
    [
        (
            ([(1 << 53) + 1], pa.int64()),
            ([0.5], pa.float64()),
            pa.float64(),
            [None, 0.5],
            '{"c": 9007199254740993}',
        ),
        (
            ([(1 << 64) - 1], pa.uint64()),
            ([-1], pa.int64()),
            pa.int64(),
            [None, -1],
            '{"c": 18446744073709551615}',
        ),
    ],
)
def test_value_that_the_common_type_does_not_hold_is_rescued(
    tmp_path: Path, out: Any, first: Any, second: Any, kind: Any, cells: Any, rescued: str
) -> None:
    outcome = two_files(tmp_path, out, with_column(*first), with_column(*second))
    assert (outcome.schema.field("c").type, outcome.column("c")) == (kind, cells)
    assert outcome.column("rescued") == [rescued, None]
    assert (outcome.report.rescued, outcome.report.warnings) == ({"c": 1}, {})


def test_column_of_one_file_only_is_null_in_the_other(tmp_path: Path, out: Any) -> None:
    outcome = two_files(
        tmp_path, out, with_column([1], pa.int64()), with_column(["x"], pa.string(), "d")
    )
    assert (outcome.column("c"), outcome.column("d")) == ([1, None], [None, "x"])


def test_json_columns_keep_their_mark(run_rows: Any) -> None:
    field = pa.field("c", pa.string(), metadata=JSON_METADATA)
    source = table(document("a")).append_column(field, pa.array(['{"a": [1]}']))
    outcome = run_rows(source)
    assert (outcome.schema.field("c").metadata, outcome.column("c")) == (
        JSON_METADATA,
        ['{"a": [1]}'],
    )


def test_empty_file_gives_a_file_without_rows_but_with_columns(run_rows: Any) -> None:
    outcome = run_rows(table([], C))
    assert (outcome.rows, outcome.schema.names) == ([], [*RESERVED, "c", "rescued"])
    assert outcome.report.to_dict()["empty_output_files"] == 1


def test_modality_of_another_kind_is_carried_to_parquet(run_rows: Any) -> None:
    outcome = run_rows([*document("a", "t"), row("a", 1, "video")])
    assert outcome.shape()[-1] == ("a", 1, "video")
    assert outcome.report.counts("output")["other"] == 1


def expected_documents(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Runs of one id; a metadata row starts a new one; rows without id end theirs."""
    documents: list[list[dict[str, Any]]] = []
    above = None
    for found in rows:
        key = found["sample_id"]
        if key is not None and (key != above or found["modality"] == "metadata"):
            documents.append([])
        if key is not None:
            documents[-1].append(found)
        above = key
    return documents


random_row = st.builds(
    lambda key, modality, text: row(
        key, -1 if modality == "metadata" else 0, modality, text_content=text
    ),
    st.sampled_from(["a", "a", "a", "b", None]),
    st.sampled_from(["text", "text", "image", "metadata"]),
    st.sampled_from([None, "x", "y" * 300]),
)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    rows=st.lists(random_row, max_size=40),
    row_group_size=st.integers(1, 12),
    memory_bytes=st.sampled_from([1, 200, 3000, 1 << 25]),
    max_batch_bytes=st.sampled_from([None, 1, 500]),
)
def test_random_rows_are_cut_into_documents_as_the_rule_says(
    rows: Any, row_group_size: int, memory_bytes: int, max_batch_bytes: Any
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = write_parquet(Path(directory) / "in.parquet", rows, row_group_size=row_group_size)
        outcome = curate(
            from_parquet(path, max_batch_bytes=max_batch_bytes),
            to=Path(directory) / "out",
            memory_bytes=memory_bytes,
            materialize_on_write=False,
        )
        documents = expected_documents(rows)
        assert outcome.report.counts("output")["samples"] == len(documents)
        assert outcome.rows == written([found for document in documents for found in document])
        if max_batch_bytes == 1:
            assert len(outcome.files) == max(len(documents), 1)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([[], None], pa.list_(pa.null())),
        ([{"a": None}], pa.struct([("a", pa.null())])),
        ([["x"]], pa.list_(pa.string())),
        ([[b"x"]], pa.large_list(pa.binary())),
        ([[("k", [1])]], pa.map_(pa.string(), pa.list_(pa.int8()))),
        ([b"12345678"], pa.binary(8)),
    ],
)
def test_nested_and_odd_columns_pass_unchanged(run_rows: Any, values: Any, kind: Any) -> None:
    outcome = run_rows(with_column(values, kind))
    assert outcome.column("c") == values
