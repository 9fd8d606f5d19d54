"""Documents of many megabytes: the ids of the library of Hugging Face, in bounded memory.

The library itself needs 200 bytes a byte, so it gets the documents in parts, cut where GPT-2's
pattern ends a word.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from breadth import covering, examples

tokenizers = pytest.importorskip("tokenizers")

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def paragraphs() -> list[str]:
    """Of the documentation."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md"))]
    return [part for text in texts for part in text.split("\n\n") if part]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, paragraphs: list[str]) -> Path:
    """A byte-level BPE tokenizer."""
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    oracle = tokenizers.Tokenizer(tokenizers.models.BPE())
    oracle.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=2000,
        special_tokens=["<|end|>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    oracle.train_from_iterator([*paragraphs, "^" * 64], trainer)
    oracle.save(str(path))
    return path


def document(paragraphs: list[str], size: int, between: str) -> str:
    """Paragraphs in random order, with something else in place of white space."""
    choice = random.Random(size)
    parts: list[str] = []
    length = 0
    while length < size:
        parts.append(between.join(choice.choice(paragraphs).split()))
        length += len(parts[-1]) + 2
    return (between or ".").join(parts)[:size]


def expected(trained: Path, text: str) -> np.ndarray:
    """The ids of parts.

    A word that has letters ends before a space, a line feed or a full stop, whatever follows.
    """
    oracle = tokenizers.Tokenizer.from_file(str(trained))
    oracle.encode_special_tokens = True
    ends = [match.start() + 1 for match in re.finditer(r"[a-z](?=[ \n.][a-z])", text)]
    cuts = [0, *ends[:: max(1, len(ends) // 2000)], len(text)]
    parts = [text[start:end] for start, end in zip(cuts, cuts[1:], strict=False)]
    ids = []
    for first in range(0, len(parts), 100):
        batch = oracle.encode_batch_fast(parts[first : first + 100], add_special_tokens=False)
        ids += [np.array(encoding.ids, np.int32) for encoding in batch]
    return np.concatenate(ids)


Found = tuple[np.ndarray, float]


@pytest.fixture
def found(tmp_path: Path, trained: Path) -> Callable[[str, int], Found]:
    """The ids of a document, and the mebibytes that it took, in a process of its own."""

    def run(text: str, threads: int) -> Found:
        pq.write_table(
            pa.table({"text": [text]}), tmp_path / "document.parquet", compression="zstd"
        )
        script = str(Path(__file__).with_name("long_document.py"))
        arguments = [
            str(tmp_path / "document.parquet"),
            str(trained),
            str(threads),
            str(tmp_path / "ids.npy"),
        ]
        output = subprocess.run(
            [sys.executable, script, *arguments], check=True, capture_output=True, text=True
        ).stdout
        before, after = map(float, output.split())
        return np.load(tmp_path / "ids.npy"), after - before

    return run


@covering(1, threads=[1, 2], between=[" ", "\n", ""])
def test_document_of_ten_megabytes_has_the_ids_of_the_library(
    trained: Path,
    paragraphs: list[str],
    found: Callable[[str, int], Found],
    between: str,
    threads: int,
) -> None:
    text = document(paragraphs, examples(10**7, 10**6), between)
    ids, mebibytes = found(text, threads)
    assert np.array_equal(ids, expected(trained, text))
    # A part of it is that of any document.
    assert mebibytes < 150


def test_word_of_a_million_bytes_has_the_ids_of_the_library(
    trained: Path, found: Callable[[str, int], Found]
) -> None:
    text = "^" * 10**6
    ids, mebibytes = found(text, 1)
    assert np.array_equal(ids, expected(trained, text))
    assert mebibytes < 150


@pytest.mark.slow
@pytest.mark.parametrize("between", [" ", "\n", ""])
def test_document_of_a_hundred_megabytes_takes_less_than_500_mb(
    trained: Path, paragraphs: list[str], found: Callable[[str, int], Found], between: str
) -> None:
    text = document(paragraphs, 10**8, between)
    ids, mebibytes = found(text, 2)
    assert mebibytes * 2**20 < 500e6
    assert np.array_equal(ids, expected(trained, text))
