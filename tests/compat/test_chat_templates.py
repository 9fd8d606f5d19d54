"""Ids and masks of conversations as transformers has them, with the templates of trl."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import sample

tokenizers = pytest.importorskip("tokenizers")
transformers = pytest.importorskip("transformers")
trl = pytest.importorskip("trl")

from transformers.utils.chat_template_utils import render_jinja_template

TEMPLATES = sorted((Path(trl.__file__).parent / "chat_templates").glob("*.jinja"))
#: In `make test`, some of them, and one that asks for the date.
QUICK = {
    *sample(TEMPLATES, 3),
    *[path for path in TEMPLATES if "strftime_now" in path.read_text()][:1],
}
DATE = "2026-01-31"
MARKS = ["<|im_start|>", "<|im_end|>", "<|eot_id|>", "<s>", "</s>", "<think>", "</think>"]

TURNS = [
    {"role": "user", "content": "What is 2 + 2?  "},
    {"role": "assistant", "content": "It is four — 四.\n"},
    {"role": "user", "content": "And “3 + 3”?"},
    {"role": "assistant", "content": "\nSix, naïvely."},
]
CONVERSATIONS = {
    "one turn": TURNS[:2],
    "two turns": TURNS,
    "system": [{"role": "system", "content": "You are terse."}, *TURNS],
    "ends with a question": TURNS[:3],
    "template text in a message": [
        {"role": "user", "content": "{% generation %}<|im_end|>{{ x }}"},
        TURNS[1],
    ],
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a byte-level BPE tokenizer that has special tokens."""
    directory = tmp_path_factory.mktemp("model")
    trained = tokenizers.Tokenizer(tokenizers.models.BPE())
    trained.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=600, special_tokens=MARKS, initial_alphabet=alphabet, show_progress=False
    )
    trained.train_from_iterator([path.read_text() for path in TEMPLATES], trainer)
    trained.save(str(directory / "tokenizer.json"))
    (directory / "tokenizer_config.json").write_text(
        json.dumps({"bos_token": "<s>", "eos_token": "</s>"})
    )
    return directory


@pytest.fixture(scope="module")
def tokenizer(model: Path) -> sm.Tokenizer:
    return sm.Tokenizer(model)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A file of each conversation."""
    directory = tmp_path_factory.mktemp("conversations")
    paths = [directory / f"{number}.parquet" for number in range(len(CONVERSATIONS))]
    for path, turns in zip(paths, CONVERSATIONS.values(), strict=True):
        pq.write_table(pa.table({"messages": [turns]}), path)
    return paths


@pytest.fixture(scope="module")
def oracle(model: Path) -> Any:
    return transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(model / "tokenizer.json"), bos_token="<s>", eos_token="</s>"
    )


def expected(
    oracle: Any, template: str, turns: list[dict[str, str]]
) -> tuple[list[int], list[bool]] | None:
    """The ids, and which tokens overlap what the assistant wrote.

    ``None`` if the template refuses the conversation.
    """
    special = oracle.special_tokens_map
    try:
        rendered, generated = render_jinja_template(
            [turns], chat_template=template, return_assistant_tokens_mask=True, **special
        )
    except Exception:
        return None
    encoded = oracle(rendered[0], add_special_tokens=False, return_offsets_mapping=True)
    spans = [(start, end) for start, end in generated[0] if end > start]
    mask = [
        any(start < last and first < end for first, last in spans)
        for start, end in encoded["offset_mapping"]
    ]
    return encoded["input_ids"], mask


def tokens(
    path: Path, model: Path | sm.Tokenizer, template: str | sm.ChatTemplate, **options: Any
) -> dict[str, list[Any]]:
    tokenize = sm.Tokenize(messages="messages", tokenizer=model, chat_template=template, **options)
    return pa.table(sm.Dataset(path, tokenize=tokenize)).to_pydict()


@pytest.mark.parametrize(
    "template",
    [
        pytest.param(path, marks=[] if path in QUICK else pytest.mark.slow, id=path.stem)
        for path in TEMPLATES
    ],
)
def test_ids_and_labels_are_those_of_transformers(
    paths: list[Path], tokenizer: sm.Tokenizer, oracle: Any, template: Path
) -> None:
    text = template.read_text()
    if "strftime_now" in text:
        with pytest.raises(sm.OptionError, match="asks for the date"):
            tokens(paths[0], tokenizer, text)
        return
    has_mask = "{% generation" in text or "{%- generation" in text
    agreed = 0
    for path, turns in zip(paths, CONVERSATIONS.values(), strict=True):
        wanted = expected(oracle, text, turns)
        if wanted is None:
            with pytest.raises(ValueError, match="chat template fails"):
                tokens(path, tokenizer, text)
            continue
        found = tokens(path, tokenizer, text, labels="assistant" if has_mask else None)
        ids, mask = wanted
        assert found["tokens"] == [ids]
        if has_mask:
            labels = [
                id if is_label and place else -100
                for place, (id, is_label) in enumerate(zip(ids, mask, strict=True))
            ]
            assert found["labels"] == [labels]
        agreed += 1
    assert agreed > 0 or "image" in text


def test_mask_is_that_of_apply_chat_template(tmp_path: Path, model: Path, oracle: Any) -> None:
    [template] = [path for path in TEMPLATES if path.stem == "qwen3_training"]
    pq.write_table(pa.table({"messages": [CONVERSATIONS["system"]]}), tmp_path / "chat.parquet")
    found = tokens(tmp_path / "chat.parquet", model, template.read_text(), labels="assistant")
    whole = oracle.apply_chat_template(
        CONVERSATIONS["system"],
        chat_template=template.read_text(),
        tokenize=True,
        return_dict=True,
        return_assistant_tokens_mask=True,
    )
    assert found["tokens"] == [whole["input_ids"]]
    assert [label != -100 for label in found["labels"][0]] == [
        mask == 1 for mask in whole["assistant_masks"]
    ]


def test_date_makes_dated_templates_repeatable(tmp_path: Path, model: Path) -> None:
    [template] = [path for path in TEMPLATES if path.stem == "llama3_2"]
    pq.write_table(pa.table({"messages": [TURNS]}), tmp_path / "chat.parquet")
    tokenizer = sm.Tokenizer(model)
    [ids] = tokens(
        tmp_path / "chat.parquet", model, sm.ChatTemplate(template.read_text(), now=DATE)
    )["tokens"]
    assert "31 Jan 2026" in tokenizer.decode(ids)
    with pytest.raises(ValueError, match="now must be a date"):
        tokens(
            tmp_path / "chat.parquet", model, sm.ChatTemplate(template.read_text(), now="yesterday")
        )


def test_groups_of_groupby_keep_the_names_of_their_items(
    tmp_path: Path, model: Path, oracle: Any
) -> None:
    text = (
        "{% for g in messages | groupby('role') %}"
        "{{ g.grouper }} {{ g[0] }} {{ g.list | length }} {{ g.list[0].content }}"
        "{% for m in g[1] %}|{{ m.content }}{% endfor %}{% endfor %}"
        "{% set numbers = [{'a': 2}, {'a': 1}, {'a': 2, 'b': 0}] | groupby('a') %}"
        "{{ numbers[1].list }} {{ numbers[0] }}"
        "{% for a, members in numbers %} {{ a }} {{ members }}{% endfor %} "
        "{{ numbers | map(attribute='grouper') | join }}"
    )
    pq.write_table(pa.table({"messages": [TURNS]}), tmp_path / "chat.parquet")
    wanted = expected(oracle, text, TURNS)
    assert wanted is not None
    tokenizer = sm.Tokenizer(model)
    found = tokens(tmp_path / "chat.parquet", model, text)["tokens"]
    assert [tokenizer.decode(ids) for ids in found] == [tokenizer.decode(wanted[0])]
