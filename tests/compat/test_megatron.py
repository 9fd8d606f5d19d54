"""Pairs written by Megatron-LM's own builder, read by shardmill and by its own reader."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shardmill as sm
from token_writers import bytes_of_pair, random_documents, write_megatron

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    indexed: Any = pytest.importorskip("megatron.core.datasets.indexed_dataset")
torch: Any = pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", ["uint16", "int32", "int64", "uint8"])
@pytest.mark.parametrize("multimodal", [False, True])
def test_builder_and_reader_of_megatron_agree(tmp_path: Path, dtype: str, multimodal: bool) -> None:
    most = min(np.iinfo(dtype).max, 50_000)
    flat = random_documents(50, seed=7, most=40, vocabulary=most)
    documents = [[tokens[:9], tokens[9:]] if len(tokens) > 9 else [tokens] for tokens in flat]
    documents[3] = documents[-1] = []
    prefix = str(tmp_path / "p")
    builder = indexed.IndexedDatasetBuilder(f"{prefix}.bin", np.dtype(dtype).type, multimodal)
    modes: list[int] = []
    for document in documents:
        own = [len(modes) + place & 1 for place in range(len(document))]
        modes += own
        lengths = [len(sequence) for sequence in document]
        tokens = torch.tensor([token for sequence in document for token in sequence])
        builder.add_document(tokens, lengths, own if multimodal else None)
    builder.finalize(f"{prefix}.idx")
    ours = write_megatron(tmp_path / "q", documents, dtype, modes if multimodal else None)
    assert bytes_of_pair(ours) == bytes_of_pair(prefix)

    theirs = indexed.IndexedDataset(prefix, multimodal=multimodal)
    rows = sm.Dataset(prefix, token_files=sm.TokenFiles(rows="sequences"))
    assert len(rows) == len(theirs)
    for row, found in zip(rows, (theirs[at] for at in range(len(theirs))), strict=True):
        tokens, mode = found if multimodal else (found, None)
        assert row["tokens"] == tokens.tolist()
        assert row.get("modes") == (None if mode is None else [mode])
    whole = [[token for sequence in document for token in sequence] for document in documents]
    assert [row["tokens"] for row in sm.Dataset(prefix)] == whole
