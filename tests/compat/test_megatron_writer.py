"""Pairs that shardmill writes have the bytes that the tools of Megatron-LM write."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shardmill as sm
from command import shardmill
from small_tokenizers import DOCUMENTS, trained
from token_writers import Document, bytes_of_pair, random_documents, write_megatron

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    indexed: Any = pytest.importorskip("megatron.core.datasets.indexed_dataset")
tokenizers: Any = pytest.importorskip("tokenizers")

ROWS = [[[1, 2, 3]], [], [[4, 5], [6, 7]], [[9]]]


def built(
    prefix: Path,
    documents: Sequence[Document],
    dtype: Any = np.uint16,
    modes: Sequence[Sequence[int]] | None = None,
) -> Path:
    """A pair of Megatron's own builder."""
    builder = indexed.IndexedDatasetBuilder(f"{prefix}.bin", dtype, modes is not None)
    for number, document in enumerate(documents):
        tokens = [token for sequence in document for token in sequence]
        lengths = [len(sequence) for sequence in document]
        builder.add_document(tokens, lengths, None if modes is None else modes[number])
    builder.finalize(f"{prefix}.idx")
    return prefix


def row(document: Document, modes: Sequence[int] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "tokens": [token for sequence in document for token in sequence],
        "sequence_lengths": [len(sequence) for sequence in document],
    }
    return found if modes is None else {**found, "modes": list(modes)}


def written(prefix: Path, rows: Sequence[dict[str, Any]], **layout: Any) -> Path:
    options = {"threads": layout.pop("threads", None)}
    with sm.Writer(
        prefix, format="megatron", token_layout=sm.TokenLayout(**layout), **options
    ) as writer:
        writer.write_rows(rows)
    return prefix


def test_pair_of_four_documents_has_the_known_digests(tmp_path: Path) -> None:
    bin, idx = bytes_of_pair(written(tmp_path / "p", [row(it) for it in ROWS], dtype="uint16"))
    assert (len(bin), len(idx)) == (16, 122)
    assert hashlib.sha256(idx).hexdigest().startswith("3f10fe56fab4ee45")
    assert hashlib.sha256(bin).hexdigest().startswith("6b21eb33ed68b7cb")
    assert bytes_of_pair(built(tmp_path / "q", ROWS)) == [bin, idx]


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64", "uint16"])
@pytest.mark.parametrize("has_modes", [False, True])
def test_pair_has_the_bytes_of_the_builder(tmp_path: Path, dtype: str, has_modes: bool) -> None:
    most = min(np.iinfo(dtype).max, 50_000)
    flat = random_documents(300, seed=1, most=40, vocabulary=most)
    documents = [[it[:9], it[9:]] if len(it) > 9 else [it] if it else [] for it in flat]
    modes = [[number % 3] * len(it) for number, it in enumerate(documents)]
    theirs = built(tmp_path / "t", documents, np.dtype(dtype).type, modes if has_modes else None)
    rows = [row(it, own if has_modes else None) for it, own in zip(documents, modes, strict=True)]
    assert bytes_of_pair(written(tmp_path / "p", rows, dtype=dtype)) == bytes_of_pair(theirs)
    read = indexed.IndexedDataset(str(tmp_path / "p"), multimodal=has_modes)
    assert len(read) == sum(map(len, documents))
    # Read again, a pair is written as it was.
    with sm.Writer(tmp_path / "again", format="megatron") as writer:
        writer.write_batch(sm.Dataset(tmp_path / "p", columns=list(rows[0])))
    assert bytes_of_pair(tmp_path / "again") == bytes_of_pair(theirs)


def test_document_is_one_sequence_unless_it_is_empty(tmp_path: Path) -> None:
    documents = random_documents(200)
    rows = [{"input_ids": np.asarray(document, np.uint16)} for document in documents]
    theirs = built(tmp_path / "t", [[it] if it else [] for it in documents])
    assert bytes_of_pair(written(tmp_path / "p", rows)) == bytes_of_pair(theirs)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_bytes_do_not_depend_on_the_number_of_threads(tmp_path: Path, threads: int) -> None:
    documents = random_documents(20_000, vocabulary=60_000)
    rows = [{"tokens": document} for document in documents]
    theirs = built(tmp_path / "t", [[it] if it else [] for it in documents])
    ours = written(tmp_path / "p", rows, vocab_size=60_000, threads=threads)
    assert bytes_of_pair(ours) == bytes_of_pair(theirs)


@pytest.mark.parametrize(
    ("vocab_size", "expected"), [(65_499, np.uint16), (65_500, np.int32), (200_000, np.int32)]
)
def test_type_follows_from_the_vocabulary(
    tmp_path: Path, vocab_size: int, expected: type[np.number]
) -> None:
    assert indexed.DType.optimal_dtype(vocab_size) is expected
    ours = written(tmp_path / "p", [row(it) for it in ROWS], vocab_size=vocab_size)
    assert bytes_of_pair(ours) == bytes_of_pair(built(tmp_path / "t", ROWS, expected))


def preprocessed(
    prefix: Path, texts: Sequence[str], encode: Callable[[str], list[int]], eod: int, size: int
) -> Path:
    """What ``tools/preprocess_data.py --append-eod`` writes."""
    builder = indexed.IndexedDatasetBuilder(f"{prefix}.bin", indexed.DType.optimal_dtype(size))
    for text in texts:
        ids = encode(text)
        ids += [eod] * bool(ids)
        builder.add_document(ids, [len(ids)] if ids else [])
    builder.finalize(f"{prefix}.idx")
    return prefix


@pytest.mark.parametrize(("kind", "end"), [("byte-level", "<|endoftext|>"), ("wordpiece", "[CLS]")])
def test_tokenize_writes_the_bytes_of_preprocess_data(tmp_path: Path, kind: str, end: str) -> None:
    texts = [text[start : start + 800] for text in DOCUMENTS for start in range(0, len(text), 800)]
    texts += ["", "last"]
    lines = [json.dumps({"text": text}) + "\n" for text in texts]
    (tmp_path / "a.jsonl").write_text("".join(lines))
    path = trained(kind, tmp_path / "tokenizer.json")
    oracle = tokenizers.Tokenizer.from_file(str(path))
    theirs = preprocessed(
        tmp_path / "t",
        texts,
        lambda text: oracle.encode(text, add_special_tokens=False).ids,
        oracle.token_to_id(end),
        oracle.get_vocab_size(),
    )
    result = shardmill(
        *("tokenize", tmp_path / "a.jsonl", tmp_path / "p", "--to", "megatron"),
        *("--tokenizer", path, "--eos", end, "--special-in-text", "id"),
        SHARDMILL_CACHE_DIR=str(tmp_path),
    )
    assert result.returncode == 0, result.stderr
    assert bytes_of_pair(tmp_path / "p") == bytes_of_pair(theirs)


@pytest.mark.parametrize("has_modes", [False, True])
def test_merged_pairs_have_the_bytes_of_merge_datasets(tmp_path: Path, has_modes: bool) -> None:
    parts, builder = [], None
    for number, name in enumerate("cab"):
        documents = [[it] if it else [] for it in random_documents(90, seed=number)]
        documents += [[], [[1, 2], [3]]] if number == 1 else []
        modes = [[number] * len(it) for it in documents] if has_modes else None
        parts.append(built(tmp_path / name, documents, modes=modes))
        builder = builder or indexed.IndexedDatasetBuilder(
            f"{tmp_path / 't'}.bin", np.uint16, has_modes
        )
        builder.add_index(str(parts[-1]))
    assert builder is not None
    builder.finalize(f"{tmp_path / 't'}.idx")
    assert sm.merge(tmp_path / "p", parts) == [f"{tmp_path / 'p'}.bin"]
    assert bytes_of_pair(tmp_path / "p") == bytes_of_pair(tmp_path / "t")


def test_merge_leaves_gaps_out(tmp_path: Path) -> None:
    """`merge_datasets.py` would place all later documents wrongly."""
    write_megatron(tmp_path / "a", ROWS)
    bin = (tmp_path / "a.bin").read_bytes()
    (tmp_path / "a.bin").write_bytes(bin[:6] + b"\7\7" + bin[6:])
    idx = bytearray((tmp_path / "a.idx").read_bytes())
    starts = np.frombuffer(bytes(idx[50:82]), "<i8") + np.array([0, 2, 2, 2])
    idx[50:82] = starts.astype("<i8").tobytes()
    (tmp_path / "a.idx").write_bytes(idx)
    sm.merge(tmp_path / "p", [tmp_path / "a", tmp_path / "a"])
    assert bytes_of_pair(tmp_path / "p") == bytes_of_pair(built(tmp_path / "t", ROWS * 2))
