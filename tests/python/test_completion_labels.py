"""Labels of completions: the last text of a document, and the last turn of an assistant."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from image_processors import image_processor
from interleaved_documents import (
    BEGIN,
    END,
    FINISH,
    PAD,
    QWEN,
    picture,
    qwen_sequences,
    write_documents,
    write_model,
)
from pictures import opened

pytestmark = pytest.mark.usefixtures("counts_below")

TEMPLATE = (
    "{% for message in messages %}{{ message.role }}:"
    "{% for part in message.content %}{% if part.type == 'image' %}"
    f"{BEGIN}{PAD}{FINISH}"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}"
    f"{END}"
    "{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"
)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"))


def said(role, *parts):
    content = [
        {"type": "image"} if part is None else {"type": "text", "text": part} for part in parts
    ]
    return {"role": role, "content": content}


def written(path, rows, **types):
    path.mkdir(exist_ok=True)
    table = pa.Table.from_pylist(rows)
    for name, data_type in types.items():
        table = table.set_column(
            table.column_names.index(name), name, pa.array([row[name] for row in rows], data_type)
        )
    pq.write_table(table, path / "0.parquet")
    return path


class Processor:
    """The parts of the processor of Qwen2-VL that the collator of trl uses."""

    def __init__(self, model):
        from transformers import PreTrainedTokenizerFast

        self._tokenizer = PreTrainedTokenizerFast(
            tokenizer_file=str(model / "tokenizer.json"), pad_token=END
        )
        self._images = image_processor("qwen2_vl", "Qwen2VL", **QWEN)

    def apply_chat_template(self, messages, **options):
        return self._tokenizer.apply_chat_template(messages, chat_template=TEMPLATE, **options)

    def __call__(self, *, text, images=None, **options):
        [text], [images] = text, images or [[]]
        counts = []
        if images:
            grids = self._images([opened(image) for image in images], return_tensors="np")
            counts = grids["image_grid_thw"].prod(1) // 4
        first, *pieces = text.split(PAD)
        text = first + "".join(
            PAD * count + piece for count, piece in zip(counts, pieces, strict=True)
        )
        return self._tokenizer([text], **options)


def by_trl(model, prompt, completion, images):
    """Tokens and labels of a prompt and its completion, texts or messages."""
    sft_trainer = pytest.importorskip("trl.trainer.sft_trainer")
    collator = sft_trainer.DataCollatorForVisionLanguageModeling(
        Processor(model), completion_only_loss=True
    )
    example = {"prompt": prompt, "completion": completion, "images": images}
    made = collator.torch_call([example])
    return made["input_ids"][0].tolist(), made["labels"][0].tolist()


def test_last_text_of_a_document_and_its_end_are_labelled(tmp_path, model):
    image, null = picture(28, 28), {"modality": "text"}
    documents = [
        ["q", image, "ab"],
        ["q", "a", image],
        ["q", null],
        ["one"],
        [image],
        ["q", ""],
        [],
    ]
    path = write_documents(tmp_path / "data", documents)
    sequences = qwen_sequences(model, labels="completion", separator="\n", bos=END)
    a, b, n, e = map(ord, "abne")
    end = sm.Tokenizer(model).token_id(END)
    expected = [
        [None, None, None, None, None, a, b, end],
        [None, None, None, a, None, None, None, end],
        [None, None, None],
        [None, ord("o"), n, e, end],
        # An image alone has no text, and so no completion.
        [None] * 5,
        [None, None, None, end],
        [],
    ]
    for row, labels in zip(sm.Dataset(path, sequences=sequences), expected, strict=True):
        assert row["labels"] == [-100 if label is None else label for label in labels]
    without = qwen_sequences(model, labels="completion", eos=None)
    # No token predicts the first one.
    assert sm.Dataset(path, sequences=without)[3]["labels"] == [-100, n, e]


def test_images_in_the_last_text_have_no_label(tmp_path, model):
    path = write_documents(tmp_path / "data", [["q", picture(28, 28), "a<image>b"]])
    sequences = qwen_sequences(model, labels="completion", marker="<image>")
    [row] = sm.Dataset(path, sequences=sequences)
    end = sm.Tokenizer(model).token_id(END)
    assert row["labels"] == [-100, ord("a"), -100, -100, -100, ord("b"), end]


def test_last_column_of_texts_is_the_completion_as_in_trl(tmp_path, model):
    texts = [("what is this?", " well"), ("", "hello\n"), (" we", "ä x")]
    rows = [
        {"image": picture(40, 60, seed=seed), "question": question, "answer": answer}
        for seed, (question, answer) in enumerate(texts)
    ]
    path = written(tmp_path / "data", rows)
    parts = ["image", "question", "answer"]
    data = sm.Dataset(path, sequences=qwen_sequences(model, parts=parts, labels="completion"))
    for row, found in zip(rows, data, strict=True):
        prompt = f"{BEGIN}{PAD}{FINISH}{row['question']}"
        expected = by_trl(model, prompt, f"{row['answer']}{END}", [row["image"]])
        assert (found["tokens"], found["labels"]) == expected


@pytest.mark.parametrize("as_list", [False, True], ids=["text", "list"])
def test_question_is_not_labelled_in_place_of_a_missing_answer(tmp_path, model, as_list):
    rows = [
        {"question": "q", "answer": ["a", "b"] if as_list else "ab"},
        {"question": "q", "answer": None},
        *([{"question": "q", "answer": []}, {"question": "q", "answer": ["a", None]}] * as_list),
    ]
    kind = pa.list_(pa.string()) if as_list else pa.string()
    path = written(tmp_path / "data", rows, answer=kind)
    given = {"parts": ["question", "answer"], "labels": "completion", "eos": None}
    labels = [row["labels"] for row in sm.Dataset(path, sequences=qwen_sequences(model, **given))]
    first = [-100, -100, ord("b")] if as_list else [-100, ord("a"), ord("b")]
    assert labels[:2] == [first, [-100]]
    assert labels[2:] == [[-100], [-100, -100]] * as_list


CONVERSATIONS = [
    ([said("user", None, "what?"), said("assistant", "well")], [picture(40, 60)]),
    (
        [
            *[said("user", "a"), said("assistant", "b")],
            *[said("user", "c", None), said("assistant", "d")],
        ],
        [picture(28, 90)],
    ),
    ([said("system", "x"), said("user", "y"), said("assistant", "")], []),
]


def test_last_turn_of_an_assistant_is_the_completion_as_in_trl(tmp_path, model):
    rows = [{"messages": messages, "images": images} for messages, images in CONVERSATIONS]
    path = written(tmp_path / "data", rows, images=pa.list_(pa.binary()))
    given = {"messages": "messages", "images_from": "images", "chat_template": TEMPLATE}
    sequences = qwen_sequences(model, **given, labels="completion", eos=None)
    data = sm.Dataset(path, sequences=sequences)
    for found, (messages, images) in zip(data, CONVERSATIONS, strict=True):
        expected = by_trl(model, messages[:-1], messages[-1:], images)
        assert (found["tokens"], found["labels"]) == expected


def test_last_turn_of_messages_is_the_completion_of_those_before_it(tmp_path, model):
    conversations = [messages for messages, images in CONVERSATIONS[1:] if not images]
    conversations.append([said("user", "a"), said("assistant", "b"), said("assistant", "c")])
    rows = [
        {"messages": messages, "prompt": messages[:-1], "completion": messages[-1:]}
        for messages in conversations
    ]
    path = written(tmp_path / "data", rows)
    common = {"tokenizer": model, "chat_template": TEMPLATE, "labels": "completion"}
    found, expected = (
        [
            (row["tokens"], row["labels"])
            for row in sm.Dataset(path, tokenize=sm.Tokenize(**source, **common))
        ]
        for source in (
            {"messages": "messages"},
            {"prompt": "prompt", "completion": "completion"},
        )
    )
    assert found == expected
    # What a user says after it has no label.
    rows = [{"messages": [*conversations[0], said("user", "z")]}]
    path = written(tmp_path / "more", rows)
    [row] = sm.Dataset(path, tokenize=sm.Tokenize(messages="messages", **common))
    labels = expected[0][1]
    assert row["labels"][: len(labels)] == labels
    assert set(row["labels"][len(labels) :]) == {-100}


@pytest.mark.parametrize("source", ["parts", "documents", "messages"])
def test_document_without_a_completion_is_delivered_or_an_error(tmp_path, model, source):
    if source == "parts":
        rows = [{"q": "q", "a": "b"}, {"q": "q", "a": None}]
        path, given = written(tmp_path / "data", rows), {"parts": ["q", "a"], "eos": None}
    elif source == "documents":
        documents = [["a", "b"], [picture(28, 28)], []]
        path, given = write_documents(tmp_path / "data", documents), {}
    else:
        rows = [{"messages": [said("user", "a"), said("assistant", "b")], "images": []}]
        rows.append({"messages": [said("user", "a")], "images": []})
        path = written(tmp_path / "data", rows, images=pa.list_(pa.binary()))
        given = {"messages": "messages", "images_from": "images", "chat_template": TEMPLATE}
        given["eos"] = None
    kept = sm.Dataset(path, sequences=qwen_sequences(model, labels="completion", **given))
    loader = sm.Loader(kept, batch_size=3, output="rows")
    [rows] = loader
    assert set(rows[1]["labels"]) == {-100}
    assert loader.metrics().rows_without_labels == 1
    required = sm.Labels("completion", on_unlabelled="raise")
    data = sm.Dataset(path, sequences=qwen_sequences(model, labels=required, **given))
    assert set(data[0]["labels"]) > {-100}
    with pytest.raises(sm.errors.FormatError, match=r"Row 1 of .*0\.parquet") as caught:
        data[1]
    assert "no token of the row has a label" in str(caught.value)
    assert 'hint: on_unlabelled="keep"' in str(caught.value)


def test_counts_of_other_labels_are_used_unless_labels_are_required(tmp_path, model, counts_below):
    path = write_documents(tmp_path / "data", [["a", "b"], [picture(28, 28)]])

    def files_of(labels):
        sequences = qwen_sequences(model, labels=labels)
        sm.Dataset(path, sequences=sequences).token_counts()
        return len(list(counts_below.rglob("counts-*.parquet")))

    assert [files_of(labels) for labels in (None, "text", "all", "completion")] == [1] * 4
    with pytest.raises(sm.errors.FormatError, match="no token of the row has a label"):
        files_of(sm.Labels("completion", on_unlabelled="raise"))
