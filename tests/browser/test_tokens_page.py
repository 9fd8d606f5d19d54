"""Tokens and packs of `shardmill view` in a real browser.

With SHARDMILL_SCREENSHOTS=DIRECTORY the pictures of the guide are written there.
"""

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from chromium import Window, chromium

sys.path.append(str(Path(__file__).parents[1] / "python"))
from byte_tokenizer import END, TEMPLATE, write_tokenizer
from documents import encoded
from documents import picture as pictured
from interleaved_documents import qwen_sequences, write_documents, write_model
from view_client import serving

ATTACK = (
    "<script>window.taken = 1</script><img src=x onerror='window.taken = 2'>"
    "\"'><svg onload=window.taken=3>"
)
TEXTS = [
    "Shards are read in order,\n\tone after the other.  Two spaces.",
    "日本 and 🙂 are several tokens each.",
    ATTACK,
    "z" * 5_000,
    *[f"Document {number} is packed with its neighbors." for number in range(20)],
]
WORDS = """Shards are read in order one after the other Two spaces and several tokens each Document
is packed with its neighbors user assistant What It Packs hold"""


def merges():
    """Pairs that make the words letter by letter, also after a space.

    The long words come first, so that no other pair breaks them.
    """
    words = sorted(
        {word for plain in WORDS.split() for word in (plain, f" {plain}")}, key=len, reverse=True
    )
    made = {
        (word[: end - 1].encode(), word[end - 1 : end].encode()): None
        for word in words
        for end in range(2, len(word) + 1)
    }
    return [*made, ("日".encode()[:1], "日".encode()[1:2])]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return write_tokenizer(
        tmp_path_factory.mktemp("tokens") / "model", merges=merges(), template=TEMPLATE
    )


@pytest.fixture(scope="module")
def driver():
    with chromium() as driver:
        yield driver


@pytest.fixture(autouse=True)
def own_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("SHARDMILL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def window(driver, tmp_path, tokenizer):
    pq.write_table(pa.table({"text": TEXTS}), tmp_path / "texts.parquet")
    tokenize = sm.Tokenize("text", tokenizer=tokenizer, eos=True)
    with serving(
        "texts.parquet", tokenize=tokenize, packing=sm.Packing("tokens", length=256)
    ) as client:
        yield Window(driver, client.server.address)


def click(window, selector):
    """Clicks on an element, wherever the page is scrolled to."""
    window.run("document.querySelector(arguments[0]).click()", selector)


def text_of(window, row):
    """The text of all tokens of a row, as the page has it."""
    return window.run(f"return document.querySelector('[data-row=\"{row}\"] .tokens').textContent")


def test_tokens_are_boxes_whose_tooltips_have_the_ids(window, tokenizer):
    window.open("view=tokens")
    assert text_of(window, 0) == TEXTS[0] + END
    spans = window.find("[data-row='0'] .tokens > span")
    ids = [*tokenizer.encode(TEXTS[0]), tokenizer.token_id(END)]
    assert [span.get_attribute("title").split()[1].rstrip(",") for span in spans] == [
        str(number) for number in ids
    ]
    colors = [span.value_of_css_property("background-color") for span in spans[:4]]
    assert colors[0] == colors[2] != colors[1] == colors[3]
    assert spans[-1].get_attribute("class") == "special"
    # White space is marked, and a line break breaks the line.
    assert (
        window.run(
            "return getComputedStyle("
            "document.querySelector('main .card .newline'), '::before').content"
        )
        == '"↵"'
    )
    assert "radial-gradient" in window.find("main .card .space")[0].value_of_css_property(
        "background-image"
    )
    tops = window.run(
        "return [...document.querySelectorAll('[data-row=\"0\"] .tokens > span')]"
        ".map((span) => span.getBoundingClientRect().top)"
    )
    assert tops[0] < tops[-1]
    assert [found.text for found in window.find("[data-row='1'] .byte")][:2] == [
        "<0xE6><0x97>",
        "<0xA5>",
    ]
    assert (
        window.find("[data-row='1'] .byte")[0]
        .find_element("xpath", "..")
        .get_attribute("title")
        .endswith("part of 日")
    )


def test_script_in_the_data_is_text_and_does_not_run(window):
    window.open("view=tokens")
    assert text_of(window, 2) == ATTACK + END
    window.open("view=packs")
    assert window.run("return window.taken") is None
    assert window.find("main script, main img, main .tokens svg") == []


def test_long_row_is_shown_whole_when_it_is_asked_for(window):
    window.open("view=tokens")
    count = "return document.querySelectorAll('[data-row=\"3\"] .tokens > span').length"
    assert window.run(count) == 2_000
    click(window, "[data-row='3'] [data-tokens]")
    window.until(f"{count} === 5001")
    assert window.find("[data-row='3'] button[data-tokens]") == []
    assert text_of(window, 3) == TEXTS[3] + END


def test_rest_of_a_row_whose_file_changed_is_refused_on_the_page(window, tmp_path):
    window.open("view=tokens")
    pq.write_table(pa.table({"text": ["new"]}), tmp_path / "texts.parquet")
    click(window, "[data-row='3'] [data-tokens]")
    window.until(
        "return document.querySelector('[data-row=\"3\"] .note:last-child')"
        "?.textContent.includes('Reload the page')"
    )


def test_packs_show_their_documents_as_runs(window):
    window.open()
    assert window.text("h2").startswith("Pack 0")
    assert [found.get_attribute("data-document") for found in window.find(".piece")][:3] == [
        "0",
        "1",
        "2",
    ]
    widths = [
        int(found.get_attribute("width")) for found in window.find("svg.pack rect:not(.track)")
    ]
    assert sum(widths) == 256
    fills = [found.value_of_css_property("fill") for found in window.find("svg.pack rect")]
    assert len(set(fills)) == len(fills)
    last = int(window.text("#epoch").split()[0]) - 1
    window.press("\ue010")
    window.until(f"return document.querySelector('h2')?.textContent.startsWith('Pack {last}')")
    assert "of padding" in window.text("#pack-facts")
    assert window.find(".piece .tokens")[-1].text.endswith(f"neighbors.{END}")
    window.screenshot("packs")
    window.fill("#row", "1")
    assert window.text("#range") == f"pack 1 of {last + 1}"
    next(button for button in window.find(".piece button") if button.text == "its row").click()
    window.until("return document.querySelector('[data-row]') !== null")
    assert window.rows()[0] == 3


def test_images_are_drawn_in_the_places_of_their_tokens(driver, tmp_path):
    model = write_model(tmp_path / "model")
    bad = encoded(pictured(260, 170, seed=9), "JPEG")[:-200]
    documents = [
        [
            f"Shards are read in order: {number}. ",
            encoded(pictured(150 + 30 * number, 110, seed=number)),
            " What is it? ",
            encoded(pictured(100, 160, seed=number + 50), "JPEG") if number else bad,
            " It is packed with its neighbors.",
        ]
        for number in range(4)
    ]
    write_documents(tmp_path / "curated", documents)
    sequences = qwen_sequences(
        model,
        labels="completion",
        images=sm.ImageTokens.from_pretrained(model),
        image_output=sm.ImageOutput(on_error="null"),
    )
    packing = sm.Packing(
        ["tokens", "labels"], length=400, strategy="best_fit", pad_value={"labels": -100}
    )
    with serving("curated", sequences=sequences, packing=packing) as client:
        window = Window(driver, client.server.address)
        window.open()
        window.until(
            "return [...document.querySelectorAll('.picture img')]"
            ".every((image) => image.complete && image.naturalWidth)"
        )
        images = window.find(".picture img")
        assert len(images) == len(window.find("svg.pack .image")) == 8
        assert len(window.find(".picture.unseen")) == 1
        for image in images:
            assert 0 < image.size["height"] <= 122
        # An image is on the same line as the text before it.
        text, image = window.run(
            "return ['.piece .tokens > span', '.piece .picture'].map((selector) => "
            "document.querySelector(selector).getBoundingClientRect().toJSON())"
        )
        assert image["top"] < text["top"] < image["bottom"] and image["left"] > text["right"]
        labelled = window.find("[data-document='1'] .labelled")
        shown = "".join(found.get_attribute("textContent") for found in labelled)
        assert shown == f" It is packed with its neighbors.{END}"
        window.screenshot("documents-packed")


def test_labels_are_coloured_and_other_tokens_are_pale(driver, tmp_path, tokenizer):
    chats = [
        [
            {"role": "user", "content": f"What is {number} + {number}?"},
            {"role": "assistant", "content": f"It is {2 * number}."},
        ]
        for number in range(8)
    ]
    pq.write_table(pa.table({"messages": chats}), tmp_path / "chats.parquet")
    tokenize = sm.Tokenize(messages="messages", tokenizer=tokenizer, labels="assistant")
    with serving("chats.parquet", tokenize=tokenize) as client:
        window = Window(driver, client.server.address)
        window.open()
        labelled = window.find("[data-row='3'] .labelled")
        assert "".join(found.get_attribute("textContent") for found in labelled) == f"It is 6.{END}"
        pale = window.find("[data-row='3'] .tokens > span:not(.labelled)")
        assert labelled[0].value_of_css_property("color") != pale[0].value_of_css_property("color")
        assert "with a label" in window.text("#legend")
        window.screenshot("tokens")
        light = labelled[0].value_of_css_property("background-color")
        features = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", features)
        try:
            assert labelled[0].value_of_css_property("background-color") != light
        finally:
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_nothing_is_fetched_from_elsewhere_and_the_console_is_silent(window):
    window.driver.get("about:blank")
    window.requested()
    window.driver.get_log("browser")
    for fragment in ["view=tokens", "view=packs"]:
        window.open(fragment)
    asked = [url for url in window.requested() if not url.startswith(("about:", "data:"))]
    assert asked and all(url.startswith(window.address) for url in asked), asked
    assert window.driver.get_log("browser") == []
