"""Small files that unpack to more than the limit are refused before memory is taken for it.

What is below the limit is read.
"""

import gzip
import io
import itertools
import json
import os
import struct
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from forking import Forking, forking
from shardmill.curate import Map, ParquetSink, Pipeline, TableSource, WebDatasetSource

#: What a bomb unpacks to, and the limit that it meets.
BYTES = 96_000_000
LIMIT = 32_000_000
#: A reader may hold two blocks of ordinary size beside a value.
ROOM = 160_000_000

Read = Callable[..., dict[str, Any]]


readers = forking("decode_limits")


@pytest.fixture
def read(readers: Forking, tmp_path: Path) -> Read:
    numbers = itertools.count()

    def read(path: Path, **options: str) -> dict[str, Any]:
        """What a process that reads all rows says; it must end by itself and print nothing else."""
        code, out = readers.call(
            "decode_limits", "read", str(path), options, log=tmp_path / f"log{next(numbers)}"
        )
        assert (code, out.count("\n")) == (0, 1), out[-2000:]
        return json.loads(out)

    return read


def check_refused(read: Read, path: Path, *parts: str) -> None:
    """With the limit, an error that names the path, the place and the option.

    With a larger one all rows.
    """
    answer = read(path, max_decoded_bytes=str(LIMIT))
    assert answer["error"] in ("FormatError", "RecordError"), answer
    for part in (path.name, "max_decoded_bytes", str(LIMIT), *parts):
        assert part in answer["message"], answer
    assert answer["peak"] < ROOM, answer


def write_parquet(path: Path, **options: Any) -> None:
    table = pa.table({"small": [1, 2], "large": pa.array([b"a", bytes(BYTES)], pa.large_binary())})
    pq.write_table(table, path, use_dictionary=False, write_statistics=False, **options)


@pytest.mark.parametrize("compression", ["zstd", "snappy", "gzip", "brotli", "lz4"])
def test_parquet_page_is_refused_by_what_its_header_states(
    tmp_path: Path, read: Read, compression: str
) -> None:
    path = tmp_path / "bomb.parquet"
    write_parquet(path, compression=compression)
    assert path.stat().st_size < 6_000_000
    check_refused(read, path, "row group 0", "`large`", "a page states")
    if compression == "zstd":
        assert read(path)["rows"] == 2


def test_dictionary_page_is_refused_by_what_its_header_states(tmp_path: Path, read: Read) -> None:
    path = tmp_path / "bomb.parquet"
    table = pa.table({"large": pa.array([bytes(BYTES)] * 4, pa.large_binary())})
    pq.write_table(
        table, path, compression="zstd", dictionary_pagesize_limit=1 << 30, write_statistics=False
    )
    check_refused(read, path, "row group 0", "a page states")


def restated(path: Path, stated: int, by: int) -> bool:
    """Whether the first page header of a file stated the size.

    It states another one then, in as many digits.
    """

    def digits(value: int, length: int) -> bytes:
        value *= 2
        return bytes(
            (value >> 7 * place & 0x7F) | (0x80 if place + 1 < length else 0)
            for place in range(length)
        )

    length = ((2 * stated).bit_length() + 6) // 7
    content = path.read_bytes()
    start = content[:64].replace(digits(stated, length), digits(by, length), 1)
    path.write_bytes(start + content[64:])
    return start != content[:64]


@pytest.mark.parametrize("compression", ["gzip", "brotli"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_page_that_is_longer_than_it_states_is_refused_unread(
    tmp_path: Path, read: Read, version: Literal["1.0", "2.0"], compression: str
) -> None:
    path, size = tmp_path / "bomb.parquet", 300_000_000
    table = pa.table({"large": pa.array([bytes(size)], pa.large_binary())})
    pq.write_table(
        table,
        path,
        compression=compression,
        compression_level=1,
        use_dictionary=False,
        write_statistics=False,
        data_page_version=version,
    )
    # Beside the value there are its length and the levels.
    assert any(restated(path, size + extra, 1000) for extra in range(4, 40))
    answer = read(path)
    assert answer["error"] == "FormatError" and path.name in answer["message"], answer
    assert answer["peak"] < ROOM, answer


def test_brotli_page_that_is_shorter_than_it_states_is_an_error(tmp_path: Path) -> None:
    path, size = tmp_path / "a.parquet", 1_000
    table = pa.table({"x": pa.array([bytes(size)], pa.binary())})
    pq.write_table(table, path, compression="brotli", use_dictionary=False, write_statistics=False)
    assert any(restated(path, size + extra, size + extra + 1) for extra in range(4, 40))
    with pytest.raises(sm.FormatError, match="shorter than stated"):
        list(sm.Loader(path, batch_size=1))


def test_levels_of_a_page_of_version_2_are_not_taken_for_compressed_bytes(tmp_path: Path) -> None:
    # As a stream of Brotli, the levels of these rows are longer than the page.
    values = {".": None, "n": {"a": None}, "1": {"a": 1}}
    rows = [values[letter] for letter in "..11111..n.nn1nn"]
    table = pa.table({"x": pa.array(rows, pa.struct([("a", pa.int32())]))})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, compression="brotli", data_page_version="2.0", use_dictionary=False)
    assert [row["x"] for row in sm.Dataset(path)] == rows


def test_list_of_nulls_is_refused_by_the_number_of_its_values(tmp_path: Path, read: Read) -> None:
    path, values = tmp_path / "bomb.parquet", 12_000_000
    lists = pa.ListArray.from_arrays(
        pa.array([0, values], pa.int32()), pa.nulls(values, pa.int64())
    )
    pq.write_table(pa.table({"lists": lists}), path, compression="zstd")
    assert path.stat().st_size < 100_000
    check_refused(read, path, "row group 0", "lists")


def test_rows_of_a_run_length_are_no_memory_of_a_file(tmp_path: Path, read: Read) -> None:
    path, rows = tmp_path / "bomb.orc", 12_000_000
    pa.orc.write_table(pa.table({"x": pa.array([7] * rows, pa.int64())}), path, stripe_size=1 << 30)
    assert path.stat().st_size < 400_000
    check_refused(read, path, "stripe 0")
    assert read(path)["rows"] == rows


@pytest.mark.parametrize("compression", ["zlib", "snappy", "zstd", "lz4"])
def test_orc_stream_is_refused_before_it_is_unpacked(
    tmp_path: Path, read: Read, compression: str
) -> None:
    path = tmp_path / "bomb.orc"
    table = pa.table({"large": pa.array([b"a", bytes(BYTES)], pa.binary())})
    pa.orc.write_table(table, path, compression=compression, stripe_size=1 << 30)
    if path.stat().st_size * 64 > LIMIT:
        pytest.skip("the codec does not make a bomb of zeros")
    check_refused(read, path, "stripe 0")


def zstd(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


LINE = b'{"x": "' + b"a" * BYTES + b'"}\n'


@pytest.mark.parametrize(
    ("extension", "packed"), [(".gz", gzip.compress), (".zst", zstd), ("", bytes)]
)
@pytest.mark.parametrize("first_lines", [0, 2])
def test_long_line_is_refused_while_it_is_streamed(
    tmp_path: Path, read: Read, extension: str, packed: Callable[[bytes], bytes], first_lines: int
) -> None:
    path = tmp_path / f"bomb.jsonl{extension}"
    path.write_bytes(packed(b'{"x": "b"}\n' * first_lines + LINE + b'{"x": "c"}\n'))
    check_refused(read, path, f"line {first_lines + 1}")


def test_line_below_the_limit_is_read(tmp_path: Path, read: Read) -> None:
    path = tmp_path / "large.jsonl.zst"
    path.write_bytes(zstd(b'{"x": "b"}\n' + LINE))
    assert read(path)["rows"] == 2


@pytest.mark.parametrize("first", [b"", b"x\n", b"x\n1\n"])
def test_quote_that_is_never_closed_is_refused_while_it_is_streamed(
    tmp_path: Path, read: Read, first: bytes
) -> None:
    path = tmp_path / "bomb.csv"
    # Zeros among the first bytes would be refused as binary data.
    path.write_bytes(first + b'"' + b"x" * 1024)
    # Sparse: zeros that take no room on the disk.
    os.truncate(path, BYTES)
    check_refused(read, path, f"line {1 + first.count(10)}")


def test_sparse_file_of_terabytes_is_refused(tmp_path: Path, read: Read) -> None:
    for name, end in (("a.jsonl", 1 << 40), ("a.csv", 1 << 40), ("a.mds", 1 << 33)):
        path = tmp_path / name
        path.write_bytes(b"")
        os.truncate(path, end)
        answer = read(path, max_decoded_bytes=str(LIMIT))
        assert answer["error"] is not None and name in answer["message"], answer
        assert answer["peak"] < ROOM, answer


def test_footer_of_gigabytes_is_refused(tmp_path: Path, read: Read) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1")
    os.truncate(path, 1 << 33)
    with path.open("ab") as file:
        file.write(struct.pack("<I", (1 << 32) - 100) + b"PAR1")
    answer = read(path)
    assert answer["error"] == "FormatError" and "max_decoded_bytes" in answer["message"], answer
    assert answer["peak"] < ROOM, answer


@pytest.mark.parametrize("compression", ["zstd", "gz", "bz2", "br"])
def test_compressed_shard_is_refused_by_its_offsets(
    tmp_path: Path, read: Read, compression: str
) -> None:
    directory = tmp_path / "bomb"
    with sm.Writer(
        directory,
        format="mds",
        columns={"x": "bytes"},
        compression=compression,
        shard_bytes=BYTES // 2,
    ) as writer:
        writer.write({"x": bytes(BYTES)})
    # A sample beyond the size of a shard comes after an empty one.
    path = directory / f"shard.00001.mds.{compression}"
    assert path.stat().st_size < 1_000_000
    check_refused(read, path)


def test_mds_encoding_that_states_arrays_of_terabytes_is_refused(
    tmp_path: Path, read: Read
) -> None:
    with sm.Writer(
        tmp_path / "good", format="mds", columns={"x": "ndarray:float64:1,1,1,1,1,2,3"}
    ) as writer:
        writer.write({"x": np.zeros((1, 1, 1, 1, 1, 2, 3))})
    content = next((tmp_path / "good").glob("*.mds")).read_bytes()
    path = tmp_path / "bad.mds"
    path.write_bytes(content.replace(b"1,1,1,1,1,2,3", b"999999,999999"))
    answer = read(path)
    assert answer["error"] == "FormatError" and answer["peak"] < ROOM, answer


def test_chunk_of_records_is_refused_by_its_header(tmp_path: Path, read: Read) -> None:
    path = tmp_path / "bomb.array_record"
    with sm.Writer(path, format="arrayrecord") as writer:
        writer.write(bytes(BYTES))
    assert path.stat().st_size < 1_000_000
    check_refused(read, path, "decoded size")


def tar_of(members: dict[str, bytes]) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return sink.getvalue()


@pytest.mark.parametrize(
    ("extension", "packed"), [(".gz", gzip.compress), (".zst", zstd), ("", bytes)]
)
def test_member_of_a_tar_is_refused_by_its_size(
    tmp_path: Path, read: Read, extension: str, packed: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / f"bomb.tar{extension}"
    path.write_bytes(packed(tar_of({"a.txt": b"a", "b.txt": bytes(BYTES)})))
    check_refused(read, path, "b.txt")


def test_tar_member_of_exabytes_is_damage(tmp_path: Path, read: Read) -> None:
    info = tarfile.TarInfo("a.txt")
    info.size = 1 << 60
    plain = info.tobuf(tarfile.GNU_FORMAT) + bytes(1024)
    for name, content in (("a.tar", plain), ("a.tar.gz", gzip.compress(plain))):
        path = tmp_path / name
        path.write_bytes(content)
        answer = read(path)
        assert answer["error"] == "FormatError" and answer["peak"] < ROOM, answer


def test_json_nested_without_end_takes_no_stack(tmp_path: Path, read: Read) -> None:
    path = tmp_path / "deep.jsonl"
    path.write_bytes(b'{"x": ' + b"[" * 5_000_000 + b"\n")
    answer = read(path)
    assert answer["error"] in ("FormatError", None) and answer["peak"] < ROOM, answer


def test_loader_keeps_the_limit_of_its_dataset(tmp_path: Path) -> None:
    path = tmp_path / "bomb.parquet"
    write_parquet(path, compression="zstd")
    with pytest.raises(sm.FormatError, match="max_decoded_bytes"):
        list(sm.Loader(sm.Dataset(path, max_decoded_bytes="32MB"), output="arrow"))
    with pytest.raises(sm.OptionError, match="max_decoded_bytes"):
        sm.Dataset(path, max_decoded_bytes="32 parsecs")


def test_commands_take_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "bomb.parquet"
    write_parquet(path, compression="zstd")
    command = [sys.executable, "-m", "shardmill", "head", str(path), "--max-decoded-bytes"]
    refused = subprocess.run([*command, "32MB"], capture_output=True, text=True, check=False)
    assert refused.returncode == 1 and "--max-decoded-bytes" in refused.stderr
    assert subprocess.run([*command, "1GiB"], capture_output=True, check=False).returncode == 0


def test_sources_have_the_limit(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.parquet"
    write_parquet(bomb, compression="zstd")
    with pytest.raises(sm.FormatError, match="max_decoded_bytes"):
        Pipeline(
            source=TableSource(bomb, max_decoded_bytes="32MB"),
            stages=[Map(lambda table: table, batch_size=1)],
            sink=ParquetSink(tmp_path / "a"),
        ).run(progress=False)
    sample = {"texts": [None, "one"], "images": ["a.png", None]}
    (tmp_path / "in.tar").write_bytes(
        tar_of({"a.json": json.dumps(sample).encode(), "a.png": bytes(BYTES)})
    )
    report = Pipeline(
        source=WebDatasetSource(tmp_path / "in.tar", max_decoded_bytes="32MB"),
        sink=ParquetSink(tmp_path / "b", on_materialize_error="warn"),
    ).run(progress=False)
    rows = pq.read_table(tmp_path / "b").to_pylist()
    errors = [row["materialize_error"] for row in rows if row["materialize_error"]]
    assert len(errors) == 1 and "max_decoded_bytes" in errors[0] and report is not None
