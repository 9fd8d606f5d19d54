"""`shardmill view` in a real browser.

With SHARDMILL_SCREENSHOTS=DIRECTORY the pictures of the guide are written there.
"""

import io
import random
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from chromium import Window, chromium
from PIL import Image, ImageDraw

sys.path.append(str(Path(__file__).parents[1] / "python"))
from view_client import serving

ROWS = 240
KINDS = ["JPEG", "PNG", "WEBP", "GIF", "TIFF"]
ATTACK = (
    "<script>window.taken = 1</script><img src=x onerror='window.taken = 2'>"
    "\"'><svg onload=window.taken=3>"
)
SHAPES = {"circle": "ellipse", "square": "rectangle", "line": "line"}


def drawn(row, shape):
    chance = random.Random(row)
    image = Image.new("RGB", (240, 150), tuple(chance.randrange(200, 256) for _ in range(3)))
    pen = ImageDraw.Draw(image)
    for _ in range(5):
        left, top = chance.randrange(0, 190), chance.randrange(0, 100)
        box = [left, top, left + 45, top + 45]
        getattr(pen, SHAPES[shape])(
            box, fill=tuple(chance.randrange(40, 220) for _ in range(3)), width=4
        )
    target = io.BytesIO()
    image.save(target, format=KINDS[row % len(KINDS)])
    return target.getvalue()


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Rows with an image, a text and numbers; row 7 attacks, row 9 has a broken image."""
    directory = tmp_path_factory.mktemp("browser") / "shapes"
    directory.mkdir()
    chance = random.Random(0)
    shapes = [list(SHAPES)[row % 3] for row in range(ROWS)]
    table = pa.table(
        {
            "key": [f"shape-{row:04d}" for row in range(ROWS)],
            "image": [
                drawn(row, shape)[: 40 if row == 9 else None] for row, shape in enumerate(shapes)
            ],
            "caption": [
                ATTACK
                if row == 7
                else f"Five times a {shape} on a light ground, drawn as number {row}."
                for row, shape in enumerate(shapes)
            ],
            "label": shapes,
            "score": [chance.gauss(0.5, 0.15) for _ in range(ROWS)],
            "words": pa.array(
                [None if row % 9 == 4 else 9 + row % 7 for row in range(ROWS)], pa.int32()
            ),
            "tokens": [
                [chance.randrange(50_000) for _ in range(8 + chance.randrange(30))]
                for _ in range(ROWS)
            ],
            "made": [datetime(2026, 1, 1) + timedelta(hours=row) for row in range(ROWS)],
        }
    )
    pq.write_table(table.slice(0, 150), directory / "a.parquet", row_group_size=50)
    pq.write_table(table.slice(150), directory / "b.parquet", row_group_size=50)
    return directory


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    """Interleaved documents, as curation writes them."""
    from shardmill.curate import ParquetSink, Pipeline, WebDatasetSource

    from benchmarks.mint1t import write_dataset

    directory = tmp_path_factory.mktemp("documents")
    write_dataset(directory / "shards", shards=1)
    Pipeline(
        source=WebDatasetSource(directory / "shards"),
        stages=[],
        sink=ParquetSink(directory / "curated"),
    ).run()
    return directory / "curated"


@pytest.fixture(scope="module")
def driver():
    with chromium() as driver:
        yield driver


@pytest.fixture
def window(driver, pictures, monkeypatch):
    # So that the page shows the path as a user in its directory would write it.
    monkeypatch.chdir(pictures.parent)
    with serving(pictures.name) as client:
        yield Window(driver, client.server.address)


def test_pages_are_turned_by_keys_and_buttons(window):
    window.open()
    assert window.text("h1") == "shapes"
    assert window.text("#facts").startswith("240 rows · 8 columns · 2 parquet files")
    assert window.rows() == list(range(20))
    window.press("\ue014")
    window.until("return document.querySelector('[data-row]')?.dataset.row === '20'")
    assert window.rows() == list(range(20, 40))
    assert window.text("#range") == "20 – 39 of 240"
    window.find("#last")[0].click()
    window.settle()
    assert window.rows() == list(range(220, 240))
    assert not window.find("#next")[0].is_enabled()
    window.press("\ue012")
    window.until("return document.querySelector('[data-row]')?.dataset.row === '200'")
    window.fill("#row", "149")
    assert window.rows()[:2] == [149, 150]
    window.driver.back()
    window.until("return document.querySelector('[data-row]')?.dataset.row === '200'")


def test_pixels_of_four_epochs_are_displayed_and_a_form_shows_later_ones(
    driver, pictures, monkeypatch
):
    monkeypatch.chdir(pictures.parent)
    images = sm.Images("image", size=96, fit=sm.RandomCrop(), flip=0.5)
    with serving(pictures.name, images=images, seed=7) as client:
        window = Window(driver, client.server.address)
        window.open()
        window.until("return document.images[3]?.naturalWidth === 96")
        captions = (
            "return [...document.querySelectorAll('[data-row=\"0\"] figcaption')]"
            ".map((one) => one.textContent)"
        )
        # The caption of an image gets its size once it is loaded.
        window.until(
            "return [...document.querySelectorAll('[data-row=\"0\"] figcaption')]"
            ".every((one) => one.textContent.includes('×'))"
        )
        assert window.run(captions) == [f"96 × 96 · epoch {epoch}" for epoch in range(4)]
        window.screenshot("pixels")
        window.fill("#epoch", "5")
        window.until("return document.images[0]?.naturalWidth === 96")
        assert "epoch=5" in window.run("return document.images[0].src")


def test_images_are_displayed_beside_their_texts(window):
    window.open()
    shown = (
        "return [...document.querySelectorAll('[data-row] img')]"
        ".filter((image) => image.naturalWidth > 0).length"
    )
    window.run("for (const image of document.images) image.loading = 'eager'")
    # All but the broken one; the TIFFs were converted.
    window.until(f"{shown} === 19")
    window.until("return document.querySelector('[data-row=\"9\"] .unseen') !== null")
    sizes = window.run(
        "return [...document.images].map((image) => [image.naturalWidth, image.naturalHeight])"
    )
    assert sizes == [[240, 150]] * 19
    first = window.run(
        "const at = (name) => "
        "document.querySelector(`[data-row='0'] ${name}`).getBoundingClientRect(); "
        "return [at('.text').left, at('img').left, at('.text').top, at('img').bottom]"
    )
    assert first[0] < first[1] and first[2] < first[3]
    window.screenshot("samples")


def test_script_in_the_data_is_text_and_does_not_run(window):
    window.open("start=7&count=10")
    assert ATTACK in window.text("[data-row='7']")
    assert window.run("return window.taken") is None
    assert window.find("main script, main svg") == []
    blocked = (
        "try { document.body.insertAdjacentHTML('beforeend', '<b>x</b>'); return 'made' } "
        "catch (error) { return error.name }"
    )
    assert window.run(blocked) == "TypeError"
    window.open("view=columns")
    assert window.run("return window.taken") is None


def test_key_is_found(window):
    window.open()
    window.press("s")
    assert window.run("return document.activeElement.id") == "search-value"
    window.fill("#search-value", "shape-0123")
    assert window.rows() == [123]
    assert window.text("#kept").startswith("1 of 240 rows kept")
    window.find("#clear")[0].click()
    # The page begins to load after the click has ended.
    window.until("return document.querySelectorAll('main [data-row]').length === 20")


def test_filter_shows_what_it_keeps_beside_what_it_drops(window):
    window.open("count=10")
    window.press("/")
    window.fill("#filter", "label = 'circle' and words > 11")
    kept = [row for row in range(ROWS) if row % 3 == 0 and row % 9 != 4 and 9 + row % 7 > 11]
    assert window.text("#kept").startswith(f"{len(kept)} of 240 rows kept")
    assert window.rows("[data-half=kept]") == kept[:10]
    assert (
        window.rows("[data-half=dropped]") == [row for row in range(ROWS) if row not in kept][:10]
    )
    window.screenshot("filter")
    next(button for button in window.find("#verdict button") if button.text == "Kept").click()
    window.settle()
    assert window.rows() == kept[:10]
    next(button for button in window.find("#verdict button") if button.text == "All rows").click()
    window.settle()
    marked = [int(found.get_attribute("data-row")) for found in window.find(".kept[data-row]")]
    assert marked == [row for row in kept if row < 10]


def test_filter_that_makes_no_sense_says_where(window):
    window.open()
    window.fill("#filter", "label = circle")
    assert "put strings in single quotes: 'circle'" in window.text("#problem")
    window.fill("#filter", "label = 'circle")
    assert "^" in window.text("#problem")
    window.fill("#filter", "label = 'circle'")
    assert not window.find("#problem")[0].is_displayed()
    assert window.rows()


def test_columns_show_histograms_and_frequent_values(window):
    window.open("view=columns")
    assert window.text("#sample-note").startswith("Figures are of all 240 rows.")
    assert len(window.find(".column")) == 8
    assert [found.text for found in window.find(".column .label")][:3] == [
        "circle",
        "square",
        "line",
    ]
    assert len(window.find(".histogram rect")) > 60
    assert "11 % null" in window.text("main")
    window.screenshot("columns")


def test_table_shows_the_same_rows_densely(window):
    window.open()
    window.press("t")
    window.until("return document.querySelector('table') !== null")
    assert window.rows() == list(range(20))
    assert [found.text.split("\n")[0] for found in window.find("thead th")][:3] == [
        "row",
        "key",
        "image",
    ]


def test_dark_is_as_readable_as_light(window):
    window.open()
    light = window.run("return getComputedStyle(document.body).backgroundColor")
    features = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    window.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", features)
    try:
        assert window.run("return getComputedStyle(document.body).backgroundColor") != light
    finally:
        window.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_documents_show_images_beside_their_texts(driver, documents, monkeypatch):
    monkeypatch.chdir(documents.parent)
    with serving(documents.name) as client:
        window = Window(driver, client.server.address)
        features = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", features)
        try:
            window.open()
            window.until("return document.querySelector('.document img')?.naturalWidth > 0")
            first, *_ = window.find(".document")
            assert first.find_elements("css selector", ".texts .text")[0].text
            starts = window.rows()
            assert len(starts) == 10 and starts[0] == 0
            window.screenshot("documents")
            window.press("\ue014")
            window.until(
                f"return Number(document.querySelector('[data-row]')?.dataset.row) > {starts[-1]}"
            )
            window.press("\ue012")
            window.until("return document.querySelector('[data-row]')?.dataset.row === '0'")
        finally:
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_long_text_is_shown_whole_and_a_change_of_the_files_is_told(driver, tmp_path):
    path = tmp_path / "long.parquet"
    text = "&<b>\u00e9 " * 2_000
    pq.write_table(pa.table({"text": [text] * 30}), path)
    with serving(path) as client:
        window = Window(driver, client.server.address)
        window.open()
        window.find("[data-row='0'] .more")[0].click()
        window.until(
            "return document.querySelector('[data-row=\"0\"] .text').textContent.length "
            f"=== {len(text)}"
        )
        assert (
            window.run("return document.querySelector('[data-row=\"0\"] .text').textContent")
            == text
        )
        pq.write_table(pa.table({"text": ["new"] * 40}), path)
        window.press("\ue014")
        window.until("return !document.getElementById('problem').hidden")
        assert "Reload the page" in window.text("#problem") and window.rows() == []
        driver.refresh()
        window.until("return document.querySelector('[data-row]')?.dataset.row === '20'")
        assert "of 40" in window.text("#range")


def test_nothing_is_fetched_from_elsewhere_and_the_console_is_silent(window):
    window.driver.get("about:blank")
    window.requested()
    window.driver.get_log("browser")
    for fragment in ["", "view=columns", "view=files", "filter=label+%3D+'circle'", "layout=table"]:
        window.open(fragment)
    asked = [url for url in window.requested() if not url.startswith(("about:", "data:"))]
    # The page of the test before may have had images under way, from a server of its own.
    assert all(url.startswith("http://127.0.0.1:") for url in asked), asked
    origin = window.address.removesuffix(f"{window.address.split('/')[3]}/")
    own = [url for url in asked if url.startswith(origin)]
    assert own and all(url.startswith(window.address) for url in own), own
    # The image that is broken on purpose is told there by the browser itself.
    assert [
        entry for entry in window.driver.get_log("browser") if "data/image" not in entry["message"]
    ] == []


def test_page_of_another_origin_reads_nothing(window):
    window.driver.get("data:text/html,<title>elsewhere</title>")
    script = (
        "const done = arguments[1]; "
        "fetch(arguments[0]).then((answer) => done('read'), () => done('refused'))"
    )
    assert window.driver.execute_async_script(script, f"{window.address}data/files") == "refused"
