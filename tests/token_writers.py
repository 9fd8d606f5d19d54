"""Writes token files byte by byte, independently of shardmill and of their own writers."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np

#: Codes of Megatron-LM.
CODES = {"uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint16": 8}

Document = Sequence[Sequence[int]]


def write_megatron(
    prefix: Path,
    documents: Sequence[Document],
    dtype: str = "uint16",
    modes: Sequence[int] | None = None,
) -> Path:
    """Write documents, each a list of sequences; return the prefix."""
    sequences = [sequence for document in documents for sequence in document]
    width = np.dtype(dtype).itemsize
    with open(f"{prefix}.bin", "wb") as file:
        for sequence in sequences:
            file.write(np.asarray(sequence, dtype).tobytes())
    lengths = [len(sequence) for sequence in sequences]
    starts = [width * end for end in accumulate(lengths, initial=0)][:-1]
    firsts = [*accumulate((len(document) for document in documents), initial=0)]
    with open(f"{prefix}.idx", "wb") as file:
        file.write(b"MMIDIDX\0\0")
        file.write(struct.pack("<QBQQ", 1, CODES[dtype], len(sequences), len(firsts)))
        file.write(np.asarray(lengths, "<i4").tobytes())
        file.write(np.asarray(starts, "<i8").tobytes())
        file.write(np.asarray(firsts, "<i8").tobytes())
        file.write(np.asarray([] if modes is None else modes, "i1").tobytes())
    return prefix


def bytes_of_pair(prefix: Path | str) -> list[bytes]:
    """Return the bytes of the tokens and of the index."""
    return [Path(f"{prefix}.{end}").read_bytes() for end in ("bin", "idx")]


def write_datatrove(
    path: Path,
    documents: Sequence[Sequence[int]],
    width: int = 2,
    loss: Sequence[Sequence[bool]] | None = None,
    metadata: str | None = "gpt2|{width}\n{tokens}\n12.3 K",
) -> Path:
    """Write ``X.ds`` and the files beside it; return its path."""
    tokens = [token for document in documents for token in document]
    path.write_bytes(np.asarray(tokens, f"<u{width}").tobytes())
    ends = [*accumulate(len(document) for document in documents)]
    Path(f"{path}.index").write_bytes(np.asarray(ends, "<u8").tobytes())
    if loss is not None:
        mask = [bit for document in loss for bit in document]
        Path(f"{path}.loss").write_bytes(np.asarray(mask, "?").tobytes())
    if metadata is not None:
        text = metadata.format(width=width, tokens=len(tokens))
        Path(f"{path}.metadata").write_text(text)
    return path


def write_bin(path: Path, tokens: Sequence[int], width: int = 2, header: bool = True) -> Path:
    """Write the file of llm.c, or that of nanoGPT, which has no header; return its path."""
    magic, version = (20240520, 1) if width == 2 else (20240801, 7)
    head = np.zeros(256 if header else 0, "<i4")
    head[:3] = [magic, version, len(tokens)][: len(head)]
    path.write_bytes(head.tobytes() + np.asarray(tokens, f"<u{width}").tobytes())
    return path


def write_npy(path: Path, documents: Sequence[Sequence[int]], dtype: str = "uint16") -> Path:
    """Write ``X.npy`` of dolma, which is not an array of NumPy, and ``X.csv.gz``."""
    tokens = [token for document in documents for token in document]
    np.asarray(tokens, dtype).tofile(path)
    ends = [*accumulate((len(document) for document in documents), initial=0)]
    lines = [f"{start},{end},id-{end},a.jsonl,{end}\n" for start, end in pairwise(ends)]
    with gzip.open(path.with_suffix(".csv.gz"), "wt") as file:
        file.writelines(lines)
    return path


def random_documents(
    rows: int, seed: int = 0, most: int = 300, vocabulary: int = 50_000
) -> list[list[int]]:
    """Return documents of random lengths, some of them empty."""
    random = np.random.default_rng(seed)
    lengths = random.integers(0, most, rows) * random.integers(0, 2, rows)
    return [random.integers(0, vocabulary, length).tolist() for length in lengths]
