"""Documents that are JSON objects: MMC4, OmniCorpus, chats, images in base64."""

import gzip
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from shard_builders import curate, from_tar, image, write_tar
from shardmill.curate import DocumentKeys, InterleavedJsonlSource, ParquetSink, Pipeline
from shardmill.errors import MissingColumnError, OptionError

JPEG, PNG = image(), image("PNG", (7, 9))
BASE64 = b64encode(PNG).decode()


@pytest.fixture
def run(tmp_path: Path, out: Any) -> Any:
    """Curates objects, each on a line; what is text is a line as it is."""

    def run(*documents: Any, **options: Any) -> Any:
        names = ("keys", "fields", "max_decoded_bytes", "max_batch_bytes")
        source = {name: options.pop(name) for name in names if name in options}
        lines = [found if isinstance(found, str) else json.dumps(found) for found in documents]
        path = tmp_path / "in" / options.pop("name", "web.jsonl")
        path.parent.mkdir(exist_ok=True)
        text = "\n".join(lines).encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
        return curate(InterleavedJsonlSource(path, **source), to=out(), **options)

    return run


def content(outcome: Any) -> list[Any]:
    """The content of each row that is not metadata."""
    return [
        row["text_content"] if row["modality"] == "text" else row["binary_content"]
        for row in outcome.rows
        if row["modality"] != "metadata"
    ]


def mmc4(*matched: int) -> dict[str, Any]:
    infos = [
        {
            "image_name": f"{place}.png",
            "raw_url": f"https://example.org/{place}.png",
            "matched_text_index": index,
            "matched_sim": 0.25,
        }
        for place, index in enumerate(matched)
    ]
    return {
        "url": "https://example.org",
        "text_list": ["first", "second", "third"],
        "image_info": infos,
        "similarity_matrix": [[0.5, 0.25, 1.0]] * len(matched),
        "could_have_url_duplicate": 0,
    }


def test_mmc4_images_stand_before_the_texts_that_they_match(run: Any, tmp_path: Path) -> None:
    (tmp_path / "in" / "images").mkdir(parents=True)
    for place in range(3):
        (tmp_path / "in" / "images" / f"{place}.png").write_bytes(b"%d" % place + PNG)
    keys = DocumentKeys(image_root=tmp_path / "in" / "images")
    outcome = run(mmc4(2, 0, 2), keys=keys)
    images = [b"%d" % place + PNG for place in range(3)]
    assert content(outcome) == [images[1], "first", "second", images[0], images[2], "third"]
    infos = [json.loads(info) for info in outcome.column("image_info", "image")]
    assert [info["image_name"] for info in infos] == ["1.png", "0.png", "2.png"]
    assert outcome.column("image_info", "text") == [None] * 3
    assert outcome.column("could_have_url_duplicate", "metadata") == [0]
    assert "text_list" not in outcome.schema.names


def test_mmc4_image_of_a_text_that_is_not_there_is_quarantined(run: Any) -> None:
    outcome = run(mmc4(3), mmc4(), "{", name="web.jsonl")
    first, second = outcome.report.quarantined
    assert first["reason"] == (
        "line 1: `matched_text_index` of an image is 3, and there are 3 texts"
    )
    assert second["reason"].startswith("line 3: broken JSON")
    assert outcome.column("sample_id", "metadata") == ["web-1"]


def test_omnicorpus_is_parallel_lists_with_metadata(run: Any) -> None:
    document = {
        "images": ["https://example.org/a.jpg", None],
        "texts": [None, "b"],
        "metadata": [{"alt": "x"}, None],
        "general_metadata": {"url": "u"},
    }
    keys = DocumentKeys(per_image_fields=("metadata",))
    outcome = run(document, keys=keys, materialize_on_write=False)
    assert outcome.column("modality") == ["metadata", "image", "text"]
    assert outcome.column("metadata", "image") == ['{"alt": "x"}']
    assert outcome.column("general_metadata", "metadata") == ['{"url": "u"}']
    outcome = run({**document, "metadata": [1, 2, 3]}, keys=keys, materialize_on_write=False)
    assert outcome.report.quarantined[0]["reason"] == (
        "line 1: `metadata` has 3 values, and there are 1 image"
    )


@pytest.mark.parametrize(
    "value",
    [
        BASE64,
        f"data:image/png;base64,{BASE64}",
        {"bytes": BASE64, "path": None},
        {"image_url": {"url": f"data:image/png;base64,{BASE64}"}},
        [BASE64],
        BASE64.rstrip("="),
    ],
)
def test_image_in_base64_is_its_bytes(run: Any, value: Any) -> None:
    outcome = run({"image": value, "caption": "a", "n": 1})
    assert content(outcome) == [PNG, "a"]
    assert outcome.column("content_type", "image") == ["image/png"]


def test_base64_that_is_broken_is_an_error_of_its_row(run: Any) -> None:
    broken = [f"data:image/png;base64,{BASE64[:-3]}!", "data:image/png,x", BASE64 + "!"]
    outcome = run(*[{"image": text, "text": "a"} for text in broken], on_materialize_error="warn")
    assert outcome.column("materialize_error", "image") == ["the image is not valid base64"] * 3


def test_image_in_base64_of_a_tar_is_its_bytes(tmp_path: Path, out: Any) -> None:
    document = {"texts": [None, "a"], "images": [f"data:image/png;base64,{BASE64}"]}
    path = write_tar(tmp_path / "in" / "a.tar", {"a.json": document})
    assert content(curate(from_tar(path), to=out())) == [PNG, "a"]


def test_chat_of_openai_has_its_images_in_its_parts(run: Any) -> None:
    url = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{BASE64}"}}
    parts = [{"type": "text", "text": "What is <image>"}, url, {"type": "text", "text": "?"}]
    messages = [
        {"role": "user", "content": parts},
        {"role": "assistant", "content": "A cat."},
        {"role": "assistant", "content": None},
    ]
    outcome = run({"messages": messages})
    # A text that is a part of its own has no markers.
    assert content(outcome) == ["What is <image>", PNG, "?", "A cat.", ""]
    assert outcome.column("turn")[1:] == [0, 0, 0, 1, 2]


def test_chat_of_llava_is_read_from_an_array(run: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.png").write_bytes(PNG)
    turns = [{"from": "human", "value": "<image>\nWhat?"}, {"from": "gpt", "value": "A cat."}]
    documents = [{"id": f"d{n}", "image": "a.png", "conversations": turns} for n in range(3)]
    keys = DocumentKeys(sample_id_field="id")
    outcome = run(json.dumps(documents, indent=1), name="llava.json", keys=keys)
    assert content(outcome) == [PNG, "\nWhat?", "A cat."] * 3
    assert outcome.column("sample_id", "metadata") == ["d0", "d1", "d2"]
    assert outcome.column("role", "text") == ["human", "gpt"] * 3


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ({"role": "user", "content": 5}, "the content of message 0 is a number"),
        ("hi", "message 0 is a string, not an object"),
        (
            {"role": "user", "content": "x", "tool_calls": [1]},
            "message 0 has the key `tool_calls`, which a row cannot hold",
        ),
        (
            {"role": "user", "content": [{"type": "video", "video": "a.mp4"}]},
            "message 0 has a part of type video",
        ),
        (
            {"role": "user", "content": [{"type": "image"}]},
            "its texts have 1 place for images, and it has 0 images",
        ),
    ],
)
def test_chat_that_rows_cannot_hold_is_quarantined(run: Any, message: Any, problem: str) -> None:
    good = {"messages": [{"role": "user", "content": "x"}]}
    outcome = run(good, {"messages": [message]})
    (item,) = outcome.report.quarantined
    assert item["reason"] == f"line 2: {problem}"
    assert content(outcome) == ["x"]


def test_compressed_lines_and_an_array_are_equal_to_lines(run: Any) -> None:
    # More than one piece that is read at once, with records across its end.
    texts = ["a" * number * 5000 for number in range(25)]
    documents = [
        {"texts": [text], "images": [BASE64], "n": number} for number, text in enumerate(texts)
    ]
    plain = run(*documents)
    assert run(*documents, name="web.jsonl.gz").rows == [
        {**row, "source_ref": row["source_ref"].replace("web.jsonl", "web.jsonl.gz")}
        if row["modality"] != "image"
        else row
        for row in plain.rows
    ]
    array = run(json.dumps(documents), name="web.json")
    small = run(*documents, memory_bytes=1000, max_batch_bytes=3000)
    assert len(small.files) > 1
    for other in (array, small):
        assert content(other) == content(plain)
        assert other.column("n") == plain.column("n")


def test_array_that_is_cut_keeps_the_documents_before_the_cut(run: Any) -> None:
    text = json.dumps([{"texts": ["a"]}, {"texts": ["b"]}])
    outcome = run(text[:-1], name="web.json")
    assert content(outcome) == ["a", "b"]
    (item,) = outcome.report.quarantined
    assert item["is_shard"]
    assert "the file ends before the array does" in item["reason"]


def test_objects_without_a_known_layout_stop_the_job(tmp_path: Path) -> None:
    path = tmp_path / "web.jsonl"
    path.write_text('{"alt": "a", "src": "b"}\n')
    pipeline = Pipeline(source=InterleavedJsonlSource(path), sink=ParquetSink(tmp_path / "out"))
    with pytest.raises(MissingColumnError, match="no known layout; they have `alt`, `src`"):
        pipeline.run(progress=False)
    assert not (tmp_path / "out").exists()


def test_single_object_without_a_known_layout_is_quarantined(run: Any) -> None:
    outcome = run({"texts": ["a"]}, {"alt": "x"})
    (item,) = outcome.report.quarantined
    assert item["reason"] == "line 2: the document has no known layout"


def test_key_that_no_object_has_stops_the_job(run: Any) -> None:
    with pytest.raises(OptionError, match=r"`fields`: the only sample does not have the key `x`"):
        run({"texts": ["a"]}, fields=("x",))


def test_values_of_other_kinds_are_one_column_and_late_ones_are_rescued(run: Any) -> None:
    outcome = run({"texts": ["a"], "n": 1, "source_ref": 2}, {"texts": ["b"], "n": "x"})
    assert outcome.column("n", "metadata") == ["1", '"x"']
    assert outcome.report.keys_dropped == {"key `source_ref` has the name of a reserved column": 1}


def test_line_beyond_the_limit_is_quarantined(run: Any) -> None:
    outcome = run({"texts": ["a"]}, {"texts": ["b" * 3_000_000]}, max_decoded_bytes=1_500_000)
    assert content(outcome) == ["a"]
    assert "max_decoded_bytes" in outcome.report.quarantined[0]["reason"]
