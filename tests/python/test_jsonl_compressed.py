"""Compressed files of lines: read as the plain ones are, and never in part."""

import gzip
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import shardmill as sm

ROWS = [{"x": number, "y": "é" * (number % 7), "z": [number, None]} for number in range(5_000)]


def text(rows: list) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@pytest.mark.parametrize("extension", ["gz", "zst"])
def test_what_the_writer_compresses_is_read_again(tmp_path: Path, extension: str) -> None:
    codec = {"gz": "gz", "zst": "zstd"}[extension]
    with sm.Writer(
        tmp_path / "directory", format="jsonl", compression=codec, shard_bytes="64KiB"
    ) as writer:
        writer.write_rows(ROWS)
    with sm.Writer(tmp_path / f"rows.jsonl.{extension}") as writer:
        writer.write_rows(ROWS)
    assert len(writer.files) == 1 and len(os.listdir(tmp_path / "directory")) > 2
    for path in (tmp_path / "directory", tmp_path / f"rows.jsonl.{extension}"):
        dataset = sm.Dataset(path)
        assert (dataset.format, list(dataset)) == ("jsonl", ROWS)
        assert dataset[4_321] == ROWS[4_321]


def test_order_state_and_filter_are_those_of_the_plain_file(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "a.jsonl").write_bytes(text(ROWS))
    # Several streams in a row are one file, as `cat` makes it.
    (tmp_path / "a.jsonl.gz").write_bytes(
        gzip.compress(text(ROWS[:2_000])) + gzip.compress(text(ROWS[2_000:]))
    )
    plain, packed = (
        sm.Loader(path, columns=["x"], shuffle=True, batch_size=64, output="numpy")
        for path in (tmp_path / "plain", tmp_path / "a.jsonl.gz")
    )
    assert [batch["x"].tolist() for batch in packed] == [batch["x"].tolist() for batch in plain]
    assert len(sm.Dataset(tmp_path / "a.jsonl.gz", filter=sm.col("x") >= 4_000)) == 1_000


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.ndjson.zst", "a.json.gz"])
def test_stream_that_ends_early_is_an_error_that_names_it(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with sm.Writer(tmp_path / f"whole.jsonl.{name.rpartition('.')[2]}") as writer:
        writer.write_rows(ROWS)
    whole = Path(writer.files[0]).read_bytes()
    Path(writer.files[0]).unlink()
    for length in (0, 1, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(
            sm.FormatError,
            match=rf"{name}` cannot be decompressed after \d+ bytes: .*\nhint: fetch",
        ):
            sm.Dataset(path)
    (tmp_path / "b.jsonl").write_bytes(text(ROWS[:3]))
    dataset = sm.Dataset(tmp_path, errors=sm.ErrorPolicy(files="skip"))
    assert (len(dataset), len(dataset.skipped)) == (3, 1)


def test_flipped_bytes_are_an_error_or_rows(tmp_path: Path) -> None:
    whole, numbers = gzip.compress(text(ROWS[:500])), random.Random(3)
    for _ in range(100):
        damaged = bytearray(whole)
        damaged[numbers.randrange(len(damaged))] ^= 1 << numbers.randrange(8)
        (tmp_path / "a.jsonl.gz").write_bytes(damaged)
        try:
            rows = list(sm.Dataset(tmp_path / "a.jsonl.gz"))
        except sm.FormatError as error:
            assert "a.jsonl.gz" in str(error)
        else:
            # A reader ignores a few bits of the header.
            assert rows == ROWS[:500]


def test_memory_is_that_of_the_plain_file_whatever_a_stream_becomes(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(text([{"x": 1, "y": "a" * 1_000}]) * 100_000)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress((tmp_path / "a.jsonl").read_bytes(), 1))
    script = """
import sys, shardmill as sm
dataset = sm.Dataset(sys.argv[1], threads=1)
assert len(dataset) == 100_000 and dataset[99_999] == {"x": 1, "y": "a" * 1_000}
# The values of `getrusage` start at the peak of the parent process.
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
    plain, packed = (
        int(
            subprocess.run(
                [sys.executable, "-c", script, path], capture_output=True, text=True, check=True
            ).stdout
        )
        for path in (tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz")
    )
    assert packed < plain + 30_000, "kilobytes; the file becomes 100,000"
