"""Added tokens, against the library of Hugging Face.

Which text they take, and what a normalizer or Metaspace does beside them.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import shardmill as sm
from breadth import covering, examples

tokenizers = pytest.importorskip("tokenizers")

from tokenizers import AddedToken, Regex, models, normalizers, pre_tokenizers

PARTS = [
    "a",
    "b",
    "ab",
    "c",
    "é",
    "日本",
    "<x>",
    "<y>",
    "▁",
    "_",
    "1",
    "!",
    " ",
    "  ",
    "\t",
    "\n",
    "\n\n",
    "\u3000",
    "\u0301",
]


def byte_level(*, ignores_words: bool = False) -> Any:
    """A model that knows all bytes."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {
        character: number for number, character in enumerate([*alphabet, "ab", "ĠĠ", "Ġa"])
    }
    made = tokenizers.Tokenizer(models.BPE(vocabulary, [("a", "b"), ("Ġ", "Ġ"), ("Ġ", "a")]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=not ignores_words
    )
    return made


def marked() -> Any:
    """A model whose tokens have markers for spaces."""
    tokens = [
        "<unk>",
        "▁",
        "a",
        "b",
        "c",
        "é",
        "1",
        "!",
        "_",
        "\t",
        "\n",
        "▁a",
        "ab",
        "▁ab",
        "▁▁",
        "日",
        "本",
    ]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    merges = [("▁", "a"), ("a", "b"), ("▁", "ab"), ("▁", "▁")]
    return tokenizers.Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>"))


def texts() -> list[str]:
    chance = random.Random(3)
    mixed = [
        "".join(chance.choice(PARTS) for _ in range(chance.randint(1, 12)))
        for _ in range(examples(3000, 600))
    ]
    return [
        "<x> a",
        "a<x>a",
        "éé",
        "日本日本",
        "<x>c  <x><x>",
        "\n\n",
        "    ",
        "a   ",
        "ab ab",
        " b",
        *mixed,
    ]


TEXTS = texts()


def assert_equal(original: Any, directory: Path) -> None:
    path = directory / "tokenizer.json"
    original.save(str(path))
    ours = sm.Tokenizer(path)
    for special in ("id", "text"):
        original.encode_special_tokens = special == "text"
        found = ours.encode_batch(TEXTS, special_in_text=special)
        expected = [original.encode(text, add_special_tokens=False).ids for text in TEXTS]
        assert [
            text for text, one, other in zip(TEXTS, found, expected, strict=True) if one != other
        ] == []


FLAGS = ["none", "lstrip", "rstrip", "lstrip-rstrip", "single_word", "single_word-lstrip-rstrip"]


@covering(
    2,
    kind=["byte-level", "nfc", "always", "first", "never", "whitespace", "nfkc-always", "llama"],
    flags=FLAGS,
    normalized=[False, True],
)
def test_added_tokens_take_the_text_that_the_library_gives_them(
    kind: str, flags: str, normalized: bool, tmp_path: Path
) -> None:
    options = dict.fromkeys(flags.split("-") if flags != "none" else [], True) | {
        "normalized": normalized
    }
    original = byte_level() if kind in ("byte-level", "nfc") else marked()
    match kind:
        case "nfc":
            original.normalizer = normalizers.NFC()
        case "always" | "first" | "never":
            original.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=kind)
        case "whitespace":
            members = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
            original.pre_tokenizer = pre_tokenizers.Sequence(members)
        case "nfkc-always":
            original.normalizer = normalizers.Sequence(
                [normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
            )
            original.pre_tokenizer = pre_tokenizers.Metaspace()
        case "llama":
            original.normalizer = normalizers.Sequence(
                [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
            )
    contents = ["<x>", "ab", "é", "日本", "a b"]
    original.add_tokens([AddedToken(content, **options) for content in contents])
    original.add_special_tokens([AddedToken("<y>", special=True, **options)])
    assert_equal(original, tmp_path)


# With lstrip, white space that two tokens take makes the library fail.
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize(
    "flags",
    [{}, {"rstrip": True}, {"single_word": True}],
    ids=lambda flags: "-".join(flags) or "none",
)
def test_added_tokens_of_white_space_are_those_of_the_library(
    flags: dict[str, bool], normalized: bool, tmp_path: Path
) -> None:
    original = byte_level()
    original.add_tokens(
        [
            AddedToken(content, normalized=normalized, **flags)
            for content in ["\n", "  ", "   ", "\t"]
        ]
    )
    assert_equal(original, tmp_path)


@pytest.mark.parametrize("scheme", ["first", "always"])
def test_metaspace_after_the_normalizer_of_a_converted_model_gives_the_ids_of_the_library(
    scheme: str, tmp_path: Path
) -> None:
    original = marked()
    steps = [
        normalizers.NFKC(),
        normalizers.Strip(left=False, right=True),
        normalizers.Replace(Regex(" {2,}"), "▁"),
    ]
    original.normalizer = normalizers.Sequence(steps)
    original.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    original.add_tokens(["<x>"])
    original.add_special_tokens([AddedToken("<y>", lstrip=True)])
    assert_equal(original, tmp_path)


@pytest.mark.parametrize(
    "normalizer",
    [
        normalizers.Strip(),
        normalizers.StripAccents(),
        normalizers.Nmt(),
        normalizers.Replace("``", '"'),
        normalizers.BertNormalizer(),
    ],
    ids=lambda normalizer: type(normalizer).__name__,
)
def test_normalizer_that_removes_the_start_of_a_text_is_refused_before_metaspace_first(
    normalizer: Any, tmp_path: Path
) -> None:
    original = marked()
    original.normalizer = normalizer
    original.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    original.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(
        ValueError, match=rf"its normalizer {type(normalizer).__name__} can remove .*\"first\": set"
    ):
        sm.Tokenizer(tmp_path)
    original.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    assert_equal(original, tmp_path)


def test_token_that_is_found_after_normalization_has_a_place_in_the_text(tmp_path: Path) -> None:
    original = byte_level()
    original.add_special_tokens([AddedToken("<y>", normalized=True, special=True)])
    original.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ValueError, match='Special token "<y>" is in the text at byte 2'):
        sm.Tokenizer(tmp_path).encode("ab<y>c", special_in_text="raise")


PATTERNS = {
    "llama3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_contraction_with_a_long_s_is_that_of_the_library(pattern: str, tmp_path: Path) -> None:
    original = byte_level()
    document = json.loads(original.to_str())
    vocabulary = document["model"]["vocab"]
    vocabulary |= {"Å¿": len(vocabulary), "Å¿t": len(vocabulary) + 1}
    document["model"]["merges"] += [["Å", "¿"], ["Å¿", "t"]]
    original = tokenizers.Tokenizer.from_str(json.dumps(document))
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    original.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    original.save(str(tmp_path / "tokenizer.json"))
    for text in ["it'ſa", "it'ſ the\n\t", "'ſt", "ſt's", "a'K", "'ſ"]:
        assert sm.Tokenizer(tmp_path).encode(text) == original.encode(text).ids
