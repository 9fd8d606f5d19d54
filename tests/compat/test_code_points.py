"""Every code point that Unicode 14 has, in three places of a text.

The ids are those of the original libraries, but for pinned exceptions.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain
from pathlib import Path

import pytest
import shardmill as sm
from breadth import sample
from small_tokenizers import tekken, trained

tokenizers = pytest.importorskip("tokenizers")

pytestmark = pytest.mark.skipif(
    unicodedata.unidata_version != "14.0.0", reason="the exceptions are those of Unicode 14"
)

#: Decompositions that tokenizers does not know.
NFKC = "a7f2-a7f4 107a5 1f16c 1fbf0-1fbf9"
#: Characters, most of them punctuation, that are newer than the tables of tokenizers.
BERT = """
61d 9fd a76 c77 c84 166d 1b7d-1b7e 2e43-2e4f 2e52-2e5d 10ead 10f55-10f59 10f86-10f89 111c9
1144b-1144f 1145a-1145b 1145d 11660-1166c 116b9 1183b 11944-11946 119e2 11a3f-11a46 11a9a-11a9c
11a9e-11aa2 11c41-11c45 11c70-11c71 11ef7-11ef8 11fff 12ff1-12ff2 16e97-16e9a 16fe2 1e95e-1e95f
"""


def listed(ranges: str) -> list[str]:
    """The code points of ranges in hexadecimal digits."""
    ends = (part.partition("-") for part in ranges.split())
    return list(
        chain.from_iterable(
            map(chr, range(int(first, 16), int(last or first, 16) + 1)) for first, _, last in ends
        )
    )


@cache
def assigned() -> list[str]:
    every = map(chr, range(0x110000))
    return [char for char in every if unicodedata.category(char) not in ("Cn", "Co", "Cs")]


def different(
    tokenizer: sm.Tokenizer,
    oracle: Callable[[list[str]], Sequence[Sequence[int]]],
    exceptions: Sequence[str] = (),
) -> list[str]:
    """The code points around which the ids are not those of the oracle."""
    chosen = sorted({*sample(assigned(), 41), *exceptions})
    texts = [f"a{char}b 1{char} {char}" for char in chosen]
    pairs = zip(chosen, tokenizer.encode_batch(texts), oracle(texts), strict=True)
    return [char for char, ids, expected in pairs if list(ids) != list(expected)]


@pytest.mark.parametrize(
    ("kind", "exceptions"),
    [
        ("byte-level", ""),
        ("pattern", ""),
        ("unigram", NFKC),
        ("wordpiece", BERT),
        ("wordlevel", ""),
    ],
    ids=["byte-level", "pattern", "unigram", "wordpiece", "wordlevel"],
)
def test_ids_around_each_code_point_are_those_of_tokenizers(
    kind: str, exceptions: str, tmp_path: Path
) -> None:
    path = trained(kind, tmp_path / "tokenizer.json")
    original = tokenizers.Tokenizer.from_file(str(path))

    def oracle(texts: list[str]) -> list[list[int]]:
        return [
            encoding.ids for encoding in original.encode_batch_fast(texts, add_special_tokens=False)
        ]

    assert different(sm.Tokenizer(tmp_path), oracle, listed(exceptions)) == listed(exceptions)


def test_ids_around_each_code_point_are_those_of_mistral_common(tmp_path: Path) -> None:
    pytest.importorskip("mistral_common")
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    path = tekken(tmp_path)
    original = Tekkenizer.from_file(path)
    tokenizer = sm.Tokenizer(path)
    assert (
        different(
            tokenizer, lambda texts: [original.encode(text, bos=False, eos=False) for text in texts]
        )
        == []
    )
