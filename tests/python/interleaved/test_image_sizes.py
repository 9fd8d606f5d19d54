"""The columns `width` and `height` of `ParquetSink(image_sizes=True)`."""

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from PIL import Image
from shard_builders import curate, document, from_parquet, from_tar, image, row, tiff
from shardmill.curate import Map, ParquetSink, Pipeline, SizeFilter
from shardmill.errors import CheckpointMismatchError
from shardmill.resume import Checkpoint


def rotated(size: tuple[int, int]) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    return image(size=size, exif=exif)


def sizes(outcome: Any, modality: str | None = None) -> list[tuple[Any, Any]]:
    return list(
        zip(outcome.column("width", modality), outcome.column("height", modality), strict=True)
    )


def test_sizes_are_those_that_pillow_shows(run_tar: Any) -> None:
    images = {
        "a.jpg": rotated((40, 60)),
        "b.png": image("PNG", (7, 9)),
        "c.tiff": tiff((5, 4), (6, 8)),
        "d.webp": image("WEBP", (11, 12)),
    }
    names = [*images, "c.tiff"]
    outcome = run_tar({"x.json": {"texts": ["t"], "images": names}, **images}, image_sizes=True)
    shown = []
    for body in outcome.column("binary_content", "image"):
        with Image.open(io.BytesIO(body)) as found:
            found.load()
            orientation = found.getexif().get(0x0112, 1)
            shown.append(found.size[::-1] if orientation >= 5 else found.size)
    assert sizes(outcome, "image") == shown
    assert shown[0] == (60, 40)
    assert sizes(outcome, "text") == sizes(outcome, "metadata") == [(None, None)]
    assert outcome.schema.field("width").type == pa.int32()
    assert outcome.schema.names[-3:] == ["width", "height", "rescued"]


def test_sizes_are_null_where_an_image_has_none(run_rows: Any) -> None:
    rows = [
        *document("a", image(size=(3, 2)), b"not an image", b""),
        row("a", 3, "image", source_ref=json.dumps({"path": "absent.jpg"})),
    ]
    outcome = run_rows(rows, image_sizes=True, on_materialize_error="warn")
    assert sizes(outcome, "image") == [(3, 2), (None, None), (None, None), (None, None)]


def test_sizes_are_known_without_the_bytes(run_tar: Any) -> None:
    members = {"x.json": {"images": ["a.jpg"]}, "a.jpg": image(size=(30, 20))}
    outcome = run_tar(members, image_sizes=True, materialize_on_write=False)
    assert outcome.column("binary_content", "image") == [None]
    assert sizes(outcome, "image") == [(30, 20)]


def test_columns_of_the_input_with_these_names_give_way(run_tar: Any) -> None:
    members = {
        "x.json": {"images": ["a.jpg"], "width": "wide", "n": 1},
        "a.jpg": image(size=(30, 20)),
    }
    outcome = run_tar(members, image_sizes=True)
    assert sizes(outcome) == [(None, None), (30, 20)]
    assert outcome.column("n") == [1, None]
    assert outcome.report.keys_dropped == {"column `width` of the input, for image_sizes": 1}


def test_sizes_follow_filters_and_functions(run_rows: Any) -> None:
    rows = document("a", image(size=(3, 2)), image(size=(30, 20)), "t", n=5)
    stages = [SizeFilter(min_side=10), Map(lambda table: table)]
    outcome = run_rows(rows, stages, extras=[pa.field("n", pa.int64())], image_sizes=True)
    assert sizes(outcome) == [(None, None), (30, 20), (None, None)]
    assert outcome.column("n") == [5, None, None]
    plain = run_rows(rows, stages, extras=[pa.field("n", pa.int64())])
    assert [name for name in outcome.schema.names if name not in plain.schema.names] == [
        "width",
        "height",
    ]


def test_checkpoint_is_of_a_job_with_or_without_sizes(tmp_path: Path, run_tar: Any) -> None:
    run_tar({"x.json": {"texts": ["t"]}})
    source = from_tar(tmp_path / "in")

    def run(**options: Any) -> Any:
        sink = ParquetSink(tmp_path / "out", mode="resume", **options)
        checkpoint = Checkpoint(tmp_path / "state")
        return Pipeline(source=source, sink=sink, checkpoint=checkpoint).run(progress=False)

    run()
    with pytest.raises(CheckpointMismatchError):
        run(image_sizes=True)


def test_written_sizes_are_read_again(tmp_path: Path, run_rows: Any, out: Any) -> None:
    outcome = run_rows(document("a", image(size=(3, 2)), "t"), image_sizes=True)
    again = curate(from_parquet(outcome.directory), to=out())
    assert sizes(again) == sizes(outcome)
