"""Small files of every format, and how others read them.

They are by the writers that others use, where there are any.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import shardmill as sm

sys.path.insert(0, str(Path(__file__).parents[1] / "python"))
from shard_files import document, source_sample, write_parquet, write_tar

Rows = list[dict[str, Any]]
COUNT = 120
ROWS: Rows = [
    {"id": number, "text": f"text é {number}", "real": number / 8, "tag": "abc"[number % 3]}
    for number in range(COUNT)
]
TABLE = pa.Table.from_pylist(ROWS)


@dataclass(frozen=True)
class Kind:
    """One way to store rows.

    Attributes:
        write: makes the files in an empty directory.
        file: the one that is damaged.
        path: what readers are given, below the directory.
        read: what another implementation reads; it raises where it refuses the file.
        guarded: checksums cover every row, so that rows are as they were or there is an error.
        source: that of ``curate``; None where it has none for the format.
    """

    write: Callable[[Path], object]
    file: str
    path: str = ""
    read: Callable[[Path], Rows] | None = None
    guarded: bool = False
    source: str | None = "TableSource"


def parquet_rows(path: Path) -> Rows:
    return pq.ParquetFile(path, page_checksum_verification=True).read().to_pylist()


def write_ours(path: Path, **options: Any) -> None:
    with sm.Writer(path, **options) as writer:
        writer.write_rows(ROWS)


def write_lines(path: Path, opened: Callable[..., Any]) -> None:
    with opened(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS)


def write_zstd_lines(path: Path) -> None:
    with pa.CompressedOutputStream(str(path), "zstd") as file:
        file.write("".join(json.dumps(row) + "\n" for row in ROWS).encode())


def lines(text: str) -> Rows:
    def refused(word: str) -> None:
        raise ValueError(word)

    rows = [
        json.loads(line, parse_constant=refused) for line in text.split("\n") if line.strip(" \t\r")
    ]
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError("not an object")
    return rows


def zstd_text(path: Path) -> str:
    with pa.CompressedInputStream(str(path), "zstd") as file:
        return file.read().decode()


def write_csv(path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(ROWS[0]), quoting=csv.QUOTE_NONNUMERIC)
        writer.writeheader()
        writer.writerows({**row, "id": f"n{row['id']}", "real": f"r{row['real']}"} for row in ROWS)


def write_records(path: Path, options: str) -> None:
    from array_record.python.array_record_module import ArrayRecordWriter

    writer = ArrayRecordWriter(str(path), options)
    for row in ROWS:
        writer.write(json.dumps(row).encode())
    writer.close()


def samples() -> list[tuple[str, bytes]]:
    members = []
    for row in ROWS[:40]:
        members += [
            (f"s{row['id']:04}.txt", row["text"].encode()),
            (f"s{row['id']:04}.bin", bytes([row["id"]]) * 700),
        ]
    return members


def documents() -> list[tuple[str, bytes]]:
    return [member for number in range(6) for member in source_sample(f"d{number}", words=number)]


def tar_rows(path: Path) -> Rows:
    rows: Rows = []
    with tarfile.open(fileobj=io.BytesIO(path.read_bytes())) as archive:
        for member in archive:
            if not member.isfile():
                continue
            key, _, extension = member.name.partition(".")
            file = archive.extractfile(member)
            if not rows or rows[-1]["__key__"] != key:
                rows.append({"__key__": key})
            rows[-1][extension.lower()] = file.read() if file else b""
    return rows


def write_mds(directory: Path, compression: str | None, hashes: list[str]) -> None:
    write_ours(
        directory / "mds", format="mds", compression=compression, hashes=hashes, shard_bytes=1500
    )


def mds(
    file: str,
    compression: str | None = None,
    hashes: tuple[str, ...] = ("sha1", "xxh64"),
    *,
    guarded: bool = True,
) -> Kind:
    return Kind(
        lambda directory: write_mds(directory, compression, list(hashes)),
        f"mds/{file}",
        "mds",
        guarded=guarded,
        source=None,
    )


def one(
    name: str,
    write: Callable[[Path], object],
    read: Callable[[Path], Rows] | None = None,
    **options: Any,
) -> Kind:
    return Kind(lambda directory: write(directory / name), name, name, read, **options)


PARQUET = {"row_group_size": 50, "write_page_checksum": True}
KINDS: dict[str, Kind] = {
    "parquet of shardmill": one(
        "a.parquet", lambda path: write_ours(path, compression="zstd"), parquet_rows
    ),
    "parquet of pyarrow": one(
        "a.parquet",
        lambda path: pq.write_table(TABLE, path, data_page_version="2.0", **PARQUET),
        parquet_rows,
    ),
    "parquet of documents": one(
        "a.parquet",
        lambda path: write_parquet(path, document("s") * 20, **PARQUET),
        source="InterleavedParquetSource",
    ),
    "orc": one(
        "a.orc",
        lambda path: orc.write_table(TABLE, str(path), compression="zlib", stripe_size=4096),
        lambda path: orc.ORCFile(path).read().to_pylist(),
    ),
    "csv": one("a.csv", write_csv, None),
    "jsonl": one(
        "a.jsonl",
        lambda path: write_lines(path, open),
        lambda path: lines(path.read_bytes().decode()),
    ),
    "jsonl.gz": one(
        "a.jsonl.gz",
        lambda path: write_lines(path, gzip.open),
        lambda path: lines(gzip.decompress(path.read_bytes()).decode()),
        guarded=True,
    ),
    "jsonl.zst": one("a.jsonl.zst", write_zstd_lines, lambda path: lines(zstd_text(path))),
    "arrayrecord": one(
        "a.array_record", lambda path: write_records(path, "group_size:1"), guarded=True
    ),
    "arrayrecord in groups": one(
        "a.array_record", lambda path: write_records(path, "group_size:9,brotli"), guarded=True
    ),
    "arrayrecord plain": one(
        "a.array_record",
        lambda path: write_records(path, "group_size:1,uncompressed"),
        guarded=True,
    ),
    "mds shard": mds("shard.00001.mds"),
    "mds shard in zstd": mds("shard.00001.mds.zstd", "zstd"),
    "mds shard in gz": mds("shard.00001.mds.gz", "gz", ("md5",)),
    "mds shard without hashes": mds("shard.00001.mds", hashes=(), guarded=False),
    "mds index": mds("index.json", guarded=False),
    "tar": one("a.tar", lambda path: write_tar(path, samples()), tar_rows),
    "tar.gz": one(
        "a.tar.gz", lambda path: write_tar(path, samples(), "w:gz"), tar_rows, guarded=True
    ),
    "tar of documents": one(
        "a.tar", lambda path: write_tar(path, documents()), source="WebDatasetSource"
    ),
}
