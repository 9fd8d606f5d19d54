"""Damaged files, and files that change under the reader.

The outcome is an error that names the file, or the rows that were written.
"""

import os
import random
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from loader_files import flat, numbered, numpy_loader, write_files
from shardmill.errors import Error, FormatError, StorageError

TABLE = pa.table(
    {
        "id": pa.array(range(200)),
        "text": [f"text {row % 50}" for row in range(200)],
        "float": pa.array(np.random.default_rng(1).random(200).astype("f4")),
        "list": [list(range(row % 4)) for row in range(200)],
    }
)


def read(directory: Path, threads: int) -> pa.Table:
    return pa.Table.from_batches(
        list(
            sm.Loader(directory, output="arrow", batch_size=64, runtime=sm.Runtime(threads=threads))
        )
    )


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd", "gzip", "lz4", "brotli"])
def test_flipped_bit_is_an_error_that_names_the_file_or_changes_nothing(
    tmp_path: Path, compression: str
) -> None:
    """Page checksums cover the pages. A bit of the footer may change a value that is not used."""
    path = tmp_path / "flipped.parquet"
    pq.write_table(
        TABLE,
        path,
        row_group_size=50,
        compression=compression,
        write_page_checksum=True,
        write_page_index=True,
    )
    written = path.read_bytes()
    body = len(written) - 8 - int.from_bytes(written[-8:-4], "little")
    rng = random.Random(5)
    outcomes: Counter[str] = Counter()
    for attempt in range(120):
        place = rng.randrange(body if attempt % 2 else len(written))
        flipped = bytearray(written)
        flipped[place] ^= 1 << rng.randrange(8)
        path.write_bytes(flipped)
        try:
            found = read(tmp_path, threads=attempt % 3)
        except Error as error:
            assert "flipped.parquet" in str(error)
            outcomes["error"] += 1
        else:
            # Past the footer's schema, names and types may differ; the rows of a body may not.
            if place < body:
                assert found.equals(TABLE), f"byte {place} of the body"
            outcomes["read"] += 1
    assert outcomes["error"] > 40


def test_cut_file_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "cut.parquet"
    pq.write_table(TABLE, path, row_group_size=50)
    written = path.read_bytes()
    for end in [*range(12), *range(12, len(written), 97), len(written) - 1]:
        path.write_bytes(written[:end])
        with pytest.raises(FormatError, match="cut.parquet"):
            numpy_loader(tmp_path, nulls="fill")


@pytest.mark.parametrize("threads", [0, 1, 3])
@pytest.mark.parametrize("batch_size", [7, 10, 64])
def test_damaged_page_is_an_error_behind_the_batches_before_it(
    tmp_path: Path, threads: int, batch_size: int
) -> None:
    directory = write_files(
        tmp_path / "rows", [100, 100], row_group=20, write_page_checksum=True, compression="none"
    )
    path = directory / "001.parquet"
    # The fourth row group of the second file: rows 160 to 179.
    start = pq.ParquetFile(path).metadata.row_group(3).column(0).dictionary_page_offset
    written = bytearray(path.read_bytes())
    written[start + 60] ^= 1
    path.write_bytes(written)
    loader = numpy_loader(directory, batch_size=batch_size, threads=threads)
    seen = []
    with pytest.raises(FormatError, match=r"001\.parquet"):
        for batch in loader:
            seen += batch["id"].tolist()
    assert seen == list(range(160 // batch_size * batch_size))
    assert loader.state_dict()["consumed"] == len(seen)


def test_null_that_no_footer_told_of_is_an_error_behind_the_batches_before_it(
    tmp_path: Path,
) -> None:
    ids = pa.array([None if row == 33 else row for row in range(40)])
    pq.write_table(pa.table({"id": ids}), tmp_path / "a.parquet", write_statistics=False)
    loader, seen = numpy_loader(tmp_path, batch_size=5), []
    with pytest.raises(ValueError, match=r"`id` has a null in row 33 of `.*a\.parquet`"):
        for batch in loader:
            seen += batch["id"].tolist()
    assert seen == list(range(30))
    assert loader.state_dict()["consumed"] == 30


def test_null_that_footers_tell_of_is_an_error_when_the_loader_is_made(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, None, 3]}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="nulls in `.*a.parquet`"):
        numpy_loader(tmp_path)
    assert flat(numpy_loader(tmp_path, filter=~sm.col("id").is_null())) == [1, 3]


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("change", ["cut", "grown", "rewritten", "other values of the same size"])
def test_file_that_is_changed_in_place_is_an_error_and_never_other_rows(
    tmp_path: Path, change: str, threads: int
) -> None:
    directory = write_files(
        tmp_path / "rows", [50, 50], row_group=10, compression="none", use_dictionary=False
    )
    path = directory / "001.parquet"
    loader = numpy_loader(directory, batch_size=10, threads=threads, columns=["id"])
    written = path.read_bytes()
    other = tmp_path / "other.parquet"
    pq.write_table(
        numbered(1050, 50), other, row_group_size=10, compression="none", use_dictionary=False
    )
    # Clocks of file systems tick every few milliseconds.
    time.sleep(0.02)
    path.write_bytes(
        {
            "cut": written[: len(written) // 2],
            "grown": written + b"x",
            "rewritten": other.read_bytes(),
            "other values of the same size": written.replace(
                (60).to_bytes(8, "little"), (6000).to_bytes(8, "little")
            ),
        }[change]
    )
    seen = []
    with pytest.raises((StorageError, FormatError), match="001.parquet"):
        for batch in loader:
            seen += batch["id"].tolist()
    assert seen == list(range(50))


@pytest.mark.parametrize("change", ["replaced", "removed"])
def test_file_that_is_replaced_as_a_whole_is_read_as_it_was_or_is_an_error(
    tmp_path: Path, change: str
) -> None:
    """More files than stay open at once, so some have to be opened again."""
    directory = write_files(tmp_path / "rows", [10] * 80)
    loader = numpy_loader(directory, batch_size=10, threads=1)
    for path in sorted(directory.iterdir())[::2]:
        if change == "removed":
            path.unlink()
        else:
            pq.write_table(numbered(9000, 10), tmp_path / "new.parquet")
            os.replace(tmp_path / "new.parquet", path)
    seen = []
    with pytest.raises(StorageError, match=r"\.parquet"):
        for batch in loader:
            seen += batch["id"].tolist()
    assert seen == list(range(len(seen)))


def test_bad_files_are_left_out_if_asked_for_and_listed(tmp_path: Path) -> None:
    directory = write_files(tmp_path / "rows", [10, 10, 10])
    (directory / "001.parquet").write_bytes(b"no Parquet at all")
    with pytest.raises(FormatError, match=r"001\.parquet"):
        numpy_loader(directory)
    loader = numpy_loader(directory, bad_files="skip")
    assert flat(loader) == [*range(10), *range(20, 30)]
    ((path, reason),) = loader.dataset.skipped
    assert path.endswith("001.parquet")
    assert "Footer" in reason


def test_text_that_is_no_utf8_is_an_error(tmp_path: Path) -> None:
    binary = pa.array([b"fine", b"\xff\xfe", b"fine"])
    text = pa.Array.from_buffers(pa.string(), 3, binary.buffers())
    pq.write_table(pa.table({"id": [1, 2, 3], "text": text}), tmp_path / "a.parquet")
    for output in ("arrow", "numpy", "dict"):
        with pytest.raises(ValueError, match=r"a\.parquet"):
            list(sm.Loader(tmp_path, output=output))
    assert flat(numpy_loader(tmp_path, columns=["id"])) == [1, 2, 3]


def test_error_ends_the_pass_and_the_loader_can_be_used_again(tmp_path: Path) -> None:
    directory = write_files(tmp_path / "rows", [50, 50], row_group=10, write_page_checksum=True)
    path = directory / "001.parquet"
    loader = numpy_loader(directory, batch_size=10, threads=2)
    written = path.read_bytes()
    time.sleep(0.02)
    path.write_bytes(written[:200])
    passing = iter(loader)
    with pytest.raises(Error):
        list(passing)
    assert list(passing) == []
    path.write_bytes(written)
    state = loader.state_dict()
    fresh = numpy_loader(directory, batch_size=10)
    fresh.load_state_dict(state)
    assert flat(fresh) == list(range(50, 100))
