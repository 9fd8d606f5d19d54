"""Pairs of megatron-core 0.19.2, which needs Python 3.12 and therefore an environment of its own.

One process of it builds pairs, and reads those that shardmill has written.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shardmill as sm
from environment import python_of_trainers
from token_writers import bytes_of_pair, random_documents

# It imports torch in a process of its own.
pytestmark = pytest.mark.slow

FLAT = random_documents(60, seed=3, most=40, vocabulary=120)
DOCUMENTS = [[it[:9], it[9:]] if len(it) > 9 else [it] if it else [] for it in FLAT]
DOCUMENTS[0] = DOCUMENTS[7] = DOCUMENTS[-1] = []
MODES = [[place % 2 for place in range(len(document))] for document in DOCUMENTS]
CASES = [
    (dtype, has_modes)
    for dtype in ("uint8", "int16", "int32", "int64", "uint16")
    for has_modes in (False, True)
]

#: Builds `their-…` and prints version, sequences, documents and modes of `our-…`.
SCRIPT = """
import json, sys
from importlib.metadata import version
import numpy as np, torch
from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder
given, found = json.load(sys.stdin), []
for dtype, has_modes in given["cases"]:
    name = f"{dtype}-{has_modes}"
    builder = IndexedDatasetBuilder(f"their-{name}.bin", np.dtype(dtype).type, has_modes)
    for document, modes in zip(given["documents"], given["modes"]):
        tokens = torch.tensor([token for sequence in document for token in sequence])
        lengths = [len(sequence) for sequence in document]
        builder.add_document(tokens, lengths, modes if has_modes else None)
    builder.finalize(f"their-{name}.idx")
    read = IndexedDataset(f"our-{name}", multimodal=has_modes)
    rows = [read[row] for row in range(len(read))]
    pairs = rows if has_modes else [(row, None) for row in rows]
    found.append({
        "dtype": str(read.index.dtype.__name__),
        "sequences": [tokens.tolist() for tokens, _ in pairs],
        "modes": [None if mode is None else int(mode) for _, mode in pairs],
        "documents": read.document_indices.tolist(),
    })
print(json.dumps({"version": version("megatron-core"), "found": found}))
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    python, path = python_of_trainers(), tmp_path_factory.mktemp("pairs")
    for dtype, has_modes in CASES:
        layout: Any = sm.TokenLayout(dtype=dtype)  # pyright: ignore[reportArgumentType]
        out = path / f"our-{dtype}-{has_modes}"
        with sm.Writer(out, format="megatron", token_layout=layout) as writer:
            for document, modes in zip(DOCUMENTS, MODES, strict=True):
                row = {
                    "tokens": [token for sequence in document for token in sequence],
                    "sequence_lengths": [len(sequence) for sequence in document],
                }
                writer.write({**row, "modes": modes} if has_modes else row)
    given = json.dumps({"cases": CASES, "documents": DOCUMENTS, "modes": MODES})
    run = subprocess.run(
        [python, "-c", SCRIPT], cwd=path, input=given, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    (path / "found.json").write_text(run.stdout.splitlines()[-1])
    return path


def test_megatron_reads_what_we_write(directory: Path) -> None:
    answer = json.loads((directory / "found.json").read_text())
    assert tuple(map(int, answer["version"].split(".")[:2])) >= (0, 19)
    sequences = [sequence for document in DOCUMENTS for sequence in document]
    ends = np.cumsum([0, *(len(document) for document in DOCUMENTS)]).tolist()
    for (dtype, has_modes), found in zip(CASES, answer["found"], strict=True):
        modes = (
            [mode for modes in MODES for mode in modes] if has_modes else [None] * len(sequences)
        )
        assert found == {
            "dtype": dtype,
            "sequences": sequences,
            "modes": modes,
            "documents": ends,
        }


@pytest.mark.parametrize(("dtype", "has_modes"), CASES)
def test_pair_of_megatron_is_read_and_has_the_bytes_of_ours(
    directory: Path, dtype: str, has_modes: bool
) -> None:
    theirs = directory / f"their-{dtype}-{has_modes}"
    assert bytes_of_pair(theirs) == bytes_of_pair(directory / f"our-{dtype}-{has_modes}")
    columns = ["tokens", "sequence_lengths", *(["modes"] if has_modes else [])]
    for document, modes, row in zip(
        DOCUMENTS, MODES, sm.Dataset(theirs, columns=columns), strict=True
    ):
        assert row["tokens"] == [token for sequence in document for token in sequence]
        assert row["sequence_lengths"] == [len(sequence) for sequence in document]
        assert row.get("modes", modes) == modes
