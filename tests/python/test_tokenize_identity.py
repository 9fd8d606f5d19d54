"""Which ``Tokenize`` compute the same tokens: fingerprints and equality."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from byte_tokenizer import END, START, TEMPLATE, write_tokenizer

pytestmark = pytest.mark.usefixtures("counts_below")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> sm.Tokenizer:
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer"), template=TEMPLATE)


def repeated(batch: Any, id: int = 1, times: int = 1) -> dict[str, Any]:
    return {"tokens": [[id] * times] * batch.num_rows}


class Repeated(list[int]):
    """Has no name of its own, and is false."""

    def __call__(self, batch: Any) -> dict[str, Any]:
        return repeated(batch, 5, 2)


def of_function(function: Any, version: str = "1") -> sm.Tokenize:
    return sm.Tokenize("text", function=sm.TokenFunction(function, version))


def test_partials_and_objects_are_known_by_their_function_or_class_and_the_version(
    tmp_path: Path,
) -> None:
    inner = partial(repeated, id=5)
    plain, *partials = [
        of_function(function) for function in (repeated, inner, partial(inner, times=2))
    ]
    assert {one.fingerprint for one in partials} == {plain.fingerprint}
    assert of_function(inner, "2").fingerprint != plain.fingerprint
    assert (
        of_function(Repeated()).fingerprint
        == of_function(Repeated()).fingerprint
        != plain.fingerprint
    )
    pq.write_table(pa.table({"text": ["a", "b"]}), tmp_path / "x.parquet")
    for tokenize in (partials[1], of_function(Repeated())):
        data = sm.Dataset(tmp_path / "x.parquet", tokenize=tokenize)
        assert pa.table(data)["tokens"].to_pylist() == [[5, 5]] * 2
        assert data.token_counts().total == 4


def chat(tokenizer: sm.Tokenizer | Path, **options: Any) -> sm.Tokenize:
    return sm.Tokenize(messages="messages", tokenizer=tokenizer, **options)


def test_order_of_variables_is_none_of_the_fingerprint_and_that_of_their_keys_is(
    tokenizer: sm.Tokenizer,
) -> None:
    def fingerprint(**kwargs: Any) -> str:
        template = "{{ a | tojson }}{{ b }}"
        return chat(
            tokenizer, chat_template=sm.ChatTemplate(template, template_kwargs=kwargs)
        ).fingerprint

    assert fingerprint(a=1, b=2) == fingerprint(b=2, a=1)
    assert fingerprint(a={"x": 1, "y": 2}) != fingerprint(a={"y": 2, "x": 1})
    assert fingerprint(a=[{"x": 1, "y": 2}]) != fingerprint(a=[{"y": 2, "x": 1}])


@pytest.mark.parametrize(
    "kwargs", [{1: "a"}, {"a": {1: 2, "b": 3}}, {"a": [{"b": ({None: 1},)}]}], ids=str
)
def test_variable_with_a_key_that_is_not_a_string_is_refused(
    tokenizer: sm.Tokenizer, kwargs: dict[Any, Any]
) -> None:
    with pytest.raises(
        sm.OptionError,
        match="the keys of template_kwargs, and of dicts in it, must be strings, not",
    ):
        chat(tokenizer, chat_template=sm.ChatTemplate(template_kwargs=kwargs))


def test_equal_ones_have_equal_fingerprints_and_others_are_not_equal(
    tmp_path: Path, tokenizer: sm.Tokenizer
) -> None:
    assert chat(tokenizer) == chat(tokenizer)
    assert hash(chat(tokenizer)) == hash(chat(tokenizer))
    assert chat(tokenizer) != chat(tokenizer, output="ids")
    assert chat(tokenizer) != "chat"
    named = f"{TEMPLATE}{{{{ eos_token }}}}"
    one, other, again = (
        write_tokenizer(tmp_path / name, template=named) for name in ("one", "other", "again")
    )
    assert tokenizer == one, "tokenizers are equal by their ids"
    assert chat(one) == chat(again)
    assert chat(one) != chat(tokenizer), "the template differs"
    configuration = {"eos_token": START, "chat_template": named}
    (tmp_path / "other" / "tokenizer_config.json").write_text(json.dumps(configuration))
    assert chat(one) != chat(tmp_path / "other"), f"the role of {END} differs"
    assert chat(other) == chat(one)
    assert sm.Tokenize("text", tokenizer=one) == sm.Tokenize("text", tokenizer=tokenizer), (
        "no template is used"
    )
    flags: list[Any] = [True, 1]
    true, number = (
        chat(tokenizer, chat_template=sm.ChatTemplate(template_kwargs={"a": flag}))
        for flag in flags
    )
    assert true != number
