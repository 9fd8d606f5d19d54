"""Files written by datatrove, where it is installed, read by shardmill and by its own reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shardmill as sm
from token_writers import random_documents, write_datatrove

tokenizer: Any = pytest.importorskip("datatrove.pipeline.tokens.tokenizer")
reader: Any = pytest.importorskip("datatrove.utils.dataset")


@pytest.mark.parametrize("width", [2, 4])
def test_writer_and_reader_of_datatrove_agree(tmp_path: Path, width: int) -> None:
    documents = random_documents(200)
    random = np.random.default_rng(0)
    loss = [random.integers(0, 2, len(document)).astype(bool) for document in documents]
    file = tokenizer.TokenizedFile(
        str(tmp_path),
        "x.ds",
        save_loss_metadata=True,
        tokenizer_name_or_path="gpt2",
        save_final_metadata=True,
        token_size=width,
    )
    for document, mask in zip(documents, loss, strict=True):
        file.write(document, mask)
    file.close()
    masks = [mask.tolist() for mask in loss]
    ours = write_datatrove(tmp_path / "ours.ds", documents, width, masks)
    for end in ("", ".index", ".loss"):
        assert Path(f"{ours}{end}").read_bytes() == Path(f"{tmp_path}/x.ds{end}").read_bytes()

    rows = [{"tokens": ids, "loss_mask": mask} for ids, mask in zip(documents, masks, strict=True)]
    assert list(sm.Dataset(tmp_path / "x.ds")) == rows
    theirs = reader.DatatroveFileDataset(str(tmp_path / "x.ds"), seq_len=64, token_size=width)
    stream = [token for document in documents for token in document]
    for place in (0, len(theirs) - 1):
        found = theirs[place]["input_ids"].tolist()
        assert found == stream[65 * place : 65 * place + 65]
    packing = sm.Packing("tokens", length=65)
    packs = sm.Loader(tmp_path / "x.ds", packing=packing, batch_size=1, lanes=1, output="numpy")
    windows = [theirs[place]["input_ids"].tolist() for place in range(len(theirs))]
    assert [batch["tokens"][0].tolist() for batch in packs][: len(windows)] == windows
