"""The user's own function on tables, and re-encoding."""

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from PIL import Image
from shard_builders import (
    RESERVED,
    SCHEMA,
    curate,
    document,
    from_parquet,
    image,
    row,
    tiff,
    write_parquet,
)
from shardmill.curate import BlurFilter, Map, ReencodeImages

TAR = {
    "a.json": {"texts": ["t"], "images": [None, "p", "q"], "c": {"k": 1}},
    "a.tiff": tiff((20, 10), (30, 10)),
}


def test_function_sees_whole_documents_in_the_row_schema(run_tar: Any) -> None:
    seen: list[pa.Table] = []
    outcome = run_tar(TAR, [Map(lambda found: (seen.append(found), found)[1])])
    (found,) = seen
    assert found.schema.names == [*RESERVED, "c", "rescued"]
    assert found.column("binary_content").null_count == 4
    assert None not in outcome.column("binary_content", "image"), (
        "rows without bytes are fetched again by their locator"
    )


@pytest.mark.parametrize("how", ["eager", "needs_bytes", "after a filter"])
def test_function_sees_bytes_where_they_are_there(run_tar: Any, how: str) -> None:
    seen: list[int] = []
    stage = Map(
        lambda found: (seen.append(found.column("binary_content").null_count), found)[1],
        needs_bytes=how == "needs_bytes",
    )
    stages = [BlurFilter(0.0), stage] if how == "after a filter" else [stage]
    run_tar(TAR, stages, source={"materialize_on_read": how == "eager"})
    assert seen == [2]


def test_images_are_fetched_although_the_source_leaves_out_their_locators(run_tar: Any) -> None:
    columns = pa.schema(
        [SCHEMA.field(name) for name in ("sample_id", "position", "modality", "binary_content")]
    )
    plain = run_tar(TAR, source={"schema": columns})
    mapped = run_tar(TAR, [Map(lambda found: found)], source={"schema": columns})
    assert None not in mapped.column("binary_content", "image")
    assert mapped.column("binary_content") == plain.column("binary_content")


def test_dropped_added_and_changed_rows_are_counted(run_rows: Any) -> None:
    rows = document("a", "1", "2", "3")
    outcome = run_rows(rows, [Map(lambda found: found.slice(0, 3), name="cut")])
    assert outcome.report.rows_dropped == {"cut": 1}
    outcome = run_rows(rows, [Map(lambda found: pa.concat_tables([found, found]), name="twice")])
    assert (outcome.report.rows_added, outcome.report.counts("output")["samples"]) == (
        {"twice": 4},
        2,
    )
    upper = Map(
        lambda found: found.set_column(4, found.schema.field(4), pc.utf8_upper(found.column(4)))
    )
    assert run_rows(document("a", "x"), [upper]).column("text_content") == [None, "X"]


def test_new_columns_are_written(run_rows: Any) -> None:
    outcome = run_rows(
        document("a", "xyz"),
        [
            Map(
                lambda found: found.append_column(
                    "length", pc.utf8_length(found.column("text_content"))
                )
            )
        ],
    )
    assert outcome.column("length") == [None, 3]


def test_missing_optional_columns_come_back_as_nulls(run_rows: Any) -> None:
    outcome = run_rows(
        document("a", "t"), [Map(lambda found: found.select(["modality", "position", "sample_id"]))]
    )
    assert outcome.shape() == [("a", -1, "metadata"), ("a", 0, "text")]
    assert outcome.column("text_content") == [None, None]


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (lambda found: found.drop_columns(["sample_id"]), "sample_id"),
        (lambda found: found.drop_columns(["position"]), "position"),
        (lambda found: found.drop_columns(["modality"]), "modality"),
        (
            lambda found: found.set_column(0, "sample_id", pa.nulls(found.num_rows, pa.string())),
            "sample_id",
        ),
        (
            lambda found: found.set_column(1, "position", pa.array([1 << 40] * found.num_rows)),
            "position",
        ),
        (lambda found: None, "NoneType"),
        (lambda found: 1 / 0, "division"),
    ],
)
def test_bad_result_is_an_error_that_names_the_stage(
    run_rows: Any, function: Any, problem: str
) -> None:
    with pytest.raises((ValueError, RuntimeError), match="mine") as error:
        run_rows(document("a", "t"), [Map(function, name="mine")])
    assert problem in f"{error.value} {error.value.__cause__}"


def two_chunks(tmp_path: Path, out: Any, function: Any, **options: Any) -> Any:
    path = write_parquet(tmp_path / "in.parquet", [*document("a", "t"), *document("b", "t")])
    return curate(from_parquet(path), [Map(function)], to=out(), memory_bytes=1, **options)


def is_first(found: pa.Table) -> bool:
    return found.num_rows > 0 and found.column("sample_id")[0].as_py() == "a"


@pytest.mark.parametrize("sink", ["parquet", "webdataset"])
def test_column_that_only_later_tables_have_is_refused_with_advice(
    tmp_path: Path, out: Any, sink: str
) -> None:
    def late(found: pa.Table) -> pa.Table:
        return (
            found
            if is_first(found)
            else found.append_column("late", pa.array([1] * found.num_rows))
        )

    with pytest.raises(ValueError, match=r"`late`.*\nhint: .*schema_overrides"):
        two_chunks(tmp_path, out, late, sink=sink)
    assert two_chunks(tmp_path, out, late, schema_overrides={"late": pa.int64()}).column(
        "late"
    ) == [None, None, 1, 1]


def test_column_that_later_tables_lack_is_null_there(tmp_path: Path, out: Any) -> None:
    def early(found: pa.Table) -> pa.Table:
        return (
            found.append_column("early", pa.array([1] * found.num_rows))
            if is_first(found)
            else found
        )

    assert two_chunks(tmp_path, out, early).column("early") == [1, 1, None, None]


@pytest.mark.parametrize(
    ("values", "is_fine"),
    [([1, 2], True), ([1, 2.0], True), ([1, 2.5], False), ([1, "x"], False), (["x", 1], True)],
)
def test_type_that_changes_between_tables_is_cast_or_refused(
    tmp_path: Path, out: Any, values: Any, is_fine: bool
) -> None:
    first, second = values

    def change(found: pa.Table) -> pa.Table:
        return found.append_column(
            "c", pa.array([first if is_first(found) else second] * found.num_rows)
        )

    if is_fine:
        assert (
            two_chunks(tmp_path, out, change).column("c") == [first] * 2 + [type(first)(second)] * 2
        )
    else:
        with pytest.raises(ValueError, match="`c`"):
            two_chunks(tmp_path, out, change)


@pytest.mark.parametrize("eager", [True, False])
def test_reencoding_happens_in_eager_and_lazy_mode(run_tar: Any, eager: bool) -> None:
    outcome = run_tar(TAR, [ReencodeImages("png")], source={"materialize_on_read": eager})
    bodies = outcome.column("binary_content", "image")
    assert [Image.open(io.BytesIO(body)).format for body in bodies] == ["PNG", "PNG"]
    assert [Image.open(io.BytesIO(body)).size for body in bodies] == [(20, 10), (30, 10)]
    assert outcome.column("content_type", "image") == ["image/png"] * 2


def test_image_that_cannot_be_decoded_for_reencoding_has_an_error(run_rows: Any) -> None:
    outcome = run_rows(
        document("a", b"no image", image("PNG")),
        [ReencodeImages("webp", quality=80)],
        on_materialize_error="warn",
    )
    assert outcome.column("materialize_error", "image") == ["failed to decode image", None]
    assert outcome.column("content_type", "image")[1] == "image/webp"


@pytest.mark.parametrize("codec", ["png", "webp"])
def test_reencoded_page_in_memory_is_the_one_that_the_locator_names(
    run_rows: Any, codec: str
) -> None:
    pages = tiff((20, 10), (30, 10))
    rows = [
        row("a", at, "image", binary_content=pages, source_ref=f'{{"frame_index": {at}}}')
        for at in (0, 1)
    ]
    bodies = run_rows(rows, [ReencodeImages(codec)]).column("binary_content", "image")
    assert [Image.open(io.BytesIO(body)).size for body in bodies] == [(20, 10), (30, 10)]


@pytest.mark.parametrize("codec", ["png", "webp"])
def test_reencoding_leaves_rows_of_other_modalities_alone(run_rows: Any, codec: str) -> None:
    rows = [
        *document("a", image("PNG")),
        row("a", 1, "audio", content_type="audio/ogg", binary_content=b"sound"),
    ]
    outcome = run_rows(rows, [ReencodeImages(codec)])
    assert outcome.column("binary_content", "audio") == [b"sound"]
    assert outcome.column("content_type", "audio") == ["audio/ogg"]


def test_something_that_is_no_stage_is_refused(run_rows: Any) -> None:
    with pytest.raises(ValueError, match="is not a stage"):
        run_rows(document("a"), [lambda found: found])
