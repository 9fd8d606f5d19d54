"""Token files without an index: those of llm.c, modded-nanogpt, nanoGPT and OLMo."""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shardmill as sm
from shardmill.data._opened_files import OpenedFiles
from token_writers import random_documents, write_bin, write_npy

pytestmark = pytest.mark.usefixtures("counts_below")

EOS = 50_256


def opened(path: Any, **options: Any) -> sm.Dataset:
    return sm.Dataset(path, format="bin", token_files=sm.TokenFiles(**options))


def tokens_of(dataset: sm.Dataset) -> list[list[int]]:
    return [row["tokens"] for row in dataset]


def bytes_read(dataset: sm.Dataset) -> int:
    files: OpenedFiles = dataset._files  # pyright: ignore[reportPrivateUsage]
    return files.native.bytes_read


@pytest.mark.parametrize("width", [2, 4])
@pytest.mark.parametrize("header", [True, False])
def test_rows_end_with_eos_or_start_with_bos(tmp_path: Path, width: int, header: bool) -> None:
    tokens = [1, 2, EOS, EOS, 3, EOS, 4]
    path = write_bin(tmp_path / "x.bin", tokens, width, header)
    dtype = None if header else f"uint{width * 8}"
    assert tokens_of(opened(path, eos=EOS, dtype=dtype)) == [[1, 2, EOS], [EOS], [3, EOS], [4]]
    assert tokens_of(opened(path, bos=EOS, dtype=dtype)) == [[1, 2], [EOS], [EOS, 3], [EOS, 4]]
    assert tokens_of(opened(path, bos=9, dtype=dtype)) == [tokens]
    assert tokens_of(opened(path, row_tokens=3, dtype=dtype)) == [tokens[:3], tokens[3:6], [4]]
    assert tokens_of(opened(path, dtype=dtype)) == [tokens]


def test_files_are_read_in_order_and_their_borders_are_those_of_rows(tmp_path: Path) -> None:
    documents = [[EOS, *document] for document in random_documents(500)]
    stream = [token for document in documents for token in document]
    for number, start in enumerate(range(0, len(stream), 10_000)):
        write_bin(tmp_path / f"part_{number:06}.bin", stream[start : start + 10_000])
    rows = tokens_of(opened(tmp_path, bos=EOS))
    assert [token for row in rows for token in row] == stream
    assert len(rows) in range(len(documents), len(documents) + len(stream) // 10_000 + 1)
    assert tokens_of(opened(f"{tmp_path}/part_*.bin", bos=EOS)) == rows


def test_concatenated_runs_are_the_stream(tmp_path: Path) -> None:
    stream = np.random.default_rng(0).integers(0, 50_000, 200_000)
    write_bin(tmp_path / "train.bin", stream.tolist(), header=False)
    data = opened(tmp_path / "train.bin", dtype="uint16")
    assert [len(row) for row in tokens_of(data)] == [65_536] * 3 + [200_000 - 3 * 65_536]
    packing = sm.Packing("tokens", length=1024)
    batches = list(sm.Loader(data, packing=packing, batch_size=1, lanes=1, output="numpy"))
    found = np.concatenate([batch["tokens"][0] for batch in batches])
    assert len(batches) == 200_000 // 1024 + 1
    assert (found[: len(stream)] == stream).all()


def test_rows_are_found_once(tmp_path: Path, counts_below: Path) -> None:
    documents = [[*document, EOS] for document in random_documents(1000)]
    tokens = [token for document in documents for token in document]
    path = write_bin(tmp_path / "x.bin", tokens * 20)
    first = opened(path, eos=EOS)
    assert bytes_read(first) > path.stat().st_size
    (tmp_path / "y.bin").write_bytes(path.read_bytes())
    for name in ("x.bin", "y.bin"):
        again = opened(tmp_path / name, eos=EOS)
        assert bytes_read(again) < path.stat().st_size / 2
        assert tokens_of(again) == documents * 20
    # Another separator finds other rows.
    assert len(opened(path, bos=EOS)) == 20 * 1000 + 1


def test_rows_that_were_kept_for_other_tokens_are_an_error(tmp_path: Path) -> None:
    tokens = [*range(1, 1000)] * 2000
    path = write_bin(tmp_path / "x.bin", [*tokens, EOS])
    assert len(opened(path, eos=EOS)) == 1
    # Between the parts of the file that tell it from others.
    content = bytearray(path.read_bytes())
    at = 1024 + 2 * 30_000
    content[at : at + 2] = EOS.to_bytes(2, "little")
    path.write_bytes(content)
    with pytest.raises(sm.FormatError, match=r"has another length than counted[\s\S]*remove"):
        tokens_of(opened(path, eos=EOS))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (np.array([20240520, 1, 3] + [0] * 253, "<i4").tobytes() + bytes(4), "the size is 1028"),
        (np.array([20240520, 1, 1] + [0] * 253, "<i4").tobytes() + bytes(4), "the size is 1028"),
        (np.array([20240520, 2, 1] + [0] * 253, "<i4").tobytes(), "version of the header is 2"),
        (np.array([20240801, 7, 0] + [0] * 253, "<i4").tobytes(), "dtype of the header is uint32"),
        (np.array([20240520, 1, 2], "<i4").tobytes(), "the size is 12, expected at least 1024"),
        (np.array([20240801], "<i4").tobytes(), "the size is 4, expected at least 1024"),
        (bytes(7), "the size is 7, expected a multiple of 2"),
    ],
)
def test_sizes_and_headers_that_lie_are_errors(
    tmp_path: Path, content: bytes, message: str
) -> None:
    (tmp_path / "x.bin").write_bytes(content)
    with pytest.raises(sm.FormatError, match=message):
        opened(tmp_path / "x.bin", dtype="uint16")


def test_options_of_files_without_an_index_are_checked(tmp_path: Path) -> None:
    path = write_bin(tmp_path / "x.bin", [1, 2], header=False)
    with pytest.raises(sm.OptionError, match=r"no header[\s\S]*dtype="):
        sm.Dataset(path, format="bin")
    with pytest.raises(sm.OptionError, match="mutually exclusive"):
        sm.TokenFiles(bos=1, eos=2)
    for options in ({"eos": 70_000}, {"bos": 65_536}):
        [(_, id)] = options.items()
        with pytest.raises(sm.OptionError, match=f"uint16, which cannot hold the id {id} "):
            len(opened(path, dtype="uint16", **options))
    with pytest.raises(sm.OptionError, match="rows concerns megatron files"):
        opened(path, dtype="uint16", rows="sequences")


def npy(path: Path, **options: Any) -> sm.Dataset:
    return sm.Dataset(path, format="npy", token_files=sm.TokenFiles(dtype="uint16", **options))


def test_documents_of_olmo_are_those_of_the_csv_file(tmp_path: Path) -> None:
    documents = [*random_documents(300), [1, EOS, 2]]
    write_npy(tmp_path / "a.npy", documents)
    write_npy(tmp_path / "b.npy", [[5]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tokens_of(npy(tmp_path)) == [*documents, [5]]
    assert tokens_of(npy(tmp_path / "b.npy")) == [[5]]
    packing = sm.Packing("tokens", length=64)
    batches = sm.Loader(npy(tmp_path), packing=packing, output="numpy")
    assert sum(batch["tokens"].size for batch in batches) > 0


def write_masked(path: Path) -> list[dict[str, list[Any]]]:
    """Write two files of open-instruct with their masks; return their rows."""
    random, rows = np.random.default_rng(1), []
    for number, documents in enumerate((random_documents(200), [[], [5, 6, 7]])):
        write_npy(path / f"token_ids_part_{number:04}.npy", documents, "uint32")
        masks = [random.integers(0, 2, len(document)).astype(bool) for document in documents]
        np.concatenate(masks).tofile(path / f"labels_mask_part_{number:04}.npy")
        pairs = zip(documents, masks, strict=True)
        rows += [{"tokens": ids, "loss_mask": mask.tolist()} for ids, mask in pairs]
    return rows


def test_mask_files_are_a_column(tmp_path: Path) -> None:
    rows = write_masked(tmp_path)
    named = sorted(tmp_path.glob("labels_mask_*.npy"))
    given: list[Any] = [named, iter(named), f"{tmp_path}/labels_mask_*.npy"]

    def read(masks: Any) -> sm.Dataset:
        options = sm.TokenFiles(dtype="uint32", label_mask_paths=masks)
        return sm.Dataset(f"{tmp_path}/token_ids_*.npy", format="npy", token_files=options)

    assert [list(read(masks)) for masks in given] == [rows] * 3
    data = read(given[-1])
    assert data.take([200, 3]).to_pylist() == [rows[200], rows[3]]
    packing = sm.Packing(["tokens", "loss_mask"], length=64)
    loader = sm.Loader(data, packing=packing, batch_size=1, lanes=1, output="numpy")
    found = np.concatenate([batch["loss_mask"][0] for batch in loader]).tolist()
    mask = [bit for row in rows for bit in row["loss_mask"]]
    assert found == [*mask, *[False] * (len(found) - len(mask))]


def test_masks_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    tokens = [write_npy(tmp_path / f"{name}.npy", [[1, 2], [3]]) for name in "ab"]
    mask = tmp_path / "mask.npy"
    mask.write_bytes(b"\1\1")
    with pytest.raises(sm.FormatError, match=r"mask\.npy.*size is 2, expected 3.*a\.npy"):
        npy(tokens[0], label_mask_paths=mask)
    np.save(mask, np.ones(3, bool))
    with pytest.raises(sm.FormatError, match=r"mask\.npy.*the header of NumPy"):
        npy(tokens[0], label_mask_paths=mask)
    mask.write_bytes(b"\1\1\2")
    with pytest.raises(sm.FormatError, match=r"Byte 2 of .*mask\.npy.*the mask of a token is 2"):
        tokens_of(npy(tokens[0], label_mask_paths=mask))
    with pytest.raises(sm.OptionError, match="masks is 1, that of files of tokens is 2"):
        sm.Dataset(tokens, format="npy", token_files=masked(mask))
    (tmp_path / "other.npy").write_bytes(mask.read_bytes())
    with pytest.raises(sm.OptionError, match="masks is 2, that of files of tokens is 1"):
        both = masked([mask, tmp_path / "other.npy"])
        sm.Dataset([tokens[0], tokens[0]], format="npy", token_files=both)
    with pytest.raises(sm.OptionError, match="label_mask_paths concerns npy files"):
        opened(tokens[0], dtype="uint16", label_mask_paths=mask)


def masked(masks: Any) -> sm.TokenFiles:
    return sm.TokenFiles(dtype="uint16", label_mask_paths=masks)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("0,2\n3,4\n", r"Line 2 of .*x\.csv\.gz.*start of a document is 3, expected 2"),
        ("0,2\n1,4\n", r"Line 2 of .*start of a document is 1, expected 2"),
        ("0,2\n2,9\n", r"Line 2 of .*end of a document is 9, expected 2 to 4"),
        ("0,2\n", r"end of the last document is 2, expected 4"),
        ("a,b\n", r"Line 1 of .*the line is a,b, expected two numbers"),
    ],
)
def test_lines_of_the_csv_file_that_lie_are_errors(
    tmp_path: Path, lines: str, message: str
) -> None:
    path = write_npy(tmp_path / "x.npy", [[1, 2], [3, 4]])
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(lines.encode()))
    with pytest.raises(sm.FormatError, match=message):
        npy(path)


def test_csv_file_that_was_cut_is_an_error(tmp_path: Path) -> None:
    path = write_npy(tmp_path / "x.npy", [[1, 2], [3, 4]])
    content = (tmp_path / "x.csv.gz").read_bytes()
    for length in range(1, len(content)):
        (tmp_path / "x.csv.gz").write_bytes(content[:length])
        with pytest.raises(sm.FormatError, match=r"x\.csv\.gz"):
            npy(path)


def test_array_of_numpy_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(3, np.uint16))
    with pytest.raises(sm.FormatError, match=r"the header of NumPy[\s\S]*tofile"):
        npy(tmp_path / "x.npy")
    (tmp_path / "y.npy").write_bytes(b"\1\0")
    with pytest.raises(FileNotFoundError, match=r"y\.csv\.gz"):
        npy(tmp_path / "y.npy")
