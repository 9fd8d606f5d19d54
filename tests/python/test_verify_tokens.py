"""`verify` of token files: sizes, indices, ids and masks; gaps are notes."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shardmill as sm
from command import shardmill
from shardmill.curate import FileCheck, verify
from token_writers import random_documents, write_bin, write_datatrove, write_megatron, write_npy

DOCUMENTS = random_documents(200, vocabulary=500)
IDS = [token for document in DOCUMENTS for token in document]


def write_all(path: Path) -> None:
    """Write the same documents in all formats of token files."""
    sequences = [[document[:9], document[9:]] for document in DOCUMENTS]
    write_megatron(path / "pair", sequences, modes=[0, 1] * len(sequences))
    mask = [[token % 2 == 0 for token in document] for document in DOCUMENTS]
    write_datatrove(path / "x.ds", DOCUMENTS, 4, mask)
    write_bin(path / "llmc.bin", IDS)
    write_bin(path / "plain.bin", IDS, header=False)
    write_npy(path / "x.npy", DOCUMENTS)
    np.zeros(len(IDS), bool).tofile(path / "mask.npy")


def formats(checks: list[FileCheck]) -> dict[str, str]:
    return {Path(check.path).name: check.format for check in checks if check.is_valid}


def test_token_files_of_all_formats_pass(tmp_path: Path) -> None:
    write_all(tmp_path)
    with pytest.warns(UserWarning, match=r"mask\.npy', .*plain\.bin', .*x\.npy"):
        checks = verify(tmp_path, vocab_size=500)
    found = {"pair.bin": "megatron", "x.ds": "datatrove", "llmc.bin": "bin"}
    assert formats(checks) == found
    with pytest.warns(UserWarning, match=r"mask\.npy"):
        checks = verify(tmp_path, vocab_size=500, dtype="uint16")
    assert formats(checks) == found | {"plain.bin": "bin", "x.npy": "npy"}
    assert [check.notes for check in checks] == [[]] * 5


def test_id_beyond_the_vocabulary_is_a_problem_in_each_format(tmp_path: Path) -> None:
    write_all(tmp_path)
    largest = max(IDS)
    place = IDS.index(largest)
    first = {"pair.bin": 0, "x.ds": 0, "llmc.bin": 1024, "plain.bin": 0, "x.npy": 0}
    paths = [tmp_path / name for name in first]
    for check in verify(paths, vocab_size=largest, dtype="uint16"):
        name = Path(check.path).name
        byte = first[name] + place * (4 if name == "x.ds" else 2)
        [problem] = check.problems
        assert f"Byte {byte} of" in problem.what, name
        assert f"token {largest} is not below {largest}" in problem.what
    run = shardmill("verify", *paths, "--vocab-size", largest, "--dtype", "uint16")
    assert run.returncode == 1 and run.stdout.count(f"is not below {largest}") == 5
    assert shardmill("verify", *paths, "--vocab-size", "500", "--dtype", "uint16").returncode == 0


def test_gaps_between_sequences_are_notes(tmp_path: Path) -> None:
    prefix = write_megatron(tmp_path / "p", [[[1, 2]], [[3]], [[4, 5]]])
    bin_path, index = Path(f"{prefix}.bin"), Path(f"{prefix}.idx")
    ids = bin_path.read_bytes()
    bin_path.write_bytes(b"gap!" + ids[:6] + bytes(10) + ids[6:] + b"end")
    content = bytearray(index.read_bytes())
    struct.pack_into("<3q", content, 34 + 3 * 4, 4, 8, 20)
    index.write_bytes(content)
    assert [row["tokens"] for row in sm.Dataset(prefix)] == [[1, 2], [3], [4, 5]]
    [check] = verify(prefix)
    assert check.is_valid
    assert check.notes == ["gaps between sequences: 3, of 17 bytes; the first is at byte 0"]
    run = shardmill("verify", prefix)
    assert run.returncode == 0 and f"note: {bin_path}: gaps between" in run.stdout


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.ds.loss", b"\1", "the size is 1, expected 3"),
        ("x.ds.loss", b"\1\2\1", "the mask of a token is 2, expected 0 or 1"),
        ("x.ds.index", struct.pack("<3Q", 2, 1, 3), "the end of a document is 1, expected 2 to 3"),
        ("pair.bin", b"\1\0", "the end of the last sequence"),
        ("llmc.bin", np.array([20240520, 1, 9] + [0] * 253, "<i4").tobytes(), "the size is 1024"),
        ("plain.bin", b"\1", "the size is 1, expected a multiple of 2"),
        ("x.npy", b"\x93NUMPY", "the header of NumPy"),
        ("x.npy", b"\1\0", "the end of a document is 2, expected 0 to 1"),
    ],
)
def test_damage_is_a_problem(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    documents = [[1, 2], [], [3]]
    write_megatron(tmp_path / "pair", [[document] for document in documents])
    write_datatrove(tmp_path / "x.ds", documents, loss=[[True] * len(ids) for ids in documents])
    write_bin(tmp_path / "llmc.bin", [1, 2])
    write_bin(tmp_path / "plain.bin", [1, 2], header=False)
    write_npy(tmp_path / "x.npy", documents)
    (tmp_path / name).write_bytes(content)
    [check] = [check for check in verify(tmp_path, dtype="uint16") if not check.is_valid]
    assert message in check.problems[0].what


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (b"\1\0\1", None),
        (b"\1\0", "the size is 2, expected 3, one byte for each token"),
        (b"\1\0\7", "the mask of a token is 7, expected 0 or 1"),
    ],
)
def test_masks_of_olmo_are_checked(tmp_path: Path, mask: bytes, message: str | None) -> None:
    for directory in ("tokens", "masks"):
        (tmp_path / directory).mkdir()
    for name in ("a", "b"):
        write_npy(tmp_path / "tokens" / f"{name}.npy", [[1, 2], [], [3]])
        (tmp_path / "masks" / f"{name}.npy").write_bytes(b"\1\1\1" if name == "a" else mask)
    options: Any = {"dtype": "uint16", "label_mask_paths": tmp_path / "masks"}
    checks = verify(tmp_path / "tokens", **options)
    assert [Path(check.path).name for check in checks] == ["a.npy", "b.npy"]
    assert checks[0].is_valid
    assert [problem.what for problem in checks[1].problems] == [] or message is not None
    assert message is None or message in checks[1].problems[0].what
    given = ("--dtype", "uint16", "--label-masks", tmp_path / "masks")
    run = shardmill("verify", tmp_path / "tokens", *given)
    assert run.returncode == (0 if message is None else 1)
    with pytest.raises(sm.OptionError, match="masks is 1, that of files of tokens is 2"):
        verify(tmp_path / "tokens", **options | {"label_mask_paths": tmp_path / "masks" / "a.npy"})


def test_options_of_token_files_are_checked(tmp_path: Path) -> None:
    write_npy(tmp_path / "x.npy", [[1]])
    with pytest.raises(sm.OptionError, match="vocab_size must be an integer"):
        verify(tmp_path, vocab_size=0)
    with pytest.raises(sm.OptionError, match="dtype must be one of 'uint8'"):
        verify(tmp_path, dtype="uint12")  # pyright: ignore[reportArgumentType]
    [check] = verify(tmp_path / "x.npy")
    assert "need their dtype" in check.problems[0].what
