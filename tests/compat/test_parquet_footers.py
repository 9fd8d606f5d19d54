"""Footers that other readers accept, and footers that are refused.

They are refused for their content, not because the file ends early.
"""

from __future__ import annotations

import base64
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest
import shardmill as sm
from shardmill.errors import FormatError

WORDS = pa.table({"x": ["a", "b", "c"] * 1000})


def zigzag(number: int) -> bytes:
    """A number of the compact protocol of Thrift."""
    rest, found = number << 1, bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*found, rest])


def with_footer(content: bytes, old: bytes, new: bytes) -> bytes:
    """The file with one part of its footer replaced."""
    length = int.from_bytes(content[-8:-4], "little")
    footer = content[-8 - length : -8]
    assert footer.count(old) == 1
    footer = footer.replace(old, new)
    return content[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1"


@pytest.mark.parametrize("stated", ["zero", "absent", "equal", "after"])
@pytest.mark.parametrize("data_page", ["1.0", "2.0"])
def test_position_of_the_dictionary_may_be_that_of_the_data(
    tmp_path: Path, stated: str, data_page: str
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(WORDS, path, data_page_version=data_page)
    chunk = pq.read_metadata(path).row_group(0).column(0)
    dictionary, data = chunk.dictionary_page_offset, chunk.data_page_offset
    # Fields 9 and 11 of the column's metadata: the first data page, and the dictionary.
    old = b"\x26" + zigzag(data) + b"\x26" + zigzag(dictionary)
    second = {"zero": 0, "equal": dictionary, "after": data}.get(stated)
    new = b"\x26" + zigzag(dictionary) + (b"" if second is None else b"\x26" + zigzag(second))
    if second is None:
        # The number of the next field is relative.
        old, new = old + b"\x1c", new + b"\x3c"
    path.write_bytes(with_footer(path.read_bytes(), old, new))
    assert pq.read_table(path).equals(WORDS)
    if stated != "after":
        assert duckdb.sql(f"select count(*), count(distinct x) from '{path}'").fetchall() == [
            (3000, 3)
        ]
    assert pa.table(sm.Dataset(path)).equals(WORDS)
    assert len(sm.Dataset(path, filter=sm.col("x") == "b")) == 1000


@pytest.mark.slow
def test_more_row_groups_than_16_bits_count(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    rows = 33_000
    pq.write_table(pa.table({"x": range(rows)}), path, row_group_size=1)
    assert pq.read_metadata(path).num_row_groups == pl.read_parquet(path).height == rows
    assert pa.table(sm.Dataset(path))["x"].to_pylist() == list(range(rows))
    assert [row["x"] for row in sm.Dataset(path, filter=sm.col("x") >= rows - 2)] == [
        rows - 2,
        rows - 1,
    ]


class Keys(pe.KmsClient):
    """Keys that are not secret."""

    def __init__(self, connection: pe.KmsConnectionConfig) -> None:
        pe.KmsClient.__init__(self)

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
        return base64.b64encode(key_bytes)

    def unwrap_key(self, wrapped_key: bytes, master_key_identifier: str) -> bytes:
        return base64.b64decode(wrapped_key)


def encrypted(path: Path, *, has_plain_footer: bool) -> Path:
    """A file whose column ``b`` is encrypted."""
    options = pe.EncryptionConfiguration(
        footer_key="f", column_keys={"c": ["b"]}, plaintext_footer=has_plain_footer
    )
    properties = pe.CryptoFactory(Keys).file_encryption_properties(
        pe.KmsConnectionConfig(), options
    )
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", "y"]}), path, encryption_properties=properties)
    return path


def test_encrypted_file_is_called_encrypted(tmp_path: Path) -> None:
    path = encrypted(tmp_path / "a.parquet", has_plain_footer=False)
    with pytest.raises(
        FormatError, match=r"`.*a\.parquet` is encrypted, which is not supported\nhint: decrypt"
    ):
        sm.Dataset(path)


def test_encrypted_column_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    path = encrypted(tmp_path / "a.parquet", has_plain_footer=True)
    assert [row["a"] for row in sm.Dataset(path, columns=["a"])] == [1, 2]
    for read in (
        lambda: list(sm.Dataset(path)),
        lambda: list(sm.Loader(path, batch_size=2, output="numpy")),
        lambda: len(sm.Dataset(path, filter=sm.col("b") == "x")),
    ):
        with pytest.raises(
            FormatError,
            match=r"Column `b` of `.*a\.parquet` is encrypted, .*\nhint: read the other",
        ):
            read()


@pytest.mark.parametrize("kept", [0, 12, 100])
def test_file_that_ends_early_was_not_closed(tmp_path: Path, kept: int) -> None:
    pq.write_table(WORDS, tmp_path / "whole.parquet")
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "whole.parquet").read_bytes()[:kept])
    with pytest.raises(FormatError, match="the writer was probably not closed"):
        sm.Dataset(tmp_path / "cut.parquet", format="parquet")


def test_damaged_footer_is_not_blamed_on_the_writer(tmp_path: Path) -> None:
    pq.write_table(WORDS, tmp_path / "a.parquet")
    content = (tmp_path / "a.parquet").read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    damaged = content[: -8 - length] + b"\xff" * length + content[-8:]
    (tmp_path / "a.parquet").write_bytes(damaged)
    with pytest.raises(
        FormatError,
        match=r"Footer of `.*a\.parquet` is damaged: .*\nhint: the file is damaged; fetch it",
    ):
        sm.Dataset(tmp_path / "a.parquet")
