"""Texts of single tokens, as `shardmill view` shows them."""

import io
import json
import re

import pyarrow as pa
import pytest
import shardmill as sm
from breadth import examples
from byte_tokenizer import END, write_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st
from shardmill.view import TokenColumns
from shardmill.view._token_texts import TokenTexts
from token_page import parts


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    merges = [(b"h", b"e"), (b" ", b"w"), ("日".encode()[:1], "日".encode()[1:2])]
    return write_tokenizer(tmp_path_factory.mktemp("model"), merges=merges)


def cell(tokenizer, ids):
    return TokenTexts(TokenColumns(tokenizer)).cell(pa.array(ids), None, 1_000)


def test_tokens_have_their_texts_in_parts(tokenizer):
    ids = tokenizer.encode("he  wx\n\ty")
    assert [token["parts"] for token in cell(tokenizer, ids)["tokens"]] == [
        [["text", "he"]],
        [["space", " "]],
        [["space", " "], ["text", "w"]],
        [["text", "x"]],
        [["newline", "\n"]],
        [["tab", "\t"]],
        [["text", "y"]],
    ]
    assert cell(tokenizer, ids)["tokens"][2] | {"parts": []} == {
        "id": ids[2],
        "kind": "token",
        "spelling": "Ġw",
        "parts": [],
    }


def test_part_of_a_character_is_its_bytes_and_names_the_character(tokenizer):
    shown = cell(tokenizer, tokenizer.encode("日x🙂"))["tokens"]
    assert [token["parts"][0] for token in shown] == [
        ["byte", "<0xE6><0x97>"],
        ["byte", "<0xA5>"],
        ["text", "x"],
        ["byte", "<0xF0>"],
        ["byte", "<0x9F>"],
        ["byte", "<0x99>"],
        ["byte", "<0x82>"],
    ]
    assert [token.get("of") for token in shown] == ["日", "日", None, "🙂", "🙂", "🙂", "🙂"]
    broken = cell(tokenizer, [0x80, 0xE6, 0x80, 0x61, 0xFF])["tokens"]
    assert [token["parts"][0][0] for token in broken] == ["byte", "byte", "byte", "text", "byte"]
    assert not any("of" in token for token in broken)


def test_characters_that_cannot_be_seen_are_written_as_codes(tokenizer):
    shown = cell(tokenizer, tokenizer.encode("\u0007\r"))["tokens"]
    assert [token["parts"] for token in shown] == [[["code", "<U+0007>"]], [["code", "<U+000D>"]]]


def test_special_tokens_ids_outside_of_the_vocabulary_and_nulls_are_told_apart(tokenizer):
    special = tokenizer.token_id(END)
    assert parts(cell(tokenizer, [special, 97, 5_000, -100, None])) == [
        [END, "special"],
        ["a", "token"],
        ["5000", "unknown"],
        ["-100", "unknown"],
        ["null", "number"],
    ]
    assert parts(cell(None, [7, 8])) == [["7", "number"], ["8", "number"]]


@settings(deadline=None, max_examples=examples(60))
@given(text=st.text(max_size=40))
def test_bytes_of_the_parts_are_those_of_the_text(tokenizer, text):
    shown = cell(tokenizer, tokenizer.encode(text))
    found = b""
    for token in shown["tokens"]:
        for kind, part in token["parts"]:
            if kind == "byte":
                found += bytes(int(number, 16) for number in re.findall("<0x(..)>", part))
            elif kind == "code":
                found += "".join(
                    chr(int(number, 16)) for number in re.findall(r"<U\+([0-9A-F]+)>", part)
                ).encode()
            else:
                found += part.encode()
    assert found == text.encode()


def test_tokens_of_sentencepiece_have_spaces_and_bytes(tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["hello world", "the cat sat on the mat"] * 50),
        model_writer=model,
        vocab_size=300,
        model_type="bpe",
        byte_fallback=True,
        hard_vocab_limit=False,
        minloglevel=5,
    )
    (tmp_path / "tokenizer.model").write_bytes(model.getvalue())
    tokenizer = sm.Tokenizer(tmp_path / "tokenizer.model")
    shown = parts(cell(tokenizer, [1, *tokenizer.encode("the 🙂"), 2]))
    assert shown[0] == ["<s>", "special"] and shown[-1] == ["</s>", "special"]
    assert "".join(text for text, _ in shown[1:-1]) == " the <0xF0><0x9F><0x99><0x82>"


def test_tokens_of_words_and_word_pieces_read_as_the_text(tmp_path):
    special = {
        "special": True,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
    }
    vocabulary = {
        token: number
        for number, token in enumerate(["[UNK]", "read", "##ing", "rows", "[CLS]", "."])
    }
    document = {
        "version": "1.0",
        "added_tokens": [
            {"id": vocabulary[token], "content": token} | special for token in ("[UNK]", "[CLS]")
        ],
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "vocab": vocabulary,
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
        },
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    tokenizer = sm.Tokenizer(tmp_path)
    shown = cell(tokenizer, tokenizer.encode("reading rows."))
    assert "".join(text for text, _ in parts(shown)) == " reading rows."
    assert [token["spelling"] for token in shown["tokens"]] == ["read", "##ing", "rows", "."]
