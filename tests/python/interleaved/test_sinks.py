"""Output files: modes, names, Parquet and WebDataset layout (specification §6)."""

import base64
import datetime as dt
import decimal
import json
import math
import os
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from shard_builders import OUTPUT, curate, document, from_tar, image, row, table, tiff, write_tar
from shardmill._native import curate as native
from shardmill.curate import ParquetSink, Pipeline, WebDatasetSink, WebDatasetSource
from shardmill.curate._spec import spec_of

SINKS = ["parquet", "webdataset"]
MEMBERS = {"a.json": {"texts": ["t"], "images": [None, "i.png"], "c": "ü"}, "i.png": image("PNG")}
JSON_METADATA = {b"content_type": b"application/json"}


# --- common


@pytest.mark.parametrize("sink", SINKS)
def test_resume_keeps_other_files_and_replaces_its_own(tmp_path: Path, sink: str) -> None:
    path, target = write_tar(tmp_path / "a.tar", MEMBERS), tmp_path / "out"
    target.mkdir()
    (target / "foreign").write_text("x")
    first = curate(from_tar(path), to=target, sink=sink, mode="resume")
    again = curate(from_tar(path), to=target, sink=sink, mode="resume")
    assert first.file == again.file
    assert {found.name for found in target.iterdir()} == {"foreign", first.file.name}


@pytest.mark.parametrize("sink", [ParquetSink, WebDatasetSink])
def test_empty_path_is_refused_because_files_would_go_to_the_root(sink: Any) -> None:
    with pytest.raises(sm.OptionError, match="the path of a sink must be a directory, not ''"):
        sink("")


def test_native_pipeline_refuses_an_empty_path(tmp_path: Path) -> None:
    spec, _ = spec_of(Pipeline(source=from_tar(tmp_path), sink=ParquetSink(tmp_path / "out")))
    spec["sink"]["path"] = ""
    with pytest.raises(sm.OptionError, match="`path` of a sink must be a directory, not ``"):
        native.Pipeline(spec, [])


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("content", [b"no tar at all" * 100, b""])
def test_resume_keeps_the_output_of_an_input_that_became_unreadable(
    tmp_path: Path, sink: str, content: bytes
) -> None:
    path, target = write_tar(tmp_path / "in" / "a.tar", MEMBERS), tmp_path / "out"
    write_tar(tmp_path / "in" / "b.tar", MEMBERS)
    first = curate(from_tar(path.parent), to=target, sink=sink, mode="resume")
    before = first.bytes_of_files()
    path.write_bytes(content)
    again = curate(from_tar(path.parent), to=target, sink=sink, mode="resume")
    assert {name: (target / name).read_bytes() for name in before} == before
    assert sorted(file.name for file in target.iterdir()) == sorted(before)
    assert [Path(item["path"]).name for item in again.report.quarantined] == ["a.tar"]
    assert again.report.warnings == {"the input could not be read; its earlier output was kept": 1}
    assert "its earlier output was kept (1 time)" in str(again.report)


def test_numbers_that_are_not_finite_are_null_in_the_json_of_a_tar(tmp_path: Path) -> None:
    values = {"float": math.nan, "list": [1, -math.inf], "object": {"NaN": ["NaN", math.inf]}}
    path = write_tar(tmp_path / "a.tar", {"a.json": {"texts": ["t"], **values}})
    outcome = curate(from_tar(path), to=tmp_path / "out", sink="webdataset")
    [content] = [content for name, content in outcome.members if name.endswith(".json")]
    written = json.loads(content, parse_constant=pytest.fail)
    assert {name: written.get(name) for name in values} == {
        "float": None,
        "list": [1, None],
        "object": {"NaN": ["NaN", None]},
    }


@pytest.mark.parametrize("sink", SINKS)
def test_overwrite_empties_the_directory(tmp_path: Path, sink: str) -> None:
    path, target = write_tar(tmp_path / "a.tar", MEMBERS), tmp_path / "out"
    (target / "deep").mkdir(parents=True)
    (target / "deep" / "old").write_text("x")
    outcome = curate(from_tar(path), to=target, sink=sink, mode="overwrite")
    assert list(target.iterdir()) == [outcome.file]


def test_overwrite_does_not_delete_its_own_input(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "data" / "a.tar", MEMBERS)
    with pytest.raises(ValueError, match="would delete the input"):
        curate(from_tar(path), to=tmp_path / "data", mode="overwrite")
    assert path.exists()


def test_error_refuses_a_directory_that_exists(tmp_path: Path) -> None:
    path, target = write_tar(tmp_path / "a.tar", MEMBERS), tmp_path / "out"
    assert curate(from_tar(path), to=target, mode="error").file.exists()
    with pytest.raises(FileExistsError, match="out"):
        curate(from_tar(path), to=target, mode="error")


def test_append_is_not_implemented_and_other_modes_are_value_errors(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar", MEMBERS)
    with pytest.raises(NotImplementedError):
        curate(from_tar(path), to=tmp_path / "out", mode="append")
    with pytest.raises(ValueError, match="replace"):
        curate(from_tar(path), to=tmp_path / "out", mode="replace")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("mode", ["resume", "overwrite", "error"])
def test_making_a_pipeline_touches_nothing(tmp_path: Path, mode: Any) -> None:
    target = tmp_path / "out"
    Pipeline(source=WebDatasetSource(tmp_path / "none"), sink=ParquetSink(target, mode=mode))
    assert not target.exists()
    target.mkdir()
    (target / "old").write_text("x")
    Pipeline(source=WebDatasetSource(tmp_path / "none"), sink=WebDatasetSink(target, mode=mode))
    assert (target / "old").exists()


@pytest.mark.parametrize("sink", SINKS)
def test_two_runs_write_the_same_bytes(tmp_path: Path, out: Any, sink: str) -> None:
    for number in range(3):
        write_tar(
            tmp_path / "in" / f"{number}.tar",
            [(f"{number}/{name}", body) for name, body in MEMBERS.items()],
        )
    runs = [
        curate(from_tar(tmp_path / "in"), to=out(), sink=sink, workers=workers)
        for workers in (1, 3)
    ]
    assert runs[0].bytes_of_files() == runs[1].bytes_of_files()


@pytest.mark.parametrize("sink", SINKS)
def test_input_without_samples_gives_a_valid_empty_file(run_tar: Any, sink: str) -> None:
    outcome = run_tar({"readme": "x"}, sink=sink)
    if sink == "parquet":
        assert pq.read_table(outcome.file).num_rows == 0
        assert outcome.schema.equals(OUTPUT)
    else:
        assert outcome.file.read_bytes() == bytes(10_240)
    assert outcome.report.to_dict()["empty_output_files"] == 1


@pytest.mark.skipif(
    os.geteuid() == 0 and not Path("/proc/self").exists(),
    reason="needs a directory that refuses writes",
)
@pytest.mark.parametrize("sink", SINKS)
def test_output_that_cannot_be_a_directory_is_a_clear_error(tmp_path: Path, sink: str) -> None:
    path = write_tar(tmp_path / "a.tar", MEMBERS)
    (tmp_path / "file").write_text("x")
    with pytest.raises(OSError, match="file"):
        curate(from_tar(path), to=tmp_path / "file" / "out", sink=sink)


# --- Parquet


def test_image_column_is_plain_and_text_is_compressed(run_tar: Any) -> None:
    outcome = run_tar(MEMBERS)
    group = pq.read_metadata(outcome.file).row_group(0)
    columns = {
        group.column(number).path_in_schema: group.column(number)
        for number in range(group.num_columns)
    }
    payload = columns.pop("binary_content")
    assert payload.compression == "UNCOMPRESSED"
    assert not payload.has_dictionary_page
    assert not payload.is_stats_set
    assert {column.compression for column in columns.values()} == {"ZSTD"}
    assert b"pandas" not in (pq.read_schema(outcome.file).metadata or {})


@pytest.mark.parametrize("codec", ["snappy", "gzip", "brotli", "lz4", "none"])
def test_compression_option_is_honoured(run_tar: Any, codec: str) -> None:
    outcome = run_tar(MEMBERS, compression=codec, binary_compression=codec)
    group = pq.read_metadata(outcome.file).row_group(0)
    names = {"none": "UNCOMPRESSED", "lz4": "LZ4"}
    assert {group.column(number).compression for number in range(group.num_columns)} == {
        names.get(codec, codec.upper())
    }
    assert outcome.column("binary_content", "image") == [image("PNG")]


def test_unknown_compression_is_a_value_error_before_anything_is_touched(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="zip"):
        Pipeline(
            source=WebDatasetSource(tmp_path), sink=ParquetSink(tmp_path / "out", compression="zip")
        )


def test_row_groups_are_cut_by_bytes_and_by_rows(tmp_path: Path, out: Any) -> None:
    members = [
        found
        for number in range(20)
        for found in ((f"{number}.json", {"images": ["x"]}), (f"{number}.png", os.urandom(10_000)))
    ]
    path = write_tar(tmp_path / "a.tar", members)
    by_bytes = pq.read_metadata(curate(from_tar(path), to=out(), memory_bytes=50_000).file)
    assert by_bytes.num_row_groups >= 4
    assert all(
        by_bytes.row_group(number).total_byte_size < 60_000
        for number in range(by_bytes.num_row_groups)
    )
    by_rows = pq.read_metadata(curate(from_tar(path), to=out(), row_group_size=7).file)
    assert [by_rows.row_group(number).num_rows for number in range(by_rows.num_row_groups)] == [
        8
    ] * 5


# --- WebDataset


def test_layout_is_images_then_json_with_gaps(run_rows: Any) -> None:
    outcome = run_rows(document("s1", "ä", image("PNG"), None, "b"), sink="webdataset")
    with tarfile.open(outcome.file) as archive:
        members = archive.getmembers()
    assert [member.name for member in members] == ["s1.1.jpg", "s1.json"]
    assert {
        (member.mtime, member.mode, member.uid, member.gid, member.type) for member in members
    } == {(0, 0o644, 0, 0, tarfile.REGTYPE)}
    body = outcome.members[-1][1].decode()
    assert (
        body == '{"sample_id": "s1", "texts": ["ä", null, null, "b"], '
        '"images": [null, "s1.1.jpg", null, null]}'
    )


def test_images_stand_in_position_order_whatever_the_row_order(run_rows: Any) -> None:
    rows = [
        row("a", at, "image", binary_content=b"%d" % at, content_type="image/png")
        for at in (3, 0, 1)
    ]
    assert [name for name, _ in run_rows(rows, sink="webdataset").members] == [
        "a.0.png",
        "a.1.png",
        "a.3.png",
        "a.json",
    ]


@pytest.mark.parametrize(
    ("content_type", "body", "extension"),
    [
        ("image/jpeg", b"x", "jpg"),
        ("image/png", b"x", "png"),
        ("image/tiff", b"x", "tiff"),
        ("image/webp", b"x", "webp"),
        ("image/gif", b"x", "gif"),
        ("image/bmp", b"x", "bmp"),
        ("image/avif", b"x", "avif"),
        ("application/octet-stream", image("PNG"), "bin"),
        (None, image("PNG"), "png"),
        (None, image("JPEG"), "jpg"),
        (None, tiff((3, 3)), "tiff"),
        (None, b"unknown", "bin"),
        (None, b"", "bin"),
    ],
)
def test_extension_follows_the_content_type_else_the_bytes(
    run_rows: Any, content_type: Any, body: bytes, extension: str
) -> None:
    outcome = run_rows(
        [row("a", 0, "image", content_type=content_type, binary_content=body)], sink="webdataset"
    )
    assert outcome.members[0] == (f"a.0.{extension}", body)


@pytest.mark.parametrize(
    ("key", "stem"),
    [
        ("a/b:c.d", "a%2Fb%3Ac%2Ed"),
        ("ü~_-1", "%C3%BC~_-1"),
        ("a+2 b", "a%2B2%20b"),
        ("x" * 400, "x" * 400),
        ("../..", "%2E%2E%2F%2E%2E"),
    ],
)
def test_stem_is_percent_encoded_and_the_json_keeps_the_raw_id(
    run_rows: Any, key: str, stem: str
) -> None:
    outcome = run_rows(document(key, image("PNG")), sink="webdataset")
    assert [name for name, _ in outcome.members] == [f"{stem}.0.jpg", f"{stem}.json"]
    assert outcome.samples[0]["sample_id"] == key


def test_row_without_bytes_is_null_in_its_list_and_counted(run_rows: Any) -> None:
    rows = [
        *document("a", "t"),
        row("a", 1, "image", materialize_error="gone"),
        row("a", 2, "image", binary_content=b"x"),
    ]
    outcome = run_rows(rows, sink="webdataset", on_materialize_error="warn")
    assert outcome.samples[0]["images"] == [None, None, "a.2.bin"]
    assert outcome.report.warnings["image without bytes: null in its sample"] == 1


def test_null_text_is_null(run_rows: Any) -> None:
    assert run_rows(
        [row("a", 0, "text"), row("a", 1, "text", text_content="")], sink="webdataset"
    ).samples[0]["texts"] == [None, ""]


def test_other_modality_is_a_value_error_that_names_it(run_rows: Any) -> None:
    with pytest.raises(ValueError, match="video"):
        run_rows([row("a", 0, "video")], sink="webdataset")


@pytest.mark.parametrize("name", ["texts", "images"])
def test_column_that_would_replace_a_payload_key_is_refused(
    run_rows: Any, tmp_path: Path, name: str
) -> None:
    with pytest.raises(ValueError, match=f"`{name}`"):
        run_rows(
            document("a", "t", **{name: "x"}),
            extras=[pa.field(name, pa.string())],
            sink="webdataset",
        )
    assert not list((tmp_path / "out0").glob("*.tar"))


@pytest.mark.parametrize(
    "bad",
    [
        [row("b", -1, "text", text_content="x")],
        [row("b", 0, "image", binary_content=b"1"), row("b", 0, "image", binary_content=b"2")],
        [row("b", (1 << 31) - 1, "text", text_content="x")],
    ],
)
def test_document_that_no_list_can_hold_is_quarantined_and_the_rest_written(
    run_rows: Any, bad: Any
) -> None:
    outcome = run_rows([*document("a", "t"), *bad, *document("c", "t")], sink="webdataset")
    assert [sample["sample_id"] for sample in outcome.samples] == ["a", "c"]
    assert outcome.report.to_dict()["quarantined_samples"] == 1
    assert "`b`" in outcome.report.quarantined[0]["reason"]


def test_quarantine_of_the_sink_counts_against_the_budget(run_rows: Any) -> None:
    with pytest.raises(RuntimeError, match="limit of 0"):
        run_rows([row("b", -1, "text", text_content="x")], sink="webdataset", max_errors=0)


def top_value(run_rows: Any, array: pa.Array, field: pa.Field | None = None) -> Any:
    field = field or pa.field("c", array.type)
    (sample,) = run_rows(
        table(document("a")).append_column(field, array), sink="webdataset"
    ).samples
    return sample.get("c")


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (dt.datetime(2024, 2, 3, 4, 5, 6), pa.timestamp("us"), "2024-02-03T04:05:06"),
        (
            dt.datetime(2024, 2, 3, 4, 5, 6, tzinfo=dt.UTC),
            pa.timestamp("ms", "UTC"),
            "2024-02-03T04:05:06Z",
        ),
        (dt.date(2024, 2, 3), pa.date32(), "2024-02-03"),
        ([1, None, 2], pa.list_(pa.int64()), [1, None, 2]),
        (
            {"k": [1.5], "n": None},
            pa.struct([("k", pa.list_(pa.float64())), ("n", pa.string())]),
            {"k": [1.5], "n": None},
        ),
        ([("a", 1)], pa.map_(pa.string(), pa.int8()), {"a": 1}),
        (decimal.Decimal("12.340"), pa.decimal128(10, 3), "12.340"),
        (b"\x00\xff", pa.binary(), base64.b64encode(b"\x00\xff").decode()),
        (b"\x00\xff", pa.large_binary(), base64.b64encode(b"\x00\xff").decode()),
        (True, pa.bool_(), True),
        ((1 << 64) - 1, pa.uint64(), (1 << 64) - 1),
        (0.1, pa.float64(), 0.1),
        (float("nan"), pa.float64(), None),
        (float("inf"), pa.float64(), None),
        (None, pa.int64(), None),
        ("ü", pa.large_string(), "ü"),
    ],
)
def test_values_are_encoded_as_json(run_rows: Any, value: Any, kind: Any, expected: Any) -> None:
    assert top_value(run_rows, pa.array([value], kind)) == expected


def test_dictionary_values_are_encoded_as_their_values(run_rows: Any) -> None:
    assert top_value(run_rows, pa.array(["x"]).dictionary_encode()) == "x"


@pytest.mark.parametrize(
    "text", ['{"a": [1, {"b": null}]}', "7", '"x"', "[]", "1e400", "123456789012345678901234567890"]
)
def test_json_columns_get_their_structure_back(run_rows: Any, text: str) -> None:
    field = pa.field("c", pa.string(), metadata=JSON_METADATA)
    assert top_value(run_rows, pa.array([text]), field) == json.loads(text)


def test_text_that_looks_like_json_stays_text_without_the_mark(run_rows: Any) -> None:
    assert top_value(run_rows, pa.array(['{"a": 1}'])) == '{"a": 1}'


def test_key_order_is_id_texts_images_then_columns(run_rows: Any) -> None:
    extras = [pa.field("z", pa.int64()), pa.field("a", pa.int64())]
    assert list(run_rows(document("s", z=1, a=2), extras=extras, sink="webdataset").samples[0]) == [
        "sample_id",
        "texts",
        "images",
        "z",
        "a",
    ]


def content_list(run_rows: Any, rows: Any) -> Any:
    return (
        run_rows(rows, extras=[pa.field("c", pa.string())], sink="webdataset").samples[0].get("c")
    )


def test_column_on_images_only_is_a_list_with_one_entry_an_image(run_rows: Any) -> None:
    values = ["a cat", None, "a dog"]
    rows = document("s", "t", *[b"x"] * 3)
    for found, value in zip(rows[2:], values, strict=True):
        found["c"] = value
    assert content_list(run_rows, rows) == values
    assert content_list(run_rows, rows[::-1]) == values, "in position order"


def test_column_on_texts_only_is_a_list_with_one_entry_a_text(run_rows: Any) -> None:
    rows = document("s", "t", b"x", "u")
    rows[3]["c"] = "en"
    assert content_list(run_rows, rows) == [None, "en"]


def test_column_on_both_is_a_list_with_one_entry_a_content_row(run_rows: Any) -> None:
    rows = document("s", "t", b"x", "u", b"y")
    rows[1]["c"], rows[2]["c"] = "1", "2"
    assert content_list(run_rows, rows) == ["1", "2", None, None]


def test_values_beside_an_image_without_bytes_do_not_shift_the_others(run_rows: Any) -> None:
    rows = document("s", b"x", None, b"y", b"z")
    rows[1] |= {"c": "first"}
    rows[2] |= {"c": "second", "binary_content": None, "materialize_error": "gone"}
    rows[3] |= {"c": "third"}
    outcome = run_rows(
        rows, extras=[pa.field("c", pa.string())], sink="webdataset", on_materialize_error="warn"
    )
    (sample,) = outcome.samples
    assert sample["images"] == ["s.0.jpg", None, None, "s.3.jpg"]
    assert sample["c"] == ["first", "third"]
    assert sum(outcome.report.to_dict()["keys_dropped"].values()) == 1


def test_content_values_beside_a_value_of_the_sample_are_counted(run_rows: Any) -> None:
    rows = document("s", "t", c="top")
    rows[1]["c"] = "lost"
    outcome = run_rows(rows, extras=[pa.field("c", pa.string())], sink="webdataset")
    assert outcome.samples[0]["c"] == "top"
    assert sum(outcome.report.to_dict()["keys_dropped"].values()) == 1
