"""Token and mask files read by OLMo-core, where it is installed, and by shardmill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shardmill as sm
from token_writers import random_documents, write_npy

dataset: Any = pytest.importorskip("olmo_core.data.numpy_dataset")

LENGTH = 64


def test_windows_and_masks_are_those_of_olmo_core(tmp_path: Path) -> None:
    documents = random_documents(300)
    tokens = write_npy(tmp_path / "token_ids_part_0000.npy", documents, "uint32")
    mask = tmp_path / "labels_mask_part_0000.npy"
    count = sum(map(len, documents))
    np.random.default_rng(0).integers(0, 2, count).astype(bool).tofile(mask)
    theirs = dataset.NumpyFSLDataset(
        str(tokens),
        sequence_length=LENGTH,
        pad_token_id=0,
        eos_token_id=0,
        vocab_size=50_000,
        dtype=np.uint32,
        label_mask_paths=[str(mask)],
    )
    options = sm.TokenFiles(dtype="uint32", label_mask_paths=mask)
    ours = sm.Loader(
        sm.Dataset(tokens, format="npy", token_files=options),
        packing=sm.Packing(["tokens", "loss_mask"], length=LENGTH),
        batch_size=1,
        lanes=1,
        output="numpy",
    )
    assert len(theirs) == count // LENGTH
    batches = list(ours)
    for place in range(len(theirs)):
        found, batch = theirs[place], batches[place]
        assert batch["tokens"][0].tolist() == found["input_ids"].tolist()
        assert batch["loss_mask"][0].tolist() == found["label_mask"].tolist()
