"""`sm.Writer`: what is written is read back, by array_record and pyarrow too.

What fails leaves nothing.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from promptness import HANGS_S

RECORDS = [
    b"",
    b"a",
    b"\x00" * 1000,
    "füße".encode(),
    *(f"record {number}".encode() for number in range(3000)),
]
FORMATS = ["arrayrecord", "parquet"]
SUFFIX = {"arrayrecord": ".array_record", "parquet": ".parquet"}


def read(path: Path) -> list:
    return [row["record"] for row in sm.Dataset(path)]


def names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


@pytest.mark.parametrize(
    "compression", [None, "zstd", "zstd:5", "zstd:-3", "brotli", "brotli:3", "snappy", "none"]
)
@pytest.mark.parametrize("group_size", [None, 64])
def test_array_record_reads_what_is_written(
    tmp_path: Path, compression: str | None, group_size: int | None
) -> None:
    original = pytest.importorskip("array_record.python.array_record_module")
    path = tmp_path / "a.array_record"
    with sm.Writer(path, compression=compression, group_size=group_size) as writer:
        for record in RECORDS:
            writer.write(record)
    reader = original.ArrayRecordReader(str(path))
    assert reader.read_all() == RECORDS
    options = reader.writer_options_string()
    assert f"group_size:{group_size or 1}," in options
    assert ("uncompressed" if compression == "none" else compression or "zstd:3") in options
    assert read(path) == RECORDS


def test_every_form_of_rows_gives_the_same_records(tmp_path: Path) -> None:
    texts = ["one", "", "drei"]
    binary = pa.array([text.encode() for text in texts])
    table = pa.table({"text": texts, "other": [1, 2, 3]})
    forms = {
        "bytes": lambda writer: [writer.write(text.encode()) for text in texts],
        "text": lambda writer: [writer.write(text) for text in texts],
        "views": lambda writer: [writer.write(memoryview(text.encode())) for text in texts],
        "mappings": lambda writer: [writer.write({"text": text, "other": 1}) for text in texts],
        "columns": lambda writer: writer.write_batch({"text": texts, "other": [1, 2, 3]}),
        "table": lambda writer: writer.write_batch(table),
        "batch": lambda writer: writer.write_batch(table.to_batches()[0]),
        "reader": lambda writer: writer.write_batch(table.to_reader()),
        "rows": lambda writer: writer.write_rows(texts, transform=str.encode),
    }
    for name, write in forms.items():
        with sm.Writer(tmp_path / f"{name}.array_record", columns=["text"]) as writer:
            write(writer)
            assert writer.num_rows == 3
        assert read(tmp_path / f"{name}.array_record") == binary.to_pylist(), name


@pytest.mark.parametrize(
    "data_type",
    [
        pa.binary(),
        pa.large_binary(),
        pa.binary_view(),
        pa.string(),
        pa.large_string(),
        pa.string_view(),
    ],
)
def test_arrays_of_strings_and_binaries_are_records(tmp_path: Path, data_type: pa.DataType) -> None:
    values = ["a", "", "longer than the inline part of a view", "b"]
    array = (
        pa.array(values)
        .cast(pa.binary() if "binary" in str(data_type) else pa.string())
        .cast(data_type)
    )
    with sm.Writer(tmp_path / "a.array_record") as writer:
        writer.write_batch(array)
        writer.write_batch(array[1:3])
        writer.write_batch(pa.chunked_array([array, array[:1]]))
    expected = [text.encode() for text in [*values, *values[1:3], *values, *values[:1]]]
    assert read(tmp_path / "a.array_record") == expected


def test_fixed_size_binaries_are_records(tmp_path: Path) -> None:
    with sm.Writer(tmp_path / "a.array_record") as writer:
        writer.write_batch(pa.table({"x": pa.array([b"abcd", b"efgh"], pa.binary(4))}))
    assert read(tmp_path / "a.array_record") == [b"abcd", b"efgh"]


TABLE = pa.table(
    {
        "id": pa.array(range(5000), pa.int32()),
        "text": [None if number % 7 == 3 else f"line {number}" for number in range(5000)],
        "raw": pa.array(
            [bytes([number % 256]) * (number % 40) for number in range(5000)], pa.large_binary()
        ),
        "list": [[number, number + 1][: number % 3] for number in range(5000)],
        "struct": [{"a": number, "b": str(number)} for number in range(5000)],
        "label": pa.array([f"label {number % 5}" for number in range(5000)]).dictionary_encode(),
    }
)


@pytest.mark.parametrize("compression", [None, "zstd", "snappy", "none"])
def test_parquet_that_pyarrow_reads_has_the_rows_and_types(
    tmp_path: Path, compression: str | None
) -> None:
    path = tmp_path / "a.parquet"
    with sm.Writer(path, compression=compression) as writer:
        for start in range(0, 5000, 777):
            writer.write_batch(TABLE[start : start + 777])
    table = pq.read_table(path)
    assert table.schema == TABLE.schema
    assert table.to_pylist() == TABLE.to_pylist()
    codec = pq.read_metadata(path).row_group(0).column(0).compression
    assert codec == {"none": "UNCOMPRESSED"}.get(
        compression or "zstd", (compression or "zstd").upper()
    )


def test_rows_of_parquet_come_as_mappings(tmp_path: Path) -> None:
    rows = [{"x": number, "y": None if number % 2 else f"{number}"} for number in range(2_500)]
    with sm.Writer(tmp_path / "a.parquet", columns=["y", "x"]) as writer:
        for row in rows[:2_400]:
            writer.write(row | {"unwanted": 1})
        writer.write_batch(
            {"x": [row["x"] for row in rows[2_400:]], "y": [row["y"] for row in rows[2_400:]]}
        )
        assert writer.num_rows == 2_500
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.column_names == ["y", "x"]
    assert table.select(["x", "y"]).to_pylist() == rows


def test_columns_of_another_order_are_matched_by_name(tmp_path: Path) -> None:
    with sm.Writer(tmp_path / "a.parquet") as writer:
        writer.write_batch(pa.table({"x": [1], "y": ["a"]}))
        writer.write_batch(pa.table({"y": ["b"], "x": [2]}))
    assert pq.read_table(tmp_path / "a.parquet").to_pylist() == [
        {"x": 1, "y": "a"},
        {"x": 2, "y": "b"},
    ]


def test_schema_makes_a_file_without_rows_and_types_of_mappings(tmp_path: Path) -> None:
    schema = pa.schema([("x", pa.int8()), ("y", pa.string())])
    with sm.Writer(tmp_path / "empty.parquet", schema=schema):
        pass
    assert pq.read_schema(tmp_path / "empty.parquet") == schema
    with sm.Writer(tmp_path / "a.parquet", schema=schema) as writer:
        writer.write({"x": 1})
    assert pq.read_table(tmp_path / "a.parquet").to_pylist() == [{"x": 1, "y": None}]
    with (
        pytest.raises(ValueError, match="it has no rows and no schema\nhint: .*schema="),
        sm.Writer(tmp_path / "none.parquet"),
    ):
        pass
    with sm.Writer(tmp_path / "empty.array_record"):
        pass
    assert read(tmp_path / "empty.array_record") == []
    assert names(tmp_path) == ["a.parquet", "empty.array_record", "empty.parquet"]


@pytest.mark.parametrize("format", FORMATS)
def test_directory_gets_shards_of_about_the_limit(tmp_path: Path, format: str) -> None:
    out = tmp_path / "out"
    rows = [bytes(1000) for _ in range(100)]
    with sm.Writer(out, format=format, shard_bytes="10kB") as writer:
        if format == "parquet":
            writer.write_batch(pa.table({"record": rows}))
        else:
            writer.write_rows(rows)
        assert not out.exists() or all(name.startswith(".") for name in names(out))
    assert len(writer.files) in (10, 11, 12)
    assert writer.files == [
        f"{out}/part-{number:05}{SUFFIX[format]}" for number in range(len(writer.files))
    ]
    assert names(out) == [Path(path).name for path in writer.files]
    assert read(out) == rows


@pytest.mark.parametrize("format", FORMATS)
def test_output_does_not_depend_on_threads(tmp_path: Path, format: str) -> None:
    rng = np.random.default_rng(1)
    rows = [rng.bytes(int(length)) + b"text" * 50 for length in rng.integers(0, 2_000, 3_000)]
    outputs = []
    for threads in (0, 1, 2, 8):
        out = tmp_path / str(threads)
        with sm.Writer(out, format=format, shard_bytes=1_000_000, threads=threads) as writer:
            writer.write_rows(
                rows[:1500] if format == "arrayrecord" else [{"record": row} for row in rows[:1500]]
            )
            writer.write_batch(pa.table({"record": rows[1500:]}))
        outputs.append([Path(path).read_bytes() for path in writer.files])
    assert len(outputs[0]) > 2
    assert all(output == outputs[0] for output in outputs)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", ["file", "directory"])
def test_exception_in_the_block_leaves_nothing(tmp_path: Path, format: str, name: str) -> None:
    out = tmp_path / (f"out{SUFFIX[format]}" if name == "file" else "out")
    limit = None if name == "file" else 1000
    with (
        pytest.raises(KeyboardInterrupt),
        sm.Writer(out, format=format, shard_bytes=limit) as writer,
    ):
        writer.write_batch(pa.table({"record": RECORDS}))
        raise KeyboardInterrupt
    assert names(tmp_path) == []
    with pytest.raises(RuntimeError, match="closed"):
        writer.write_batch(pa.table({"record": RECORDS}))
    writer.close()
    assert names(tmp_path) == []


def test_existing_output_is_refused_and_replaced_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "a.array_record"
    path.write_bytes(b"mine")
    with pytest.raises(FileExistsError, match=r'hint: mode="overwrite"'):
        sm.Writer(path)
    with pytest.raises(ZeroDivisionError), sm.Writer(path, mode="overwrite") as writer:
        writer.write(b"x")
        raise ZeroDivisionError
    assert path.read_bytes() == b"mine"
    with sm.Writer(path, mode="overwrite") as writer:
        writer.write(b"x")
        assert path.read_bytes() == b"mine"
    assert read(path) == [b"x"]


def test_name_that_is_taken_meanwhile_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.array_record"
    with pytest.raises(FileExistsError), sm.Writer(path) as writer:
        writer.write(b"x")
        path.write_bytes(b"of another")
    assert path.read_bytes() == b"of another"
    assert names(tmp_path) == ["a.array_record"]


def test_one_taken_name_keeps_all_shards_back(tmp_path: Path) -> None:
    with (
        pytest.raises(FileExistsError),
        sm.Writer(tmp_path, format="arrayrecord", shard_bytes=1) as writer,
    ):
        writer.write_rows([b"a", b"b", b"c"])
        (tmp_path / "part-00001.array_record").write_bytes(b"of another")
    assert names(tmp_path) == ["part-00001.array_record"]


def test_modes_of_a_directory(tmp_path: Path) -> None:
    def write(*records: bytes, **options) -> None:
        with sm.Writer(tmp_path, format="arrayrecord", shard_bytes=1, **options) as writer:
            writer.write_rows(records)

    (tmp_path / "README.md").write_text("no data")
    write(b"a", b"b", b"c")
    with pytest.raises(FileExistsError, match="has 3 data files"):
        write(b"d")
    write(b"d", b"e", mode="append")
    assert read(tmp_path) == [b"a", b"b", b"c", b"d", b"e"]
    assert names(tmp_path)[-1] == "part-00004.array_record"
    pq.write_table(pa.table({"x": [1]}), tmp_path / "old.parquet")
    write(b"z", mode="overwrite")
    assert names(tmp_path) == ["README.md", "part-00000.array_record"]
    assert read(tmp_path) == [b"z"]


@pytest.mark.parametrize(
    ("row", "error", "message"),
    [
        ({"x": None}, ValueError, "row 1 has a null in column 'x'"),
        ({"x": "a", "y": "b"}, ValueError, r'has 2 \(x, y\)\nhint: columns=\["name"\]'),
        (7, TypeError, "a record must be bytes or a string, not int"),
        ({"x": 7}, TypeError, "a record must be bytes or a string, not int"),
        ({}, ValueError, "has one value, but this one has 0"),
    ],
)
def test_rows_that_are_no_records_are_refused(tmp_path: Path, row, error, message: str) -> None:
    with pytest.raises(error, match=message), sm.Writer(tmp_path / "a.array_record") as writer:
        writer.write(b"first")
        writer.write(row)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("table", "columns", "error", "message"),
    [
        (pa.table({"x": ["a", None]}), None, ValueError, "Row 3 has a null in column `x`"),
        (pa.table({"x": ["a"], "y": ["b"]}), None, ValueError, r"several columns \(x, y\)"),
        (
            pa.table({"x": [1]}),
            None,
            ValueError,
            "Column `x` is int64, and records of ArrayRecord are bytes",
        ),
        (pa.table({"x": ["a"]}), ["z"], KeyError, "No column `z`; there are: x"),
    ],
)
def test_batches_that_are_no_records_are_refused(
    tmp_path: Path, table, columns, error, message: str
) -> None:
    with (
        pytest.raises(error, match=message),
        sm.Writer(tmp_path / "a.array_record", columns=columns) as writer,
    ):
        writer.write(b"0")
        writer.write(b"1")
        writer.write_batch(table)
    assert names(tmp_path) == []


def test_batches_of_other_types_are_refused_by_parquet(tmp_path: Path) -> None:
    for second in (pa.table({"x": ["a"]}), pa.table({"y": [1]}), pa.table({"x": [1], "y": [1]})):
        with pytest.raises((ValueError, KeyError)), sm.Writer(tmp_path / "a.parquet") as writer:
            writer.write_batch(pa.table({"x": [1]}))
            writer.write_batch(second)
    with (
        pytest.raises(ValueError, match="hint: pass schema="),
        sm.Writer(tmp_path / "a.parquet") as writer,
    ):
        writer.write({"x": 1})
        writer.write({"x": "a"})
        writer.close()
    with (
        pytest.raises(TypeError, match="holds no Arrow data"),
        sm.Writer(tmp_path / "a.parquet") as writer,
    ):
        writer.write_batch([1, 2])
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("out", "options", "message"),
    [
        ("out.txt", {}, "does not match a format"),
        ("out.csv", {}, "can be read, but not written"),
        (
            "out.csv",
            {"format": "parquet"},
            "hint: omit the extension for a directory; one file ends in .parquet",
        ),
        (
            "out",
            {"format": "xml"},
            "format must be one of 'arrayrecord', 'parquet', 'jsonl', 'webdataset', 'mds', "
            "'bin', 'megatron', not 'xml'",
        ),
        ("a.parquet", {"mode": "a"}, "mode must be 'error', 'overwrite' or 'append'"),
        ("a.parquet", {"mode": "append"}, "pass a directory"),
        ("a.parquet", {"shard_bytes": 5}, "pass a directory"),
        ("out", {"format": "parquet", "shard_bytes": 0}, "positive number of bytes"),
        ("out", {"format": "parquet", "shard_bytes": "many"}, "cannot be understood"),
        (
            "a.parquet",
            {"compression": "zip"},
            "compression of Parquet must be one of zstd, snappy, gzip, brotli, lz4, none",
        ),
        ("a.parquet", {"group_size": 5}, "group_size is only for ArrayRecord"),
        ("a.array_record", {"compression": "lz4"}, "compression of ArrayRecord must be one of"),
        ("a.array_record", {"compression": "zstd:99"}, "zstd"),
        (
            "a.array_record",
            {"compression": "transpose"},
            "compression of ArrayRecord must be one of",
        ),
        ("a.array_record", {"group_size": 0}, "group_size"),
        ("a.array_record", {"columns": ["x", "y"]}, "ArrayRecord has one column"),
        ("a.array_record", {"columns": "xy"}, "columns must be a list of names"),
        ("a.array_record", {"schema": pa.schema([])}, "schema is for formats with columns"),
        ("a.array_record", {"threads": -1}, "threads"),
        (b"a.parquet", {}, "out must be a path as a string"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    tmp_path: Path, monkeypatch, out, options, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        sm.Writer(out, **options)
    assert names(tmp_path) == []


def test_rows_may_lack_columns_and_may_not_bring_others_later(tmp_path: Path) -> None:
    with sm.Writer(tmp_path / "a.parquet") as writer:
        writer.write({"x": 1})
        writer.write({"x": 2, "y": "only here"})
    assert pq.read_table(tmp_path / "a.parquet").to_pylist() == [
        {"x": 1, "y": None},
        {"x": 2, "y": "only here"},
    ]
    with (
        pytest.raises(ValueError, match="row 1500 has a column 'z'"),
        sm.Writer(tmp_path / "b.parquet") as writer,
    ):
        writer.write_rows(
            {"x": number} | ({"z": 1} if number == 1500 else {}) for number in range(2_000)
        )
    with (
        pytest.raises(KeyError, match="row 1 has no column 'y'"),
        sm.Writer(tmp_path / "b.parquet", columns=["y"]) as w,
    ):
        w.write({"y": 1})
        w.write({"x": 1})
    assert names(tmp_path) == ["a.parquet"]


def test_row_that_is_changed_after_it_was_written_is_written_as_it_was(tmp_path: Path) -> None:
    with sm.Writer(tmp_path / "a.parquet") as writer:
        row = {"x": 0}
        for number in range(3):
            row["x"] = number
            writer.write(row)
    assert pq.read_table(tmp_path / "a.parquet").column("x").to_pylist() == [0, 1, 2]


@pytest.mark.parametrize("format", ["parquet", "mds"])
def test_texts_are_written_without_growing_in_memory(tmp_path: Path, format: str) -> None:
    kinds = ["ascii", "naïve", "読む", "🦀 rust", ""]
    texts = [f"{kind}{row}" for row, kind in enumerate(kinds * 20)]
    sizes = [sys.getsizeof(text) for text in texts]
    with sm.Writer(tmp_path / "out", format=format, columns={"text": "str"}) as writer:
        for text in texts:
            writer.write({"text": text})
    assert [row["text"] for row in sm.Dataset(tmp_path / "out")] == texts
    # Python keeps the UTF-8 of a text that is asked for it; the first one is, to find out.
    assert sum(sys.getsizeof(text) > size for text, size in zip(texts, sizes, strict=True)) <= 1


def test_batch_that_fails_in_the_middle_closes_the_writer(tmp_path: Path) -> None:
    with sm.Writer(tmp_path / "a.array_record") as writer:
        with pytest.raises(ValueError, match="row 1 has a null"):
            writer.write_batch({"x": ["a", None]})
        with pytest.raises(RuntimeError, match="closed"):
            writer.write(b"x")
    assert names(tmp_path) == []


def test_forgotten_close_is_told(tmp_path: Path) -> None:
    writer = sm.Writer(tmp_path / "a.array_record")
    writer.write(b"x")
    with pytest.warns(ResourceWarning, match="never closed, so nothing was written"):
        del writer
    assert names(tmp_path) == []


KILLED = """
import os, sys, time, shardmill as sm
writer = sm.Writer(sys.argv[1], format="arrayrecord", shard_bytes=1000)
for number in range(100):
    writer.write(bytes(500))
# Threads make the files.
while len(os.listdir(sys.argv[1])) <= 10:
    time.sleep(0.01)
print("ready", flush=True)
time.sleep(600)
"""


def test_killed_writer_leaves_no_final_name_and_the_next_one_cleans_up(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert names(tmp_path)
    assert all(name.startswith(".shardmill-") for name in names(tmp_path))
    with sm.Writer(tmp_path, format="arrayrecord") as writer:
        writer.write(b"x")
    assert names(tmp_path) == ["part-00000.array_record"]


FULL_DISK = """
import resource, signal, sys, shardmill as sm
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, 1_500_000))
try:
    with sm.Writer(sys.argv[1], compression="none") as writer:
        for number in range(200):
            writer.write({"x": number.to_bytes(4, "big") * 25_000})
except OSError as error:
    sys.exit(f"told: {type(error).__name__}: {error}")
"""


@pytest.mark.parametrize("format", FORMATS)
def test_full_disk_is_told_and_leaves_nothing(tmp_path: Path, format: str) -> None:
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path / f"a{SUFFIX[format]}")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_S, check=False)
    assert result.stderr.startswith("told: StorageError: "), result.stderr
    assert "File too large" in result.stderr
    assert names(tmp_path) == []


def test_forked_child_leaves_the_files_of_its_parent_alone(tmp_path: Path) -> None:
    with sm.Writer(tmp_path, format="arrayrecord", shard_bytes=10) as writer:
        writer.write_rows([bytes(20)] * 5)
        child = os.fork()
        if child == 0:
            try:
                writer.write(b"x")
            except RuntimeError:
                del writer
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
    assert read(tmp_path) == [bytes(20)] * 5


def test_arrow_data_is_written_without_pyarrow(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "in.parquet")
    code = (
        "import sys; sys.modules['pyarrow'] = None; import shardmill as sm\n"
        "ds = sm.Dataset('in.parquet', columns=['text', 'id'])\n"
        "with sm.Writer('out.parquet') as writer: writer.write_batch(ds.take(range(100)))\n"
        "with sm.Writer('out.array_record') as writer: writer.write_rows(['a', b'b'])\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, timeout=HANGS_S)
    assert pq.read_table(tmp_path / "out.parquet").equals(TABLE.select(["text", "id"])[:100])
    assert read(tmp_path / "out.array_record") == [b"a", b"b"]


def test_missing_directories_are_made(tmp_path: Path) -> None:
    with sm.Writer(tmp_path / "a" / "b" / "c.array_record") as writer:
        writer.write(b"x")
    assert read(tmp_path / "a" / "b" / "c.array_record") == [b"x"]


FIRST_USE = """
import sys
import shardmill as sm

with sm.Writer(sys.argv[1]) as writer:
    for number in range(3_000):
        score = None if number % 3 else 0.5
        writer.write({"text": f"row {number}", "label": number, "score": score})
assert "pandas" not in sys.modules
"""


def test_plain_rows_are_written_without_pandas(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FIRST_USE, str(tmp_path / "rows.parquet")]
    subprocess.run(command, check=True, timeout=HANGS_S)
    rows = pq.read_table(tmp_path / "rows.parquet")
    assert rows["label"].to_pylist() == list(range(3_000))
    assert rows["score"].null_count == 2_000
