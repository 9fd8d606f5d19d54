"""The files of ``message_cases``: sound ones, and ones with one fault each."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import shardmill as sm
from shardmill.resume import IdIndex
from token_writers import write_datatrove, write_megatron, write_npy

#: Archives with one fault each: member names and contents.
TARS = {
    "repeated.tar": [("a.txt", b"1"), ("a.TXT", b"2")],
    "json.tar": [("a.json", b"{")],
    "class.tar": [("a.cls", b"one")],
    "latin.tar": [("a.txt", b"\xff")],
    "documents.tar": [("a.json", b'{"texts": ["t"], "images": [null], "url": "u"}')],
}


def write_files() -> None:
    """Write the files of all cases to the working directory."""
    for name in (
        "mixed",
        "in",
        "conflict",
        "twice",
        "empty",
        "hive/x=1",
        "days/day=2026-01-01",
        "mds",
    ):
        Path(name).mkdir(parents=True)
    table = pa.table({"x": list(range(10)), "s": [str(number) for number in range(10)]})
    for path in (
        "a.parquet",
        "mixed/a.parquet",
        "mixed/b.parquet",
        "in/a.parquet",
        "conflict/a.parquet",
        "hive/x=1/a.parquet",
        "days/day=2026-01-01/a.parquet",
    ):
        pq.write_table(table, path)
    pq.write_table(pa.table({"x": ["text"]}), "conflict/b.parquet")
    pq.write_table(pa.table({"n": [1, None], "l": [[1], None], "f": [0.5, 1.5]}), "nulls.parquet")
    pq.write_table(
        pa.table({"t": [[1, 2], None, [3]], "u": [[1, None], [2], [3]], "n": [1, 2, 3]}),
        "tokens.parquet",
    )
    pq.write_table(pa.table({"t": [[1, 2, 3, 4, 5]]}), "long.parquet")
    pq.write_table(pa.table({"id": [1, None]}), "ids.parquet")
    Path("mixed/c.csv").write_text("x\n1\n")
    Path("lines.csv").write_text("x,y\n1,2\none,2\n")
    Path("fields.csv").write_text("x,y\n1,2\n1\n")
    Path("quote.csv").write_text('x,y\n1,"2\n')
    Path("header.csv").write_text("x,x\n1,2\n")
    Path("bad.jsonl").write_text('{"x": 1}\n{"x": \n')
    Path("list.jsonl").write_text("[1]\n2\n")
    Path("types.jsonl").write_text('{"x": 1}\n{"x": {"y": 1}}\n')
    Path("field.jsonl").write_text('{"x": 1, "x": 2}\n')
    Path("array.json").write_text('[{"x": 1} {"x": 2}]')
    Path("cut.jsonl.gz").write_bytes(gzip.compress(b'{"x": 1}\n' * 100)[:30])
    Path("cut.parquet").write_bytes(Path("a.parquet").read_bytes()[:-20])
    whole = Path("a.parquet").read_bytes()
    length = int.from_bytes(whole[-8:-4], "little")
    Path("footer.parquet").write_bytes(whole[: -8 - length] + b"\xff" * length + whole[-8:])
    Path("encrypted.parquet").write_bytes(whole[:-1] + b"E")
    times = pa.array([0, 1], pa.timestamp("ns"))
    pq.write_table(
        pa.table({"at": times}),
        "times.parquet",
        use_deprecated_int96_timestamps=True,
        store_schema=False,
    )
    pl.DataFrame({"wide": pl.Series([2**100], dtype=pl.Int128)}).write_parquet("wide.parquet")
    Path("text.parquet").write_text("this is not a Parquet file, but text\n" * 10)
    Path("bytes.bin").write_bytes(b"\0\1\2" * 100)
    Path("photos").mkdir()
    Path("photos/1.jpg").write_bytes(b"\xff\xd8\xff")
    Path("cut.tar").write_bytes(b"x" * 700)
    with sm.Writer("records.array_record") as writer:
        writer.write(b"one")
    Path("cut.array_record").write_bytes(Path("records.array_record").read_bytes()[:100])
    with sm.Writer("shards", format="mds", columns={"x": "int"}) as writer:
        writer.write_rows([{"x": 1}, {"x": 2}])
    index = json.loads(Path("shards/index.json").read_text())
    Path("mds/shard.00000.mds").write_bytes(Path("shards/shard.00000.mds").read_bytes())
    index["shards"][0]["samples"] = 3
    Path("mds/index.json").write_text(json.dumps(index))
    Path("version").mkdir()
    index["shards"][0]["version"] = 3
    Path("version/index.json").write_text(json.dumps(index))
    with sm.Writer("parts") as writer:
        writer.write({"x": 1})
    for name, members in TARS.items():
        with tarfile.open(name, "w") as tar:
            for member, content in members:
                header = tarfile.TarInfo(member)
                header.size = len(content)
                tar.addfile(header, io.BytesIO(content))
    pq.write_table(pa.table({"x": [1], "x__valid": [True], "__padded": [False]}), "names.parquet")
    write_token_files()
    write_damaged_files()


def write_token_files() -> None:
    """Write pairs of Megatron-LM, one of them with an index that lies, and other token files."""
    write_megatron(Path("pair"), [[[1, 2, 3]], [[9]]])
    for name in ("lie.bin", "pair.bin"):
        Path(name).write_bytes(Path("pair.bin").read_bytes())
    index = Path("pair.idx").read_bytes()
    Path("lie.idx").write_bytes(index[:34] + b"\2" + index[35:42] + b"\4" + index[43:])
    Path("cut.bin").write_bytes(b"\1\0")
    Path("cut.idx").write_bytes(index)
    np.save("array.npy", np.zeros(2, np.uint16))
    write_npy(Path("gap.npy"), [[1], [2]])
    Path("gap.csv.gz").write_bytes(gzip.compress(b"0,1\n2,2\n"))
    write_npy(Path("flat.npy"), [[1], [2]])
    Path("mask.npy").write_bytes(b"\1")
    write_datatrove(Path("width.ds"), [[1, 2]], metadata="gpt2|4\n2")


def write_damaged_files() -> None:
    """Write files whose end is there, so that they open, with damage before it."""
    flipped("records.array_record", "flipped.array_record", 110)
    Path("json_index").mkdir()
    Path("json_index/shard.00000.mds").write_bytes(Path("shards/shard.00000.mds").read_bytes())
    Path("json_index/index.json").write_text('{"version": 2, "shards": [')
    for name in ("no_shard", "short", "flipped"):
        with sm.Writer(name, format="mds", columns={"x": "int"}, hashes=["sha1"]) as writer:
            writer.write_rows([{"x": 1}, {"x": 2}])
    Path("no_shard/shard.00000.mds").unlink()
    shard = Path("short/shard.00000.mds")
    shard.write_bytes(shard.read_bytes()[:-3])
    flipped("flipped/shard.00000.mds", "flipped/shard.00000.mds", 5)
    built = IdIndex.build(pa.table({"id": ["a", "b"]}), "id", path="good.ids")
    flipped(built.path, "flipped.ids", 20)
    Path("foreign.ids").write_bytes(b"PAR1" * 20)
    Path("arrow").mkdir()
    with pa.ipc.new_stream(
        "arrow/data-00000-of-00001.arrow", pa.schema({"x": pa.int64()})
    ) as stream:
        stream.write_table(pa.table({"x": [1]}))
    for name in ("dataset_info.json", "state.json"):
        Path("arrow", name).write_text("{}")


def flipped(source: str, target: str, place: int) -> None:
    """Write a copy of a file with one bit changed."""
    content = bytearray(Path(source).read_bytes())
    content[place] ^= 1
    Path(target).write_bytes(content)
