"""Map: the user's own function on tables of interleaved rows."""

from __future__ import annotations

import io

import pytest

pa = pytest.importorskip("pyarrow")
pc = pytest.importorskip("pyarrow.compute")
Image = pytest.importorskip("PIL.Image")

from documents import encoded, picture, rows, write_shards, write_tar
from shardmill.curate import Map, ParquetSink, Pipeline, ReencodeImages, WebDatasetSource
from shardmill.errors import CurateError, FormatError, OptionError


@pytest.fixture
def shards(tmp_path):
    return write_shards(tmp_path / "in", shards=2, samples=2)


def run(shards, tmp_path, *stages, source=None, **options):
    source = source or WebDatasetSource(shards)
    report = Pipeline(
        source=source, stages=stages, sink=ParquetSink(tmp_path / "out", **options)
    ).run()
    return report, rows(tmp_path / "out")


def with_column(table, name, values):
    index = table.schema.get_field_index(name)
    return table.append_column(name, values) if index < 0 else table.set_column(index, name, values)


def test_identity_changes_nothing(shards, tmp_path):
    _report, before = run(shards, tmp_path)
    (tmp_path / "out").rename(tmp_path / "before")
    _report, after = run(shards, tmp_path, Map(lambda table: table))

    assert after == before


def test_function_gets_whole_documents_as_a_table(shards, tmp_path):
    seen = []
    run(shards, tmp_path, Map(lambda table: seen.append(table) or table))

    assert all(isinstance(table, pa.Table) for table in seen)
    names = [name for table in seen for name in dict.fromkeys(table["sample_id"].to_pylist())]
    assert sorted(names) == ["doc-0-0", "doc-0-1", "doc-1-0", "doc-1-1"]
    assert seen[0].column_names[:8] == [
        "sample_id",
        "position",
        "modality",
        "content_type",
        "text_content",
        "binary_content",
        "source_ref",
        "materialize_error",
    ]


def test_changed_text_is_written(shards, tmp_path):
    upper = Map(
        lambda table: with_column(table, "text_content", pc.utf8_upper(table["text_content"]))
    )
    _report, kept = run(shards, tmp_path, upper)

    assert {
        row["text_content"]
        for row in kept
        if row["modality"] == "text" and row["sample_id"] == "doc-0-0"
    } == {
        "TEXT 0 OF DOC-0-0",
        "TEXT 1 OF DOC-0-0",
        "TEXT 2 OF DOC-0-0",
    }


def test_dropped_rows_are_counted_under_the_name_of_the_stage(shards, tmp_path):
    no_images = Map(
        lambda table: table.filter(pc.not_equal(table["modality"], "image")), name="no_images"
    )
    report, kept = run(shards, tmp_path, no_images)

    assert {row["modality"] for row in kept} == {"metadata", "text"}
    assert report.rows_dropped == {"no_images": 12}


def test_added_rows_are_written(shards, tmp_path):
    def with_summary(table):
        last = table.filter(pc.equal(table["modality"], "text"))
        first_of = (
            last.group_by("sample_id", use_threads=False).aggregate([])["sample_id"].to_pylist()
        )
        extra = [
            {
                "sample_id": name,
                "position": 6,
                "modality": "text",
                "content_type": "text/plain",
                "text_content": f"end of {name}",
            }
            for name in first_of
        ]
        return pa.Table.from_pylist(
            sorted(table.to_pylist() + extra, key=lambda row: (row["sample_id"], row["position"])),
            schema=table.schema,
        )

    report, kept = run(shards, tmp_path, Map(with_summary))

    assert [row["text_content"] for row in kept if row["position"] == 6] == [
        f"end of doc-{shard}-{sample}" for shard in range(2) for sample in range(2)
    ]
    assert all(row["binary_content"] for row in kept if row["modality"] == "image")
    assert report.counts("output")["rows"] == report.counts("input")["rows"] + 4


def test_added_column_is_written_with_its_type(shards, tmp_path):
    def with_length(table):
        return with_column(table, "length", pc.utf8_length(table["text_content"]).cast(pa.int16()))

    _report, kept = run(shards, tmp_path, Map(with_length))

    assert {row["length"] for row in kept if row["modality"] == "text"} == {17}
    assert {row["length"] for row in kept if row["modality"] != "text"} == {None}


def test_record_batch_and_reader_are_tables_too(shards, tmp_path):
    _report, as_batch = run(
        shards, tmp_path, Map(lambda table: table.combine_chunks().to_batches()[0])
    )
    (tmp_path / "out").rename(tmp_path / "first")
    _report, as_reader = run(shards, tmp_path, Map(lambda table: table.to_reader(max_chunksize=3)))

    assert as_batch == as_reader
    assert len(as_batch) == 28


def test_empty_result_drops_all(shards, tmp_path):
    report, kept = run(shards, tmp_path, Map(lambda table: table.slice(0, 0)))

    assert kept == []
    assert report.counts("output")["rows"] == 0


def test_lazily_located_images_are_null_and_fetched_at_write(shards, tmp_path):
    seen = []
    _report, kept = run(
        shards,
        tmp_path,
        Map(lambda table: seen.append(table["binary_content"].null_count == len(table)) or table),
    )

    assert all(seen)
    images = [row["binary_content"] for row in kept if row["modality"] == "image"]
    assert [Image.open(io.BytesIO(image)).size for image in images] == [
        (96, 48),
        (48, 48),
        (48, 96),
    ] * 4


def test_images_are_there_when_they_were_read(shards, tmp_path):
    source = WebDatasetSource(shards, materialize_on_read=True)
    shown = []

    def look(table):
        shown.extend(
            table.filter(pc.equal(table["modality"], "image"))["binary_content"].to_pylist()
        )
        return table

    _report, kept = run(shards, tmp_path, Map(look), source=source)

    assert sorted(shown) == sorted(
        row["binary_content"] for row in kept if row["modality"] == "image"
    )


def test_moved_locator_fetches_the_other_image(tmp_path):
    body = b'{"texts": [null], "images": ["a.png"]}'
    images = {"a.png": encoded(picture(seed=1)), "b.png": encoded(picture(seed=2))}
    write_tar(tmp_path / "in" / "a.tar", images | {"a.json": body})

    def other(table):
        refs = pa.array(
            [
                f'{{"path": "{tmp_path}/in/a.tar", "member": "b.png"}}' if row == "image" else ref
                for row, ref in zip(
                    table["modality"].to_pylist(), table["source_ref"].to_pylist(), strict=True
                )
            ]
        )
        return with_column(table, "source_ref", refs)

    _report, kept = run(tmp_path / "in", tmp_path, Map(other))

    assert [row["binary_content"] for row in kept if row["modality"] == "image"] == [
        images["b.png"]
    ]


def test_raising_function_stops_the_run_and_is_the_cause(shards, tmp_path):
    problem = LookupError("no such label")

    def refuse(table):
        raise problem

    with pytest.raises(CurateError, match="refuse") as caught:
        run(shards, tmp_path, Map(refuse, name="refuse"))

    assert caught.value.__cause__ is problem
    assert "no such label" in str(caught.value)
    assert "shard-000.tar" in str(caught.value)
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize("result", [None, [1, 2], {"sample_id": ["a"]}, "table"])
def test_result_that_is_no_table_is_named(shards, tmp_path, result):
    with pytest.raises(CurateError, match="map") as caught:
        run(shards, tmp_path, Map(lambda table: result))

    assert type(caught.value.__cause__) is TypeError
    assert type(result).__name__ in str(caught.value.__cause__)


@pytest.mark.parametrize("name", ["sample_id", "position", "modality"])
def test_result_without_a_needed_column_is_named(shards, tmp_path, name):
    with pytest.raises((CurateError, FormatError), match=name):
        run(shards, tmp_path, Map(lambda table: table.drop_columns([name])))


@pytest.mark.parametrize("name", ["sample_id", "position", "modality"])
def test_null_in_a_needed_column_is_named(shards, tmp_path, name):
    def emptied(table):
        return with_column(table, name, pa.nulls(len(table), table.schema.field(name).type))

    with pytest.raises((CurateError, FormatError), match=name):
        run(shards, tmp_path, Map(emptied))


def test_what_is_no_stage_is_refused_at_once(tmp_path):
    with pytest.raises(OptionError, match="Map"):
        Pipeline(
            source=WebDatasetSource("in"),
            stages=[lambda table: table],
            sink=ParquetSink(tmp_path / "out"),
        )


def test_reencoding_is_a_stage_of_its_own(shards, tmp_path):
    source = WebDatasetSource(shards, materialize_on_read=True)
    _report, kept = run(shards, tmp_path, ReencodeImages("webp", quality=50), source=source)

    images = [row for row in kept if row["modality"] == "image"]
    assert {row["content_type"] for row in images} == {"image/webp"}
    assert {Image.open(io.BytesIO(row["binary_content"])).format for row in images} == {"WEBP"}
