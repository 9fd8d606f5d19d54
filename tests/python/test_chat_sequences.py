"""Sequences of conversations with images, against the processor of Qwen2-VL."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from chats_with_images import CONVERSATIONS, TEMPLATE, chat_sequences, said, user
from image_processors import image_processor
from interleaved_documents import BEGIN, FINISH, PAD, QWEN, picture, write_model
from pictures import opened

pytestmark = pytest.mark.usefixtures("counts_below")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"))


def write_chats(path, conversations, *, as_text=False):
    path.mkdir()
    rows = [
        {
            "messages": json.dumps(messages) if as_text else messages,
            "images": [{"bytes": image, "path": None} for image in images],
            "id": number,
        }
        for number, (messages, images) in enumerate(conversations)
    ]
    pq.write_table(pa.Table.from_pylist(rows), path / "0.parquet")
    return path


def expanded(model, messages, images):
    """The ids of the text in which each placeholder is repeated, as the processor does it."""
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(model / "tokenizer.json"))
    text = tokenizer.apply_chat_template(messages, chat_template=TEMPLATE, tokenize=False)
    inputs = {"image_grid_thw": np.empty((0, 3), np.int64), "pixel_values": []}
    if images:
        processor = image_processor("qwen2_vl", "Qwen2VL", **QWEN)
        inputs = processor([opened(image) for image in images], return_tensors="np")
    pieces = text.split(PAD)
    counts = inputs["image_grid_thw"].prod(1) // 4
    text = pieces[0] + "".join(
        PAD * count + piece for count, piece in zip(counts, pieces[1:], strict=True)
    )
    return tokenizer(text)["input_ids"], inputs


@pytest.mark.parametrize("as_text", [False, True], ids=["structs", "json"])
def test_conversations_are_those_of_the_processor(tmp_path, model, as_text):
    path = write_chats(tmp_path / "data", CONVERSATIONS, as_text=as_text)
    data = sm.Dataset(path, sequences=chat_sequences(model))
    assert data.columns[:2] == ["id", "tokens"]
    for row, (messages, images) in zip(data, CONVERSATIONS, strict=True):
        ids, inputs = expanded(model, messages, images)
        assert row["tokens"] == ids
        np.testing.assert_array_equal(
            np.reshape(row["image_grid_thw"], (-1, 3)), inputs["image_grid_thw"]
        )
        if images:
            np.testing.assert_allclose(
                row["pixel_values"], inputs["pixel_values"], rtol=0, atol=2.4e-7
            )


@pytest.mark.parametrize("kind", ["text", "assistant"])
def test_labels_of_conversations_leave_out_placeholders(tmp_path, model, kind):
    path = write_chats(tmp_path / "data", CONVERSATIONS)
    data = sm.Dataset(path, sequences=chat_sequences(model, labels=kind))
    pad, mark = sm.Tokenizer(model).token_id(PAD), ord("!")
    for row in data:
        tokens, labels = np.array(row["tokens"]), np.array(row["labels"])
        labelled = tokens == mark if kind == "assistant" else tokens != pad
        labelled[0] = False
        assert np.array_equal(labels, np.where(labelled, tokens, -100))


def test_conversations_are_packed_with_their_images(tmp_path, model):
    path = write_chats(tmp_path / "data", CONVERSATIONS * 4)
    data = sm.Dataset(path, sequences=chat_sequences(model))
    packing = sm.Packing(["tokens", "labels"], length=128, strategy="best_fit", long="raise")
    batches = list(sm.Loader(data, packing=packing, batch_size=2, output="numpy", shuffle=True))
    assert sum(len(batch["image_index"]) for batch in batches) == 16
    pad = sm.Tokenizer(model).token_id(PAD)
    for batch in batches:
        for pack, first, count in batch["image_index"]:
            assert set(batch["tokens"][pack, first : first + count]) == {pad}


def test_image_without_a_plan_takes_no_place(tmp_path, model):
    conversations = [([user(None, "a", None), said("b")], [b"no image", picture(40, 60)])]
    path = write_chats(tmp_path / "data", conversations)
    sequences = chat_sequences(model, image_output=sm.ImageOutput(on_error="null"))
    row = sm.Dataset(path, sequences=sequences)[0]
    assert (len(row["image_index"]), row["image_valid"]) == (1, [True])
    with pytest.raises(sm.errors.FormatError, match="part 0 of the document"):
        sm.Dataset(path, sequences=chat_sequences(model))[0]


@pytest.mark.parametrize(
    "messages, images, cause",
    [
        ([user("a"), said("b")], [picture(28, 28)], "0 placeholders for 1 image$"),
        ([user(None, PAD), said("b")], [picture(28, 28)], "2 placeholders for 1 image$"),
        ([user(None)], None, "1 placeholder for 0 images$"),
        ([{"role": "user", "content": [{"type": "audio"}]}], [], "only text and images"),
    ],
    ids=["none", "spelled", "null", "audio"],
)
def test_conversation_that_does_not_fit_its_images_is_an_error(
    tmp_path, model, messages, images, cause
):
    path = tmp_path / "data"
    path.mkdir()
    row = {"messages": json.dumps(messages), "images": images}
    schema = pa.schema([("messages", pa.string()), ("images", pa.list_(pa.binary()))])
    pq.write_table(pa.Table.from_pylist([row], schema=schema), path / "0.parquet")
    with pytest.raises(sm.errors.FormatError, match=f"(?m){cause}") as caught:
        sm.Dataset(path, sequences=chat_sequences(model))[0]
    assert "Row 0" in str(caught.value) and "`messages`" in str(caught.value)
    if "placeholder" in cause:
        assert "one that is spelled out in a text counts too" in str(caught.value)


NO_IMAGES = {
    "string": ["a.jpg"],
    "list<string>": [["a.jpg", "b.jpg"]],
    "list<struct<path: string>>": [[{"path": "a.jpg"}]],
    "int64": [3],
}


@pytest.mark.parametrize("name", NO_IMAGES)
def test_column_that_has_no_images_is_refused_for_images_from(tmp_path, model, name):
    path = tmp_path / "0.parquet"
    messages = json.dumps([user(None), said("b")])
    pq.write_table(pa.table({"messages": [messages], "images": NO_IMAGES[name]}), path)
    for on_error in ("raise", "null"):
        sequences = chat_sequences(model, image_output=sm.ImageOutput(on_error=on_error))
        with pytest.raises(sm.errors.FormatError) as caught:
            sm.Dataset(path, sequences=sequences)
        assert "Column `images` of" in str(caught.value) and "0.parquet" in str(caught.value)
        assert f"has the type {name}, which is not a type of images" in str(caught.value)
        assert "hint: images_from= names a column of bytes" in str(caught.value)


def test_column_of_messages_that_is_missing_is_an_error_with_those_of_the_file(tmp_path, model):
    path = write_chats(tmp_path / "data", CONVERSATIONS)
    with pytest.raises(KeyError, match="No column `nope`") as caught:
        sm.Dataset(path, sequences=chat_sequences(model, messages="nope"))
    assert "`messages`, `images`, `id`" in str(caught.value)
    for name in ("modality", "text_content", "binary_content", "materialize_error"):
        assert name not in str(caught.value)


def test_options_that_are_not_for_messages_are_refused(model):
    refused = [
        ({"images_from": None}, "messages requires images and images_from"),
        ({"images": None}, "messages requires images and images_from"),
        ({"messages": None}, "images_from and chat_template are for messages"),
        ({"separator": " "}, "separator is not for messages"),
        ({"marker": "<image>"}, "marker is not for messages"),
        ({"parts": ["a"]}, "parts is not for messages"),
        ({"eos": 3}, "eos is not for messages"),
        ({"labels": "function"}, "one of 'text', 'all', 'assistant', 'completion' or None for"),
        ({"chat_template": None}, "no chat template"),
    ]
    for options, reason in refused:
        with pytest.raises(ValueError, match=reason):
            chat_sequences(model, **options)


@pytest.mark.parametrize("cut", [{"strategy": "concat"}, {"strategy": "best_fit"}])
def test_conversations_are_cut_outside_of_images(tmp_path, model, cut):
    conversations = [
        ([user("a" * number, None, None, "b"), said("c" * 9)], [picture(28, 56, seed=number)] * 2)
        for number in range(12)
    ]
    path = write_chats(tmp_path / "data", conversations)
    data = sm.Dataset(path, sequences=chat_sequences(model))
    begin, pad, finish = map(sm.Tokenizer(model).token_id, (BEGIN, PAD, FINISH))
    images = 0
    packing = sm.Packing("tokens", length=16, **cut)
    for batch in sm.Loader(data, packing=packing, output="numpy"):
        for pack, first, count in batch["image_index"]:
            block = batch["tokens"][pack, first - 1 : first + count + 1].tolist()
            assert block == [begin, *[pad] * count, finish]
            images += 1
    assert images == 24
