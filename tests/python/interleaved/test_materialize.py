"""When image bytes are fetched, and what happens if they cannot be read (specification §3)."""

import json
from pathlib import Path
from typing import Any

import pytest
from shard_builders import curate, document, from_tar, image, row, tiff, write_tar
from shardmill.curate import AspectRatioFilter, BlurFilter, ImageStage, ImageToTextRatioFilter

EAGER = {"source": {"materialize_on_read": True}}
LAZY = {"source": {"materialize_on_read": False}}
NEVER = {"source": {"materialize_on_read": False}, "materialize_on_write": False}
PAGES = tiff((20, 10), (30, 10), compression="jpeg")
#: Two good images, one unresolved token, one frame too many.
MEMBERS = [
    ("good.json", {"texts": ["t"], "images": [None, "x.png"]}),
    ("bad.json", {"texts": ["a", None, "b"], "images": [None, "missing.png", None, "x.png"]}),
    ("only.json", {"images": ["gone.png"]}),
    ("pages.json", {"images": ["p0", "p1", "p2"]}),
    ("x.png", image("PNG")),
    ("pages.tiff", PAGES),
]
MISSING = "missing member 'missing.png'"
FRAME = "failed to extract frame 2 from 'pages.tiff'"


@pytest.mark.parametrize("mode", [EAGER, LAZY, NEVER])
@pytest.mark.parametrize("sink", ["parquet", "webdataset"])
def test_error_stops_with_count_and_first_message_and_leaves_no_file(
    run_tar: Any, tmp_path: Path, mode: Any, sink: str
) -> None:
    with pytest.raises(RuntimeError, match=rf"\(\d errors\)\. First: {MISSING}"):
        run_tar(MEMBERS, sink=sink, **mode)
    assert [path for path in (tmp_path / "out0").iterdir() if not path.name.startswith(".")] == []


def test_files_of_earlier_splits_stay_after_an_error(tmp_path: Path, out: Any) -> None:
    write_tar(tmp_path / "in" / "a.tar", {"a.json": {"texts": ["t"]}})
    write_tar(tmp_path / "in" / "b.tar", {"b.json": {"images": ["none.png"]}})
    target = out()
    with pytest.raises(RuntimeError):
        curate(from_tar(tmp_path / "in"), to=target, workers=1)
    assert len(list(target.glob("*.parquet"))) <= 1


@pytest.mark.parametrize("mode", [EAGER, LAZY])
def test_warn_keeps_every_row(run_tar: Any, mode: Any) -> None:
    outcome = run_tar(MEMBERS, on_materialize_error="warn", **mode)
    assert len(outcome.rows) == 14
    assert [error for error in outcome.column("materialize_error") if error] == [
        MISSING,
        "missing member 'gone.png'",
        FRAME,
    ]
    metrics = outcome.report.to_dict()
    assert (
        metrics["input_materialize_error_count"],
        metrics["output_materialize_error_count"],
    ) == (3, 3)
    assert outcome.report.warnings == {
        f"materialize: {error}": 1 for error in (MISSING, "missing member 'gone.png'", FRAME)
    }


def errors_warned_of(report: Any) -> dict[str, int]:
    return {
        text: times for text, times in report.warnings.items() if text.startswith("materialize")
    }


def test_warnings_count_the_rows_of_each_error_and_the_rest_together(run_tar: Any) -> None:
    images = ["same.png"] * 5 + [f"{number:02}.png" for number in range(30)]
    report = run_tar([("a.json", {"images": images})], on_materialize_error="warn").report
    found = errors_warned_of(report)
    assert found["materialize: missing member 'same.png'"] == 5
    assert len(found) == 21 and sum(found.values()) == len(report.row_errors) == 35
    assert found["materialize, other errors"] == 11


def test_warnings_of_all_splits_together_are_bounded(tmp_path: Path, out: Any) -> None:
    for name in "abc":
        write_tar(
            tmp_path / "in" / f"{name}.tar",
            {"d.json": {"images": [f"{name}{number}.png" for number in range(15)]}},
        )
    found = errors_warned_of(
        curate(from_tar(tmp_path / "in"), to=out(), on_materialize_error="warn").report
    )
    assert len(found) == 21 and sum(found.values()) == 45


def test_never_writes_refs_and_keeps_the_errors_that_were_known_at_read(run_tar: Any) -> None:
    outcome = run_tar(MEMBERS, on_materialize_error="warn", **NEVER)
    assert set(outcome.column("binary_content")) == {None}
    assert [error for error in outcome.column("materialize_error") if error] == [
        MISSING,
        "missing member 'gone.png'",
    ]
    assert json.loads(outcome.column("source_ref")[-1])["frame_index"] == 2


@pytest.mark.parametrize("mode", [EAGER, LAZY])
def test_drop_row_renumbers_affected_samples_and_removes_those_left_empty(
    run_tar: Any, mode: Any
) -> None:
    outcome = run_tar(MEMBERS, on_materialize_error="drop_row", **mode)
    expected = [("good", -1, "metadata"), ("good", 0, "text"), ("good", 1, "image")]
    expected += [
        ("bad", -1, "metadata"),
        ("bad", 0, "text"),
        ("bad", 1, "text"),
        ("bad", 2, "image"),
    ]
    expected += [("pages", -1, "metadata"), ("pages", 0, "image"), ("pages", 1, "image")]
    assert outcome.shape() == expected
    assert outcome.report.rows_dropped == {
        "materialize_error": 3,
        "metadata of a sample without content": 1,
    }


def test_drop_row_leaves_the_positions_of_other_samples_alone(run_tar: Any) -> None:
    members = [
        ("a.json", {"texts": [None, "t"]}),
        ("b.json", {"texts": [None, "t"], "images": ["none.png"]}),
    ]
    outcome = run_tar(members, on_materialize_error="drop_row")
    assert [position for _, position, _ in outcome.shape()] == [-1, 1, -1, 0]


@pytest.mark.parametrize("mode", [EAGER, LAZY])
def test_drop_sample_removes_all_rows_of_affected_samples(run_tar: Any, mode: Any) -> None:
    outcome = run_tar(MEMBERS, on_materialize_error="drop_sample", **mode)
    assert {key for key, _, _ in outcome.shape()} == {"good"}
    assert sum(outcome.report.rows_dropped.values()) == 11


@pytest.mark.parametrize("policy", ["warn", "drop_row", "drop_sample"])
@pytest.mark.parametrize("sink", ["parquet", "webdataset"])
@pytest.mark.parametrize(
    "stages", [[], [AspectRatioFilter(0.1, 10)], [BlurFilter(0.0), ImageToTextRatioFilter()]]
)
def test_eager_and_lazy_write_the_same_bytes(
    run_tar: Any, policy: str, sink: str, stages: Any
) -> None:
    runs = [
        run_tar(MEMBERS, stages, sink=sink, on_materialize_error=policy, **mode)
        for mode in (EAGER, LAZY)
    ]
    assert runs[0].bytes_of_files() == runs[1].bytes_of_files()
    assert runs[0].report.rows_dropped == runs[1].report.rows_dropped


def test_eager_bytes_are_written_although_the_sink_fetches_nothing(run_tar: Any) -> None:
    outcome = run_tar(
        MEMBERS[:1] + MEMBERS[-2:], source={"materialize_on_read": True}, materialize_on_write=False
    )
    assert outcome.column("binary_content", "image") == [image("PNG")]


@pytest.mark.parametrize("policy", ["raise", "warn", "drop_row", "drop_sample"])
@pytest.mark.parametrize("materialize_on_write", [True, False])
def test_error_that_came_with_the_rows_is_the_policys_too(
    run_rows: Any, policy: str, materialize_on_write: bool
) -> None:
    rows = [
        *document("a", "t"),
        row("a", 1, "image", materialize_error="of old"),
        *document("b", "t"),
    ]
    options = {"on_materialize_error": policy, "materialize_on_write": materialize_on_write}
    if policy == "raise":
        with pytest.raises(RuntimeError, match="of old"):
            run_rows(rows, **options)
        return
    count = {"warn": 5, "drop_row": 4, "drop_sample": 2}[policy]
    assert len(run_rows(rows, **options).rows) == count


@pytest.mark.parametrize("policy", ["raise", "warn", "drop_row"])
def test_row_with_an_error_is_not_judged_by_a_filter_but_by_the_policy(
    run_tar: Any, policy: str
) -> None:
    def run() -> Any:
        stages = [AspectRatioFilter(5, 6), BlurFilter(1e9)]
        return run_tar(MEMBERS[1:2] + MEMBERS[-2:-1], stages, on_materialize_error=policy)

    if policy == "raise":
        with pytest.raises(RuntimeError, match=MISSING):
            run()
        return
    outcome = run()
    kept = [("bad", -1, "metadata"), ("bad", 0, "text"), ("bad", 1, "image"), ("bad", 2, "text")]
    assert outcome.shape() == (
        kept
        if policy == "warn"
        else [("bad", -1, "metadata"), ("bad", 0, "text"), ("bad", 1, "text")]
    )


def test_image_that_is_lost_after_it_was_located_gets_a_read_error(
    tmp_path: Path, out: Any
) -> None:
    """The stage cuts the shard at the first document; the second one's image is located already."""
    members = [
        ("a.json", {"images": ["x.png"]}),
        ("b.json", {"images": ["y.png"]}),
        ("x.png", image("PNG")),
        ("y.png", image("PNG")),
    ]
    path = write_tar(tmp_path / "a.tar", members)

    class Cut(ImageStage):
        name, drop_invalid_rows = "cut", True

        def keep_images(self, images: list[bytes], texts: list[list[str]]) -> list[bool]:
            path.write_bytes(b"")
            return [True] * len(images)

    outcome = curate(from_tar(path), [Cut()], to=out(), memory_bytes=1, on_materialize_error="warn")
    assert outcome.column("binary_content", "image") == [image("PNG"), None]
    assert outcome.column("materialize_error", "image") == [
        None,
        "range read error for member 'y.png'",
    ]


@pytest.mark.parametrize(
    "compression", ["raw", "jpeg", "tiff_lzw", "tiff_adobe_deflate", "packbits"]
)
@pytest.mark.parametrize("mode", [EAGER, LAZY])
def test_each_page_becomes_a_tiff_of_one_page_with_equal_pixels(
    run_tar: Any, compression: str, mode: Any
) -> None:
    import io

    import numpy as np
    from PIL import Image

    source = tiff((64, 30), (31, 77), (50, 50), compression=compression)
    outcome = run_tar({"d.json": {"images": ["a", "b", "c"]}, "d.tiff": source}, **mode)
    expected = Image.open(io.BytesIO(source))
    for page, body in enumerate(outcome.column("binary_content", "image")):
        found = Image.open(io.BytesIO(body))
        expected.seek(page)
        assert found.n_frames == 1
        assert np.array_equal(np.asarray(found), np.asarray(expected))
    assert outcome.report.to_dict()["pages_remuxed"] == 3
