"""Tokenizers that cannot be used, and arguments that are wrong: what the errors say."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import shardmill as sm
from promptness import assert_prompt

BYTES = "".join(f"{text} {rank}\n" for text, rank in [("YQ==", 0), ("Yg==", 1)])


def document(**parts: Any) -> dict[str, Any]:
    model = {"type": "WordLevel", "vocab": {"[UNK]": 0, "a": 1}, "unk_token": "[UNK]"}
    return {
        "version": "1.0",
        "added_tokens": [],
        "model": model,
        "pre_tokenizer": {"type": "Whitespace"},
    } | parts


def saved(directory: Path, **parts: Any) -> Path:
    path = directory / "tokenizer.json"
    path.write_text(json.dumps(document(**parts)))
    return path


def replace(text: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": text}, "content": content}


def sequence(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "normalizers": list(steps)}


@pytest.mark.parametrize(
    ("normalizer", "name"),
    [
        (sequence(replace("a", "a" * 3000), replace("a", "a" * 3000)), "Replace"),
        (sequence(replace("a", "a" * 16), replace("a", "a" * 17)), "Replace"),
        (
            sequence(replace("a", "b" * 16), {"type": "Lowercase"}, replace("c", "c" * 17)),
            "Replace",
        ),
        ({"type": "Replace", "pattern": {"Regex": "a?"}, "content": "a" * 256}, "Replace"),
        ({"type": "Prepend", "prepend": "a" * 256}, "Prepend"),
    ],
)
def test_normalizer_that_could_multiply_a_text_is_refused_by_name(
    normalizer: dict[str, Any], name: str, tmp_path: Path
) -> None:
    with pytest.raises(
        ValueError, match=f"its normalizer {name} could make a text more than 256 times as long"
    ):
        sm.Tokenizer(saved(tmp_path, normalizer=normalizer))


@pytest.mark.parametrize(
    "normalizer",
    [
        sequence(
            *[
                replace(sign, name)
                for sign, name in [("&", "and"), ("%", "percent"), ("$", "dollars"), ("@", "at")]
            ]
        ),
        sequence({"type": "Prepend", "prepend": "▁"}, replace(" ", "▁")),
        sequence(
            replace("``", '"'), {"type": "NFKD"}, {"type": "Lowercase"}, {"type": "StripAccents"}
        ),
        replace("a", "a" * 256),
    ],
)
def test_normalizer_that_rewrites_a_text_in_bounds_is_used(
    normalizer: dict[str, Any], tmp_path: Path
) -> None:
    assert set(sm.Tokenizer(saved(tmp_path, normalizer=normalizer)).encode("zz")) == {0}


def test_decoder_that_could_multiply_a_text_is_refused(tmp_path: Path) -> None:
    steps = [replace("a", "a" * 3000)] * 2
    with pytest.raises(ValueError, match="its decoder Replace could make"):
        sm.Tokenizer(saved(tmp_path, decoder={"type": "Sequence", "decoders": steps}))


def test_model_of_an_unknown_type_is_named_with_those_that_are_supported(tmp_path: Path) -> None:
    expected = (
        'its model has the type "Trie", and only BPE, Unigram, WordPiece, WordLevel are supported'
    )
    with pytest.raises(ValueError, match=expected):
        sm.Tokenizer(saved(tmp_path, model={"type": "Trie", "vocab": {"a": 0}}))


def test_pre_tokenizer_that_is_not_supported_is_named_without_advice_for_builds(
    tmp_path: Path,
) -> None:
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}
    members = [{"type": "UnicodeScripts"}, metaspace]
    with pytest.raises(
        ValueError, match="shardmill does not support a `Metaspace` pre-tokenizer in a"
    ) as raised:
        sm.Tokenizer(saved(tmp_path, pre_tokenizer={"type": "Sequence", "pretokenizers": members}))
    assert "feature" not in str(raised.value)
    with pytest.raises(
        ValueError, match="shardmill does not support the `Nonsense` pre-tokenizer"
    ) as raised:
        sm.Tokenizer(saved(tmp_path, pre_tokenizer={"type": "Nonsense"}))
    assert "convert" not in str(raised.value)


@pytest.mark.parametrize("number", [-5, 2**24, 2**31, 2**40, "1"])
def test_id_of_a_special_token_out_of_range_is_refused_with_the_limit(
    number: Any, tmp_path: Path
) -> None:
    (tmp_path / "a.tiktoken").write_text(BYTES)
    with pytest.raises(
        sm.OptionError,
        match=f"the id of '<a>' must be an integer from 0 to 16777215, not {number!r}",
    ):
        sm.Tokenizer(tmp_path, pattern="gpt2", special_tokens={"<a>": number})


def test_name_of_a_token_that_is_empty_or_no_text_is_refused(tmp_path: Path) -> None:
    tokenizer = sm.Tokenizer(saved(tmp_path))
    with pytest.raises(
        sm.OptionError,
        match='"" is not a token of .*\nhint: the name is empty: pass the text of a token',
    ):
        tokenizer.token_id("")
    with pytest.raises(sm.OptionError, match="a token must be a string, not 3"):
        tokenizer.token_id(3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(sm.OptionError, match="hint: the name is empty"):
        sm.Tokenize("text", tokenizer=tokenizer, eos="")


LONG = "x" * 1_000_000


def failing_calls(directory: Path) -> dict[str, Callable[[], Any]]:
    """Calls whose arguments or files have a token or a text of 1 MB."""
    (directory / "a.tiktoken").write_text(BYTES)
    (directory / "rows.jsonl").write_text(
        json.dumps({"m": [{"role": "user", "content": LONG}]}) + "\n"
    )
    special = {
        "id": 2,
        "content": LONG[:60_000],
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
    }
    tokens = [special | {"normalized": False, "special": True}]
    tokenizer = sm.Tokenizer(saved(directory, added_tokens=tokens))
    template = "{{ raise_exception(messages[0].content) }}"

    def opened(**parts: Any) -> Callable[[], Any]:
        other = directory / f"other-{len(str(parts))}"
        other.mkdir(exist_ok=True)
        saved(other, **parts)
        return lambda: sm.Tokenizer(other)

    def ranks(**options: Any) -> Callable[[], Any]:
        return lambda: sm.Tokenizer(directory / "a.tiktoken", **options)

    def chat(**options: Any) -> Callable[[], Any]:
        tokenize = sm.Tokenize(messages="m", tokenizer=tokenizer, **options)
        return lambda: sm.Dataset(directory / "rows.jsonl", tokenize=tokenize)[0]

    model = {"type": "WordLevel", "unk_token": "[UNK]"}
    unknown: Any = LONG
    return {
        "name of a token": lambda: tokenizer.token_id(LONG),
        "end of a text": lambda: sm.Tokenize("text", tokenizer=tokenizer, eos=LONG),
        "special token in a text": lambda: tokenizer.encode(LONG, special_in_text="raise"),
        "what to do with special tokens": lambda: tokenizer.encode("a", special_in_text=unknown),
        "text that is bytes": lambda: tokenizer.encode(unknown.encode()),
        "texts that are a text": lambda: tokenizer.encode_batch(LONG),
        "ids": lambda: tokenizer.decode(unknown),
        "pattern": ranks(pattern=LONG, special_tokens={}),
        "pattern that does not compile": ranks(pattern=f"({LONG}", special_tokens={}),
        "special tokens": ranks(pattern="gpt2", special_tokens={LONG: 5}),
        "special tokens that are a text": ranks(pattern="gpt2", special_tokens=unknown),
        "two tokens with one id": opened(model=model | {"vocab": {"[UNK]": 0, LONG[:60_000]: 0}}),
        "token above 65,535 bytes": opened(model=model | {"vocab": {"[UNK]": 0, LONG: 1}}),
        "added token above 65,535 bytes": opened(added_tokens=[tokens[0] | {"content": LONG}]),
        "type of a model": opened(model=model | {"type": LONG, "vocab": {"[UNK]": 0}}),
        "unknown token": opened(model=model | {"vocab": {"a": 0}, "unk_token": LONG}),
        "pre-tokenizer": opened(pre_tokenizer={"type": LONG}),
        "normalizer": opened(normalizer={"type": LONG}),
        "added token that is not an object": opened(added_tokens=[LONG]),
        "template that raises": chat(chat_template=template),
        "template with an unknown method": chat(
            chat_template="{{ messages[0].content.nothing() }}"
        ),
        "variables of a template": lambda: sm.Tokenize(
            messages="m",
            tokenizer=tokenizer,
            chat_template=sm.ChatTemplate("{{ a }}", template_kwargs=unknown),
        ),
        "date": lambda: sm.Tokenize(
            messages="m", tokenizer=tokenizer, chat_template=sm.ChatTemplate("{{ a }}", now=LONG)
        ),
    }


def test_errors_show_the_beginning_of_a_long_token_or_text(tmp_path: Path) -> None:
    problems = []
    for name, call in failing_calls(tmp_path).items():
        try:
            call()
        except (ValueError, TypeError) as error:
            if len(str(error)) > 2000:
                problems.append(f"{name}: {len(str(error)):,} characters, {str(error)[:80]}")
        else:
            problems.append(f"{name}: no error")
    assert problems == []


@pytest.mark.parametrize("texts", [1, 60])
def test_interrupt_ends_encoding_within_a_second(texts: int, tmp_path: Path) -> None:
    tokenizer, text = sm.Tokenizer(saved(tmp_path)), "a " * (120_000_000 // texts)

    def interrupted() -> float:
        sent, has_ended = [], False

        def send() -> None:
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        timer = threading.Timer(0.1, send)
        timer.start()
        try:
            tokenizer.encode(text) if texts == 1 else tokenizer.encode_batch([text] * texts)
            has_ended = True
            timer.join()
        except KeyboardInterrupt:
            pass
        return float("inf") if has_ended else time.monotonic() - sent[0]

    assert_prompt(1, interrupted)


def test_added_token_that_is_too_long_is_refused_with_its_file(tmp_path: Path) -> None:
    token = "é" * 40_000
    (tmp_path / "a.tiktoken").write_text(BYTES)
    flags = {
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }
    (tmp_path / "tokenizer.json").write_text(
        json.dumps(document(added_tokens=[flags | {"id": 2, "content": token}]))
    )
    beside = tmp_path / "beside"
    beside.mkdir()
    saved(beside)
    (beside / "tokenizer_config.json").write_text(json.dumps({"eos_token": token}))
    for path, options in [
        (tmp_path / "tokenizer.json", {}),
        (tmp_path / "a.tiktoken", {"pattern": "gpt2", "special_tokens": {token: 5}}),
        (beside, {}),
    ]:
        with pytest.raises(
            sm.FormatError, match='is not valid: added token "é{80}"… .*has more than 65535 bytes'
        ) as raised:
            sm.Tokenizer(path, **options)
        assert str(path) in str(raised.value)
