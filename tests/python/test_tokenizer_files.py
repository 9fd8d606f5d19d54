"""Tokenizers that cannot be used, and arguments that are wrong: what the errors say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import shardmill as sm

BYTES = "".join(f"{text} {rank}\n" for text, rank in [("YQ==", 0), ("Yg==", 1)])


def document(**parts: Any) -> dict[str, Any]:
    model = {"type": "WordLevel", "vocab": {"[UNK]": 0, "a": 1}, "unk_token": "[UNK]"}
    return {"version": "1.0", "added_tokens": [], "model": model, "pre_tokenizer": {"type": "Whitespace"}} | parts


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
        (sequence(replace("a", "b" * 16), {"type": "Lowercase"}, replace("c", "c" * 17)), "Replace"),
        ({"type": "Replace", "pattern": {"Regex": "a?"}, "content": "a" * 256}, "Replace"),
        ({"type": "Prepend", "prepend": "a" * 256}, "Prepend"),
    ],
)
def test_normalizer_that_could_multiply_a_text_is_refused_by_name(
    normalizer: dict[str, Any], name: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=f"its normalizer {name} could make a text more than 256 times as long"):
        sm.Tokenizer(saved(tmp_path, normalizer=normalizer))


@pytest.mark.parametrize(
    "normalizer",
    [
        sequence(
            *[replace(sign, name) for sign, name in [("&", "and"), ("%", "percent"), ("$", "dollars"), ("@", "at")]]
        ),
        sequence({"type": "Prepend", "prepend": "▁"}, replace(" ", "▁")),
        sequence(replace("``", '"'), {"type": "NFKD"}, {"type": "Lowercase"}, {"type": "StripAccents"}),
        replace("a", "a" * 256),
    ],
)
def test_normalizer_that_rewrites_a_text_in_bounds_is_used(normalizer: dict[str, Any], tmp_path: Path) -> None:
    assert set(sm.Tokenizer(saved(tmp_path, normalizer=normalizer)).encode("zz")) == {0}


def test_decoder_that_could_multiply_a_text_is_refused(tmp_path: Path) -> None:
    steps = [replace("a", "a" * 3000)] * 2
    with pytest.raises(ValueError, match="its decoder Replace could make"):
        sm.Tokenizer(saved(tmp_path, decoder={"type": "Sequence", "decoders": steps}))


def test_model_of_an_unknown_type_is_named_with_those_that_are_supported(tmp_path: Path) -> None:
    expected = 'its model has the type "Trie", and only BPE, Unigram, WordPiece, WordLevel are supported'
    with pytest.raises(ValueError, match=expected):
        sm.Tokenizer(saved(tmp_path, model={"type": "Trie", "vocab": {"a": 0}}))


def test_pre_tokenizer_that_is_not_supported_is_named_without_advice_for_builds(tmp_path: Path) -> None:
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}
    members = [{"type": "UnicodeScripts"}, metaspace]
    with pytest.raises(ValueError, match="shardmill does not support a `Metaspace` pre-tokenizer in a") as raised:
        sm.Tokenizer(saved(tmp_path, pre_tokenizer={"type": "Sequence", "pretokenizers": members}))
    assert "feature" not in str(raised.value)
    with pytest.raises(ValueError, match="shardmill does not support the `Nonsense` pre-tokenizer") as raised:
        sm.Tokenizer(saved(tmp_path, pre_tokenizer={"type": "Nonsense"}))
    assert "convert" not in str(raised.value)


@pytest.mark.parametrize("number", [-5, 2**24, 2**31, 2**40, "1"])
def test_id_of_a_special_token_out_of_range_is_refused_with_the_limit(number: Any, tmp_path: Path) -> None:
    (tmp_path / "a.tiktoken").write_text(BYTES)
    with pytest.raises(sm.OptionError, match=f"the id of '<a>' must be an integer from 0 to 16777215, not {number!r}"):
        sm.Tokenizer(tmp_path, pattern="gpt2", special_tokens={"<a>": number})


def test_name_of_a_token_that_is_empty_or_no_text_is_refused(tmp_path: Path) -> None:
    tokenizer = sm.Tokenizer(saved(tmp_path))
    with pytest.raises(
        sm.OptionError, match='"" is not a token of .*\nhint: the name is empty: pass the text of a token'
    ):
        tokenizer.token_id("")
    with pytest.raises(sm.OptionError, match="a token must be a string, not 3"):
        tokenizer.token_id(3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(sm.OptionError, match="hint: the name is empty"):
        sm.Tokenize("text", tokenizer=tokenizer, eos="")
