import io
import json
import sys
import tarfile

import pytest
import shardmill as sm
from html_page import Page
from PIL import Image
from shardmill.curate import (
    AspectRatioFilter,
    InterleavedParquetSource,
    ParquetSink,
    Pipeline,
    Report,
    WebDatasetSink,
    WebDatasetSource,
)
from shardmill.curate._page import Thumbnailer, write_page
from shardmill.curate._pictures import Thumbnail
from shardmill.curate._templates import environment

ATTACK = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)> & \x00\x1b"


def encoded(mode="RGB", size=(40, 30), format="PNG", **options):
    target = io.BytesIO()
    Image.new(mode, size).save(target, format=format, **options)
    return target.getvalue()


def write_tar(path, members):
    with tarfile.open(path, "w") as tar:
        for name, payload in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(payload)
            tar.addfile(member, io.BytesIO(payload))


def document(texts, images, **extra):
    return json.dumps({"texts": texts, "images": images} | extra).encode()


@pytest.fixture
def shards(tmp_path):
    """A shard with a good document, bad images, hostile text and two broken samples.

    One image is rejected, the other one is missing.
    """
    directory = tmp_path / "shards"
    directory.mkdir()
    write_tar(
        directory / "a.tar",
        {
            "good.json": document(["A short text.", None, None], [None, "good.png", "tall.png"]),
            "good.png": encoded(),
            "tall.png": encoded(size=(10, 50)),
            f"{ATTACK.replace('/', '')[:40]}.json": document([ATTACK, None], [None, "good.png"]),
            "unseen.json": document(["No picture here:", None], [None, "cut.png"]),
            "cut.png": encoded()[:40],
            "broken.json": b"{" + ATTACK.encode(),
            "list.json": b"[]",
        },
    )
    return directory


def curated(shards, sink):
    return Pipeline(
        source=WebDatasetSource(shards), stages=[AspectRatioFilter(min=1.0, max=2.0)], sink=sink
    ).run()


@pytest.mark.parametrize("sink", [ParquetSink, WebDatasetSink])
def test_page_shows_documents_pictures_and_what_was_dropped(shards, tmp_path, sink):
    report = curated(shards, sink(tmp_path / "out"))
    page = Page(report.write_html(tmp_path / "page.html"))
    page.assert_self_contained()
    assert "A short text." in page.text
    assert "ratio 0.20, below 1" in page.text
    assert "aspect ratio out of range" in page.text
    assert "a.tar" in page.text
    assert "broken.json" in page.text
    assert "Pillow cannot show this image" in page.text
    images = page.attributes("img")
    assert len(images) == 3
    assert all(image["alt"] for image in images)
    assert page.attributes("svg")
    assert all(svg["aria-label"] for svg in page.attributes("svg") if svg.get("class") == "bar")


def test_page_shows_the_number_of_threads(shards, tmp_path):
    pipeline = Pipeline(source=WebDatasetSource(shards), sink=ParquetSink(tmp_path / "out"))
    page = Page(pipeline.run(threads=3).write_html(tmp_path / "page.html"))
    assert "at once3" in page.text


@pytest.mark.parametrize("sink", [ParquetSink, WebDatasetSink])
def test_text_of_the_data_set_never_becomes_markup(shards, tmp_path, sink):
    report = curated(shards, sink(tmp_path / "out"))
    report.params["stages"] = [ATTACK]
    report.error = ATTACK
    path = write_page(
        tmp_path / "page.html", {ATTACK: report, "other": report}, title=ATTACK, introduction=ATTACK
    )
    page = Page(path)
    page.assert_self_contained()
    assert "<script>alert(1)</script>" in page.text
    assert "\x00" not in page.source
    assert "\x1b" not in page.source


def test_lone_surrogate_is_replaced(tmp_path):
    page = Page(Report(params={}, error="a\ud800b").write_html(tmp_path / "page.html"))
    assert "a�b</p>" in page.source


def test_page_without_pillow_says_so(shards, tmp_path, monkeypatch):
    report = curated(shards, WebDatasetSink(tmp_path / "out"))
    monkeypatch.setitem(sys.modules, "PIL", None)
    page = Page(report.write_html(tmp_path / "page.html"))
    assert "Pillow is not installed" in page.text
    assert "A short text." in page.text
    assert not page.attributes("img")


def test_page_without_pyarrow_says_so(shards, tmp_path, monkeypatch):
    report = curated(shards, ParquetSink(tmp_path / "out"))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    page = Page(report.write_html(tmp_path / "page.html"))
    assert "pyarrow is not installed" in page.text


def test_page_without_jinja_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"pip install 'shardmill\[report\]'"):
        Report(params={}).write_html(tmp_path / "deep" / "page.html")
    assert not list(tmp_path.iterdir())


def test_rejected_images_of_parquet_are_shown_too(shards, tmp_path):
    Pipeline(source=WebDatasetSource(shards), sink=ParquetSink(tmp_path / "all")).run()
    pipeline = Pipeline(
        source=InterleavedParquetSource(tmp_path / "all"),
        stages=[AspectRatioFilter()],
        sink=ParquetSink(tmp_path / "out"),
    )
    page = Page(pipeline.run().write_html(tmp_path / "page.html"))
    assert "ratio 0.20, below 1" in page.text


@pytest.mark.parametrize("sink", [ParquetSink, WebDatasetSink])
def test_positions_are_those_of_the_rows_gaps_included(tmp_path, sink):
    directory = tmp_path / "shards"
    directory.mkdir()
    write_tar(
        directory / "a.tar",
        {
            "a.json": document(
                [None, "One.", None, None, "Four."], [None, None, None, "a.png", None]
            ),
            "a.png": encoded(),
        },
    )
    report = Pipeline(source=WebDatasetSource(directory), sink=sink(tmp_path / "out")).run()
    page = Page(report.write_html(tmp_path / "page.html"))
    assert "1One." in page.text
    assert "4Four." in page.text
    assert page.attributes("img")[0]["alt"].startswith("Image at position 3:")


def test_outputs_that_are_gone_leave_the_numbers(shards, tmp_path):
    report = curated(shards, WebDatasetSink(tmp_path / "out"))
    for output in report.outputs:
        (tmp_path / "out" / output["path"].rsplit("/")[-1]).unlink()
    page = Page(report.write_html(tmp_path / "page.html"))
    assert "There are none to show." in page.text
    assert "aspect ratio out of range" in page.text


def test_report_of_nothing_makes_a_page(tmp_path):
    page = Page(Report(params={}).write_html(tmp_path / "deep" / "page.html"))
    assert "Nothing: every sample of every file could be read." in page.text


def test_page_of_a_run_that_stopped_does_not_say_that_all_files_were_read(tmp_path):
    page = Page(Report(params={}, error="no space").write_html(tmp_path / "page.html"))
    assert "Nothing before the run stopped." in page.text
    assert "every sample of every file" not in page.text


def test_long_quarantine_is_cut_and_says_so(tmp_path):
    directory = tmp_path / "shards"
    directory.mkdir()
    write_tar(directory / "a.tar", {f"{index}.json": b"{" for index in range(100)})
    report = Pipeline(
        source=WebDatasetSource(directory), sink=WebDatasetSink(tmp_path / "out")
    ).run()
    page = Page(report.write_html(tmp_path / "page.html"))
    assert "and 40 more: see quarantine.jsonl" in page.text


def test_options_that_mean_nothing_are_refused(tmp_path):
    with pytest.raises(sm.OptionError):
        write_page(tmp_path / "page.html", {})
    with pytest.raises(sm.OptionError):
        write_page(tmp_path / "page.html", Report(params={}), samples=-1)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("mode", "format", "options"),
    [
        ("1", "TIFF", {"compression": "group4"}),
        ("P", "GIF", {}),
        ("CMYK", "TIFF", {"compression": "jpeg"}),
        ("I;16", "TIFF", {}),
        ("F", "TIFF", {}),
        ("RGBA", "PNG", {}),
        ("LA", "PNG", {}),
        ("RGB", "WEBP", {}),
        ("L", "BMP", {}),
    ],
)
def test_every_mode_becomes_a_thumbnail(mode, format, options):
    thumbnail = Thumbnailer().thumbnail(encoded(mode, (60, 20), format, **options))
    assert isinstance(thumbnail, Thumbnail), thumbnail
    assert (thumbnail.width, thumbnail.height) == (60, 20)


def test_huge_image_is_not_decoded_for_a_thumbnail():
    payload = bytearray(encoded())
    payload[16:24] = (20_000).to_bytes(4, "big") * 2
    assert "too many for a thumbnail" in Thumbnailer().thumbnail(bytes(payload))


def test_full_page_takes_no_more_pictures():
    thumbnailer = Thumbnailer(left_bytes=1)
    assert isinstance(thumbnailer.thumbnail(encoded()), Thumbnail)
    assert thumbnailer.thumbnail(encoded()) == "Not shown, to keep this page small."


def test_bar_never_leaves_its_track():
    single = environment("curate/_page", extra="report").get_template("macros.html").module.single
    assert 'width="100.00%"' in single(5, 2, "too much")
    assert 'width="0.00%"' in single(1, 0, "nothing to compare with")
