"""Chat messages, prompts with completions, and user functions as sources of tokens."""

from __future__ import annotations

import json
import logging
import pickle
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm

pytestmark = pytest.mark.usefixtures("counts_below")

tokenizers = pytest.importorskip("tokenizers")

CHATML = """{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\n' }}
    {%- if message.role == 'assistant' %}
        {%- generation %}
        {{- message.content + '<|im_end|>' }}
        {%- endgeneration %}
    {%- else %}
        {{- message.content + '<|im_end|>' }}
    {%- endif %}
    {{- '\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}"""
WITHOUT_BLOCKS = CHATML.replace("{%- generation %}", "").replace("{%- endgeneration %}", "")
CHATS = [
    [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "Four."}],
    [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "Bye"},
        {"role": "assistant", "content": "Bye"},
    ],
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("model")
    trained = tokenizers.Tokenizer(tokenizers.models.BPE())
    trained.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<|im_start|>", "<|im_end|>", "<|end|>"],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    trained.train_from_iterator([CHATML], trainer)
    trained.save(str(directory / "tokenizer.json"))
    (directory / "tokenizer_config.json").write_text(
        json.dumps({"eos_token": "<|end|>", "chat_template": CHATML})
    )
    return directory


def table(path: Path, rows: dict[str, Any], **options: Any) -> dict[str, list[Any]]:
    pq.write_table(pa.table(rows), path / "rows.parquet")
    return pa.table(sm.Dataset(path / "rows.parquet", tokenize=sm.Tokenize(**options))).to_pydict()


def labelled(tokenizer: sm.Tokenizer, labels: list[int]) -> str:
    return tokenizer.decode([label for label in labels if label != -100])


def test_template_of_the_directory_gives_text_and_labels_of_the_assistant(
    tmp_path: Path, model: Path
) -> None:
    tokenizer = sm.Tokenizer(model)
    found = table(
        tmp_path, {"messages": CHATS}, messages="messages", tokenizer=model, labels="assistant"
    )
    assert tokenizer.decode(found["tokens"][0]) == (
        "<|im_start|>user\n2 + 2?<|im_end|>\n<|im_start|>assistant\nFour.<|im_end|>\n"
    )
    assert found["tokens"][0][0] == tokenizer.token_id("<|im_start|>")
    assert [labelled(tokenizer, labels) for labels in found["labels"]] == [
        "Four.<|im_end|>",
        "Hello<|im_end|>Bye<|im_end|>",
    ]


def test_spans_by_prefix_need_no_generation_blocks(tmp_path: Path, model: Path) -> None:
    options = {"messages": "messages", "tokenizer": sm.Tokenizer(model), "labels": "assistant"}
    with pytest.raises(
        ValueError, match=r"no generation block.*\nhint: assistant_spans=\"prefix\""
    ):
        sm.Tokenize(**options, chat_template=WITHOUT_BLOCKS)
    expected = table(tmp_path, {"messages": CHATS}, **options)
    (tmp_path / "template.jinja").write_text(WITHOUT_BLOCKS)
    found = table(
        tmp_path,
        {"messages": CHATS},
        **options,
        chat_template=sm.ChatTemplate(tmp_path / "template.jinja", assistant_spans="prefix"),
    )
    assert found["tokens"] == expected["tokens"]
    # The end of a turn, which no block marks, is part of what a turn adds.
    assert [labelled(options["tokenizer"], labels) for labels in found["labels"]] == [
        "Four.<|im_end|>\n",
        "Hello<|im_end|>\nBye<|im_end|>\n",
    ]


def test_messages_may_be_json_and_an_empty_list_has_no_tokens(tmp_path: Path, model: Path) -> None:
    options = {"messages": "messages", "tokenizer": model, "labels": "assistant"}
    lists = table(tmp_path, {"messages": [*CHATS, []]}, **options)
    texts = table(tmp_path, {"messages": [json.dumps(chat) for chat in [*CHATS, []]]}, **options)
    assert texts == lists
    assert lists["tokens"][2] == lists["labels"][2] == []


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ("[{", "the messages are not valid JSON"),
        ('{"role": "user"}', "The messages are not a list"),
        ('[{"content": "x"}]', "Message 0 has no role"),
        (
            '[{"role": "user", "content": [{"type": "image"}]}]',
            'Message 0 has a part of type "image"',
        ),
        ('[{"role": "user", "content": 1}]', "The chat template fails on line"),
        (None, 'the value is null\nhint: nulls="fill" of sm.TextPolicy'),
    ],
)
def test_invalid_messages_are_an_error_with_file_and_row(
    tmp_path: Path, model: Path, messages: str | None, message: str
) -> None:
    rows = {"messages": [json.dumps(CHATS[0]), messages]}
    with pytest.raises(
        ValueError, match=r"Row 1 of .*rows.parquet.*: column `messages`: "
    ) as raised:
        table(tmp_path, rows, messages="messages", tokenizer=model)
    assert message in str(raised.value)


def test_columns_of_nulls_alone_and_of_other_types_are_known(tmp_path: Path, model: Path) -> None:
    nulls = {"messages": pa.nulls(2)}
    found = table(
        tmp_path,
        nulls,
        messages="messages",
        tokenizer=model,
        labels="assistant",
        text_policy=sm.TextPolicy(nulls="fill"),
    )
    assert found == {"tokens": [[], []], "labels": [[], []]}
    with pytest.raises(ValueError, match=r"Row 0 of .*: the value is null"):
        table(tmp_path, nulls, messages="messages", tokenizer=model)
    for wrong in ([[1]], [1], [["a"]], [{"role": "user"}]):
        with pytest.raises(ValueError, match="messages are lists of structs or JSON strings"):
            table(tmp_path, {"messages": wrong}, messages="messages", tokenizer=model)


@pytest.mark.parametrize(
    "completion", [["b", None], [[{"role": "assistant", "content": "b"}], None], [None, None]]
)
def test_prompts_that_are_nulls_alone_go_with_texts_and_with_messages(
    tmp_path: Path, model: Path, completion: list[Any]
) -> None:
    rows = {"prompt": pa.nulls(2), "completion": completion}
    found = table(
        tmp_path,
        rows,
        prompt="prompt",
        completion="completion",
        tokenizer=model,
        text_policy=sm.TextPolicy(nulls="fill"),
    )
    assert found == {"tokens": [[], []]}
    with pytest.raises(ValueError, match=r"Row 0 of .*: column `prompt`: the value is null"):
        table(tmp_path, rows, prompt="prompt", completion="completion", tokenizer=model)


def test_nulls_of_structs_are_absent_and_those_in_json_stay(tmp_path: Path, model: Path) -> None:
    def call(arguments: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"role": "assistant", "content": None, "arguments": arguments}]

    template = "{{ messages[0].arguments | tojson }}{{ messages[0].content is defined }}"
    options = {"messages": "messages", "tokenizer": sm.Tokenizer(model), "chat_template": template}

    def texts(rows: list[Any]) -> list[str]:
        found = table(tmp_path, {"messages": rows}, **options)["tokens"]
        return [options["tokenizer"].decode(ids) for ids in found]

    assert texts([call({"a": 1}), call({"b": 2})]) == ['{"a": 1}False', '{"b": 2}False']
    assert texts([json.dumps(call({"a": None}))]) == ['{"a": null}False']


def test_tools_documents_and_further_variables_reach_the_template(
    tmp_path: Path, model: Path
) -> None:
    template = (
        "{{ tools | tojson }}{{ documents[0].title }}{{ style }}"
        "{{ messages[0].content }}{{ eos_token }}"
    )
    rows = {
        "messages": [CHATS[0]],
        "tools": [json.dumps([{"name": "f", "limit": 1.0}])],
        "documents": [[{"title": "T"}]],
    }
    found = table(
        tmp_path,
        rows,
        messages="messages",
        chat_template=sm.ChatTemplate(
            template, tools="tools", documents="documents", template_kwargs={"style": "s"}
        ),
        tokenizer=model,
    )
    text = sm.Tokenizer(model).decode(found["tokens"][0])
    assert text == '[{"name": "f", "limit": 1.0}]Ts2 + 2?<|end|>'
    assert list(found) == ["tokens"]


def test_rows_with_tools_use_the_template_for_tools(tmp_path: Path, model: Path) -> None:
    templates = {
        "default": "D{{ messages[0].content }}",
        "tool_use": "T{{ messages[0].content }}{{ tools | length }}",
    }
    named = [{"name": name, "template": template} for name, template in templates.items()]
    for layout in ("configuration", "files"):
        own = tmp_path / layout
        shutil.copytree(model, own)
        if layout == "configuration":
            (own / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
        else:
            (own / "chat_template.jinja").write_text(templates["default"])
            (own / "additional_chat_templates").mkdir()
            (own / "additional_chat_templates" / "tool_use.jinja").write_text(templates["tool_use"])
        rows = {"messages": [CHATS[0]] * 3, "tools": [json.dumps([{"name": "f"}]), None, "null"]}
        options = {
            "messages": "messages",
            "tokenizer": pickle.loads(pickle.dumps(sm.Tokenizer(own))),
        }
        template = sm.ChatTemplate(tools="tools")
        with_tools = table(tmp_path, rows, chat_template=template, **options)["tokens"]
        no_tools = rows | {"tools": pa.nulls(3)}
        nulls = table(tmp_path, no_tools, chat_template=template, **options)["tokens"]
        without = table(tmp_path, rows, **options)["tokens"]
        texts = [
            [options["tokenizer"].decode(ids) for ids in tokens]
            for tokens in (with_tools, nulls, without)
        ]
        assert texts == [["T2 + 2?1", "D2 + 2?", "D2 + 2?"], ["D2 + 2?"] * 3, ["D2 + 2?"] * 3]


def test_template_may_change_marked_text_and_prompts_where_no_label_needs_them(
    tmp_path: Path, model: Path
) -> None:
    tokenizer = sm.Tokenizer(model)
    rows: dict[str, Any] = {
        "messages": CHATS[:1],
        "prompt": [CHATS[0][:1]],
        "completion": [CHATS[0][1:]],
    }
    marked = (
        "{% set turn %}{% generation %} {{ messages[0].content }}{% endgeneration %}{% endset %}"
        "{{ turn | trim }}"
    )
    turns = (
        "{% for m in messages %}{{ m.content }}|{% endfor %}"
        "{% if add_generation_prompt %}answer:{% endif %}"
    )
    for source, template, labels, text, message in (
        (
            {"messages": "messages"},
            marked,
            "assistant",
            "2 + 2?",
            "changes the text of a generation block",
        ),
        (
            {"prompt": "prompt", "completion": "completion"},
            turns,
            "completion",
            "2 + 2?|Four.|",
            "not the beginning",
        ),
    ):
        options = {**source, "tokenizer": tokenizer, "chat_template": template}
        for unmarked in (None, "all"):
            assert (
                tokenizer.decode(table(tmp_path, rows, **options, labels=unmarked)["tokens"][0])
                == text
            )
        with pytest.raises(ValueError, match=message):
            table(tmp_path, rows, **options, labels=labels)


def test_fingerprint_has_the_special_tokens_that_the_template_names(
    tmp_path: Path, model: Path
) -> None:
    named, unnamed = "{{ messages[0].content }}{{ eos_token }}", "{{ messages[0].content }}"
    directories = [tmp_path / "one", tmp_path / "other"]
    for directory, eos in zip(directories, ("<|end|>", "<|im_end|>"), strict=True):
        shutil.copytree(model, directory)
        (directory / "tokenizer_config.json").write_text(json.dumps({"eos_token": eos}))
    for template, is_equal in ((named, False), (unnamed, True)):
        one, other = (
            sm.Tokenize(messages="messages", tokenizer=directory, chat_template=template)
            for directory in directories
        )
        assert (one.fingerprint == other.fingerprint) == is_equal


def test_completion_is_labelled_with_the_end_and_encoded_with_its_prompt(
    tmp_path: Path, model: Path
) -> None:
    tokenizer = sm.Tokenizer(model)
    rows = {"prompt": ["2 + 2 =", "{%- for", "nothing"], "completion": [" 4", " message %}", ""]}
    found = table(
        tmp_path,
        rows,
        prompt="prompt",
        completion="completion",
        tokenizer=model,
        labels="completion",
        eos=True,
    )
    whole = [
        prompt + completion
        for prompt, completion in zip(rows["prompt"], rows["completion"], strict=True)
    ]
    end = tokenizer.token_id("<|end|>")
    assert found["tokens"] == [[*ids, end] for ids in tokenizer.encode_batch(whole)]
    for prompt, completion, labels in zip(
        rows["prompt"], rows["completion"], found["labels"], strict=True
    ):
        text = labelled(tokenizer, labels)
        assert (prompt + completion + "<|end|>").endswith(text)
        assert len(text) >= len(completion + "<|end|>")


def test_prompt_and_completion_may_be_messages(tmp_path: Path, model: Path) -> None:
    rows = {"prompt": [chat[:-1] for chat in CHATS], "completion": [chat[-1:] for chat in CHATS]}
    options = {
        "prompt": "prompt",
        "completion": "completion",
        "tokenizer": model,
        "labels": "completion",
    }
    found = table(tmp_path, rows, **options)
    assert (
        found["tokens"]
        == table(tmp_path, {"messages": CHATS}, messages="messages", tokenizer=model)["tokens"]
    )
    tokenizer = sm.Tokenizer(model)
    assert [labelled(tokenizer, labels) for labels in found["labels"]] == [
        "Four.<|im_end|>\n",
        "Bye<|im_end|>\n",
    ]
    mixed = rows | {"completion": ["a", "b"]}
    with pytest.raises(ValueError, match="must both be texts, or both be messages"):
        table(tmp_path, mixed, **options)


@pytest.mark.parametrize(
    ("template", "reason"),
    [("{% if %}", "fails on line 1"), ("{{ strftime_now('%d') }}", "asks for the date")],
)
def test_unusable_template_of_the_directory_fails_for_messages_alone(
    tmp_path: Path, model: Path, template: str, reason: str
) -> None:
    shutil.copytree(model, tmp_path / "model")
    (tmp_path / "model" / "chat_template.jinja").write_text(template)
    options = {"prompt": "prompt", "completion": "completion", "tokenizer": tmp_path / "model"}
    texts = {"prompt": ["a"], "completion": ["b"]}
    assert table(tmp_path, texts, **options) == table(
        tmp_path, texts, **options | {"tokenizer": model}
    )
    with pytest.raises(
        ValueError, match=f"that of the tokenizer cannot be used: The chat template {reason}"
    ):
        table(tmp_path, {"prompt": [CHATS[0][:-1]], "completion": [CHATS[0][-1:]]}, **options)
    with pytest.raises(ValueError, match=reason):
        sm.Tokenize(**options, chat_template=template)


@pytest.mark.parametrize(
    ("rows", "column", "reason"),
    [
        ({"prompt": ["a", None], "completion": ["b", "c"]}, "prompt", "the value is null"),
        ({"prompt": ["a", "b"], "completion": ["c", None]}, "completion", "the value is null"),
        (
            {"prompt": [b"a", b"b"], "completion": [b"c", b"\xff"]},
            "completion",
            "the bytes are not UTF-8",
        ),
        ({"prompt": CHATS, "completion": [CHATS[0][-1:], None]}, "completion", "the value is null"),
    ],
)
def test_error_of_a_prompt_or_completion_names_its_column(
    tmp_path: Path, model: Path, rows: dict[str, Any], column: str, reason: str
) -> None:
    with pytest.raises(ValueError, match=rf"Row 1 of .*: column `{column}`: {reason}"):
        table(tmp_path, rows, prompt="prompt", completion="completion", tokenizer=model)


def test_invalid_tools_are_named(tmp_path: Path, model: Path) -> None:
    rows = {"messages": CHATS, "tools": [None, "[{"], "documents": [None, None]}
    with pytest.raises(
        ValueError, match=r"Row 1 of .*: column `tools`: the tools are not valid JSON"
    ):
        chat_template = sm.ChatTemplate(tools="tools", documents="documents")
        table(tmp_path, rows, messages="messages", chat_template=chat_template, tokenizer=model)


def test_row_without_labels_is_logged_once_or_raises(
    tmp_path: Path, model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = {"messages": [CHATS[0], CHATS[0][:1], CHATS[0][:1]]}
    options = {"messages": "messages", "tokenizer": model, "labels": "assistant"}
    with caplog.at_level(logging.WARNING, "shardmill.tokens"):
        found = table(tmp_path, rows, **options)
    assert set(found["labels"][1]) == {-100}
    assert [
        record.message for record in caplog.records if "no token with a label" in record.message
    ] == [
        "a row has no token with a label, so a loss ignores it; "
        'on_unlabelled="raise" of sm.Labels names such rows'
    ]
    with pytest.raises(
        ValueError,
        match=r"Row 1 of .*: no token of the row has a label\nhint: .*\"keep\" of sm.Labels",
    ):
        table(tmp_path, rows, **options | {"labels": sm.Labels("assistant", on_unlabelled="raise")})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs one source, and has none"),
        ({"text": "a", "messages": "m"}, "needs one source, not messages and text"),
        ({"prompt": "p"}, "prompt and completion are used together"),
        ({"text": "a", "tokenizer": None}, "needs a tokenizer"),
        (
            {"text": "a", "labels": "assistant"},
            "labels='assistant' is for messages, and the source is text",
        ),
        (
            {"text": "a", "labels": "completion"},
            "labels='completion' is for messages and completion, and the source is text",
        ),
        (
            {"messages": "m", "eos": True},
            "eos is for text and completion, and the source is messages",
        ),
        (
            {"messages": "m", "text_policy": sm.TextPolicy(special_in_text="text")},
            "special_in_text='text' is not for messages",
        ),
        (
            {"text": "a", "chat_template": sm.ChatTemplate(now="2026-01-31")},
            "ChatTemplate.now is for messages and completion",
        ),
        (
            {
                "prompt": "p",
                "completion": "c",
                "chat_template": sm.ChatTemplate(assistant_spans="prefix"),
            },
            "ChatTemplate.assistant_spans is for messages,",
        ),
        (
            {"text": "a", "function": len},
            "function must be a TokenFunction, not <built-in function len>\nhint: write ",
        ),
        (
            {"text": "a", "text_policy": "fill"},
            "text_policy must be a TextPolicy, not 'fill'\nhint: write ",
        ),
        ({"messages": "m", "chat_template": "{% if %}"}, "The chat template fails on line 1"),
        ({"messages": "m", "chat_template": "{{ strftime_now('%Y') }}"}, "asks for the date"),
        (
            {"text": "a", "labels": "all", "output": "labels"},
            "output and Labels.output must differ",
        ),
        ({"text": "a", "output": ""}, "output must be a non-empty string"),
        ({"messages": ["m"]}, "messages must be a non-empty string, not ['m']"),
        ({"messages": "m", "chat_template": 3}, "chat_template must be the text of a template"),
        ({"messages": "m", "chat_template": "chat.jinja"}, "is not a template"),
    ],
)
def test_options_that_do_not_fit_are_errors(
    model: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError) as raised:
        sm.Tokenize(**{"tokenizer": model} | options)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sm.ChatTemplate(template_kwargs={"x": {1}}), "must be a dict of JSON values"),
        (
            lambda: sm.ChatTemplate(template_kwargs={"messages": []}),
            "template_kwargs cannot set messages",
        ),
        (
            lambda: sm.ChatTemplate(template_kwargs={"add_generation_prompt": True}),
            "training data end with the answer",
        ),
        (
            lambda: sm.ChatTemplate(template_kwargs=[1]),
            "ChatTemplate.template_kwargs must be a dict of JSON values, not [1]",
        ),
        (
            lambda: sm.Labels("none"),
            "Labels.kind must be one of 'all', 'text', 'assistant', 'completion', 'function', not",
        ),
        (
            lambda: sm.Labels("assistant", on_unlabelled="skip"),
            "Labels.on_unlabelled must be one of",
        ),
        (lambda: sm.Labels("all", ignore_index=2**70), "Labels.ignore_index must be an integer"),
        (lambda: sm.TokenFunction("f", "1"), "TokenFunction.function must be callable, not 'f'"),
        (
            lambda: sm.TokenFunction(len, 1),
            "TokenFunction.version must be a string that changes when the results",
        ),
    ],
)
def test_value_that_a_group_of_options_does_not_take_is_an_error(
    make: Callable[[], Any], message: str
) -> None:
    with pytest.raises(sm.OptionError) as raised:
        make()
    assert message in str(raised.value)


GROUPS: dict[str, Callable[..., Any]] = {
    "chat_template": sm.ChatTemplate,
    "labels": partial(sm.Labels, "assistant"),
    "text_policy": sm.TextPolicy,
}


@pytest.mark.parametrize(
    ("group", "options"),
    [
        ("chat_template", {"now": "2026-02-30"}),
        ("chat_template", {"now": "today"}),
        ("chat_template", {"now": 20260131}),
        ("chat_template", {"now": b"2026-01-31"}),
        (None, {"counts": 1}),
        (None, {"counts": b"counts"}),
        (None, {"output": None}),
        ("labels", {"output": None}),
        (None, {"dtype": None}),
        ("text_policy", {"nulls": None}),
        ("chat_template", {"assistant_spans": None}),
        ("text_policy", {"invalid": np.zeros(2)}),
        (None, {"add_special_tokens": "no"}),
        (None, {"bos": b"x"}),
        ("text_policy", {"max_document_bytes": None}),
    ],
    ids=str,
)
def test_values_that_are_not_valid_are_refused_by_name(
    model: Path, group: str | None, options: dict[str, Any]
) -> None:
    [(name, value)] = options.items()
    with pytest.raises(sm.OptionError, match=rf"\b{name}\b") as raised:
        given = options if group is None else {group: GROUPS[group](**options)}
        sm.Tokenize(messages="m", tokenizer=model, **given)
    assert str(value) in str(raised.value) or repr(value) in str(raised.value)


def test_option_that_is_missing_is_named(model: Path) -> None:
    with pytest.raises(sm.OptionError, match="hint: pass now="):
        sm.Tokenize(messages="m", tokenizer=model, chat_template="{{ strftime_now('%Y') }}")


def test_template_that_is_not_text_is_named(tmp_path: Path, model: Path) -> None:
    (tmp_path / "chat.jinja").write_bytes(b"{{ \xff }}")
    with pytest.raises(sm.FormatError, match=r"the chat template .*chat\.jinja' is not UTF-8"):
        sm.Tokenize(messages="m", tokenizer=model, chat_template=tmp_path / "chat.jinja")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"chat\.jinja' is empty\nhint: write the template"),
        (" \n\t", r"chat\.jinja' is empty"),
        ("hello", r"chat\.jinja' is not a template: it writes the same text for all messages"),
    ],
)
def test_file_that_is_not_a_template_is_refused_and_not_replaced_by_the_tokenizers_own(
    tmp_path: Path, model: Path, content: str, message: str
) -> None:
    (tmp_path / "chat.jinja").write_text(content)
    with pytest.raises(sm.OptionError, match=message):
        sm.Tokenize(messages="m", tokenizer=model, chat_template=tmp_path / "chat.jinja")


def test_template_that_does_not_exist_is_named(tmp_path: Path, model: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"the chat template .*missing\.jinja' does not exist"
    ):
        sm.Tokenize(messages="m", tokenizer=model, chat_template=tmp_path / "missing.jinja")


def test_packed_chats_resume_exactly_and_counts_serve_labels(tmp_path: Path, model: Path) -> None:
    chats = [
        [
            {"role": "user", "content": f"Question {n} " * (n % 7 + 1)},
            {"role": "assistant", "content": f"Answer {n}"},
        ]
        for n in range(90)
    ]
    pq.write_table(pa.table({"messages": chats}), tmp_path / "chats.parquet", row_group_size=11)
    tokenize = sm.Tokenize(messages="messages", tokenizer=model, labels="assistant")
    packing = sm.Packing(["tokens", "labels"], length=64, pad_value={"labels": -100})

    def loader() -> sm.Loader:
        data = sm.Dataset(tmp_path / "chats.parquet", tokenize=tokenize)
        return sm.Loader(data, packing=packing, batch_size=2, shuffle=True, seed=1, output="numpy")

    whole = list(loader())
    first = loader()
    rest = iter(first)
    for _ in range(3):
        next(rest)
    resumed = loader()
    resumed.load_state_dict(first.state_dict())
    for ours, theirs in zip(resumed, whole[3:], strict=True):
        assert np.array_equal(ours["tokens"], theirs["tokens"])
        assert np.array_equal(ours["labels"], theirs["labels"])


def reversed_ids(batch: pa.RecordBatch) -> dict[str, list[list[int]]]:
    ids = [list(reversed(text.encode())) for text in batch["text"].to_pylist()]
    return {"tokens": ids, "labels": [[-100] * len(row) for row in ids]}


def test_function_computes_lists_of_the_columns_it_gets(tmp_path: Path) -> None:
    rows = {"text": ["abc", "", "d"], "n": [1, 2, 3]}
    tokenize = sm.Tokenize(
        "text", function=sm.TokenFunction(reversed_ids, version="1"), labels="function"
    )
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    data = sm.Dataset(tmp_path / "rows.parquet", tokenize=tokenize)
    assert data.columns == ["n", "tokens", "labels"]
    assert pa.table(pickle.loads(pickle.dumps(data))).to_pydict() == {
        "n": [1, 2, 3],
        "tokens": [[99, 98, 97], [], [100]],
        "labels": [[-100] * 3, [], [-100]],
    }
    loader = sm.Loader(data, packing=sm.Packing("tokens", length=2), batch_size=1, output="numpy")
    assert sorted(np.concatenate([batch["tokens"].ravel() for batch in loader]).tolist()) == [
        97,
        98,
        99,
        100,
    ]
    other = sm.Tokenize(
        "text", function=sm.TokenFunction(reversed_ids, version="2"), labels="function"
    )
    assert other.fingerprint != tokenize.fingerprint


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda batch: {"ids": []}, "must return a dict with tokens, not ['ids']"),
        (lambda batch: {"tokens": [[1]]}, "returned 1 rows of tokens for 2 rows"),
        (lambda batch: {"tokens": [[1], None]}, "returned a null in tokens"),
        (lambda batch: {"tokens": [[1], [2**40]]}, "the function raised"),
        (
            lambda batch: {"tokens": [[1.0], [2.5]]},
            "must return lists of integers as 'tokens', not list<double>",
        ),
        (lambda batch: {"tokens": [1, 2]}, "the function raised"),
        (lambda batch: 1 / 0, "the function raised ZeroDivisionError"),
    ],
)
def test_function_that_returns_something_else_is_an_error(
    tmp_path: Path, function: Any, message: str
) -> None:
    with pytest.raises(ValueError) as raised:
        table(
            tmp_path,
            {"text": ["a", "b"]},
            text="text",
            function=sm.TokenFunction(function, version="1"),
        )
    assert message in str(raised.value)
