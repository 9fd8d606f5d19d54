"""What a writer may take the place of, and what programs that look for array_record find."""

from __future__ import annotations

import os
import pickle
import stat
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from array_record.python import array_record_data_source as original
from shardmill.arrayrecord import ArrayRecordReader, ArrayRecordWriter


def write(path: Path | str, *records: bytes) -> None:
    with ArrayRecordWriter(path) as writer:
        writer.write_all(records)


def test_link_is_followed_and_stays(tmp_path: Path) -> None:
    write(tmp_path / "file", b"old")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert ArrayRecordReader(tmp_path / "file").read_all() == [b"new"]


def test_pipe_is_refused_and_stays(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="pipe"):
        ArrayRecordWriter(tmp_path / "pipe")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert not ArrayRecordWriter(tmp_path / "pipe", strict=False).ok()


def test_directory_is_refused_at_once(tmp_path: Path) -> None:
    for path in (tmp_path, f"{tmp_path}/", ""):
        with pytest.raises(FileExistsError, match="is a directory"):
            ArrayRecordWriter(path)


def test_permissions_of_a_replaced_file_stay(tmp_path: Path) -> None:
    write(tmp_path / "secret", b"old")
    (tmp_path / "secret").chmod(0o600)
    write(tmp_path / "secret", b"new")
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600


def test_file_lands_where_it_was_begun_though_the_process_went_elsewhere(
    tmp_path: Path, monkeypatch
) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    with ArrayRecordWriter("file") as writer, sm.Writer("rows.array_record") as rows:
        writer.write(b"x")
        rows.write(b"y")
        monkeypatch.chdir(tmp_path / "other")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "file",
        "other",
        "rows.array_record",
    ]


def test_program_that_asks_whether_array_record_is_there_finds_it() -> None:
    code = """
import importlib.util
from shardmill.arrayrecord import install_as_array_record
install_as_array_record()
for name in ("array_record", "array_record.python", "array_record.python.array_record_module"):
    assert importlib.util.find_spec(name).name == name
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_source_that_the_original_has_pickled_is_read(tmp_path: Path) -> None:
    write(tmp_path / "file", b"a", b"b")
    (tmp_path / "pickled").write_bytes(
        pickle.dumps(original.ArrayRecordDataSource(str(tmp_path / "file")))
    )
    code = """
import pickle, sys
from shardmill.arrayrecord import ArrayRecordDataSource, install_as_array_record
install_as_array_record()
source = pickle.load(open(sys.argv[1], "rb"))
assert isinstance(source, ArrayRecordDataSource) and list(source) == [b"a", b"b"]
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "pickled")], check=True)


def test_column_of_fixed_size_is_converted(tmp_path: Path) -> None:
    table = pa.table({"v": pa.array([b"12345678", b"abcdefgh"], pa.binary(8))})
    pq.write_table(table, tmp_path / "fixed.parquet")
    target = tmp_path / "fixed.array_record"
    command = [
        sys.executable,
        "-m",
        "shardmill",
        "convert",
        str(tmp_path / "fixed.parquet"),
        str(target),
    ]
    subprocess.run(command, check=True)
    assert ArrayRecordReader(target).read_all() == [b"12345678", b"abcdefgh"]


def test_view_shows_the_file_that_was_opened_after_another_has_taken_its_name(
    tmp_path: Path,
) -> None:
    path, readers = tmp_path / "records", []
    for record in (b"old", b"new"):
        with ArrayRecordWriter(path, "uncompressed") as writer:
            writer.write(record)
        readers.append(ArrayRecordReader(path))
    assert [bytes(reader.view(0)) for reader in readers] == [b"old", b"new"]
    assert [reader[0] for reader in readers] == [b"old", b"new"]
