"""ArrayRecord files of array_record itself, as any other table.

By `Dataset`, `Loader`, `head`, `inspect` and `verify`.
"""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import shardmill as sm
from command import shardmill
from shardmill.curate import inspect, verify

array_record_module = pytest.importorskip("array_record.python.array_record_module")

OPTIONS = [
    "group_size:1",
    "group_size:7,brotli:3",
    "group_size:64,snappy",
    "uncompressed",
    "group_size:5000",
]


def write(path: Path, records: list[bytes], options: str = "group_size:1") -> Path:
    writer = array_record_module.ArrayRecordWriter(str(path), options)
    for record in records:
        writer.write(record)
    writer.close()
    return path


def records_of(count: int, seed: int = 0) -> list[bytes]:
    rng = np.random.default_rng(seed)
    return [rng.bytes(int(length)) for length in rng.integers(0, 400, count)]


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[bytes]]:
    directory = tmp_path_factory.mktemp("shards") / "train"
    directory.mkdir()
    records: list[bytes] = []
    for number, options in enumerate(OPTIONS):
        part = records_of(700 + number, seed=number)
        write(directory / f"train.array_record-{number:05}-of-{len(OPTIONS):05}", part, options)
        records += part
    return directory, records


@pytest.mark.parametrize("options", OPTIONS)
def test_rows_of_a_file_are_its_records(tmp_path: Path, options: str) -> None:
    records = records_of(1_234)
    ds = sm.Dataset(write(tmp_path / "a.array_record", records, options))
    assert (ds.format, ds.columns, len(ds)) == ("arrayrecord", ["record"], 1_234)
    assert ds.schema == pa.schema([pa.field("record", pa.binary(), nullable=False)])
    assert [row["record"] for row in ds] == records
    assert (ds[0], ds[-1], ds[617]) == (
        {"record": records[0]},
        {"record": records[-1]},
        {"record": records[617]},
    )
    taken = ds.take([5, 1_233, 5, 0])
    assert taken.column("record").to_pylist() == [
        records[5],
        records[1_233],
        records[5],
        records[0],
    ]


def test_directory_of_shards_is_read_in_the_order_of_its_names(
    shards: tuple[Path, list[bytes]],
) -> None:
    directory, records = shards
    ds = sm.Dataset(directory)
    assert len(ds.files) == len(OPTIONS)
    assert [row["record"] for row in ds] == records
    pattern = sm.Dataset(str(directory / "*-of-*"))
    assert pattern.files == ds.files


@pytest.mark.parametrize("output", ["arrow", "dict", "numpy", "torch"])
def test_loader_gives_records_in_every_output(
    shards: tuple[Path, list[bytes]], output: str
) -> None:
    if output == "torch":
        pytest.importorskip("torch")
    directory, records = shards
    delivered: list[bytes] = []
    for batch in sm.Loader(directory, batch_size=100, output=output, rank=0, world_size=1):
        column = batch.column("record").to_pylist() if output == "arrow" else batch["record"]
        assert output not in ("numpy", "torch") or isinstance(column, sm.BinaryArray)
        delivered += list(column)
    assert delivered == records


def test_shuffle_gives_every_record_once_and_again_in_the_same_order(
    shards: tuple[Path, list[bytes]],
) -> None:
    directory, records = shards
    loader = sm.Loader(
        directory, batch_size=64, shuffle=True, seed=3, output="dict", rank=0, world_size=1
    )
    first = [record for batch in loader for record in batch["record"]]
    again = sm.Loader(
        directory,
        batch_size=64,
        shuffle=True,
        seed=3,
        output="dict",
        rank=0,
        world_size=1,
        runtime=sm.Runtime(threads=0),
    )
    assert first != records
    assert sorted(first) == sorted(records)
    assert first == [record for batch in again for record in batch["record"]]


def test_filter_keeps_the_records_that_are_equal(tmp_path: Path) -> None:
    records = [b"cat", b"dog", b"", b"cat"] * 500
    path = write(tmp_path / "a.arrayrecord", records, "group_size:16")
    ds = sm.Dataset(path, filter=sm.col("record") == b"cat")
    assert len(ds) == 1_000
    assert {row["record"] for row in ds} == {b"cat"}


def test_file_without_records_has_no_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "empty.array_record", [])
    ds = sm.Dataset(path)
    assert (len(ds), list(ds), ds.columns) == (0, [], ["record"])
    both = sm.Dataset([path, write(tmp_path / "one.arecord", [b"x"])])
    assert list(both) == [{"record": b"x"}]


def test_format_is_believed_where_the_name_says_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "records", [b"x", b"y"])
    assert len(sm.Dataset(path, format="arrayrecord")) == 2
    assert "x" in shardmill("head", path, "--format", "arrayrecord").stdout


def test_schema_of_the_user_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.array_record", [b"x"])
    with pytest.raises(ValueError, match="arrayrecord files contain their types"):
        sm.Dataset(path, schema=pa.schema([("record", pa.string())]))


def test_list_of_several_formats_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.array_record", [b"x"])
    pa.parquet = pytest.importorskip("pyarrow.parquet")
    pa.parquet.write_table(pa.table({"record": [b"y"]}), tmp_path / "b.parquet")
    with pytest.raises(ValueError, match="parquet"):
        sm.Dataset([path, tmp_path / "b.parquet"])


def test_damaged_file_is_skipped_when_asked_and_named_when_not(tmp_path: Path) -> None:
    good = write(tmp_path / "a.array_record", [b"x"])
    bad = write(tmp_path / "b.array_record", [b"y"])
    bad.write_bytes(bad.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"b\.array_record"):
        sm.Dataset(tmp_path)
    ds = sm.Dataset(tmp_path, errors=sm.ErrorPolicy(files="skip"))
    assert ds.files == [str(good)]
    assert [path for path, _ in ds.skipped] == [str(bad)]
    assert list(ds) == [{"record": b"x"}]


def test_damaged_chunk_is_named_when_it_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.array_record", [b"x" * 50] * 10, "uncompressed")
    data = bytearray(path.read_bytes())
    data[120] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"Chunk `0` of `.*a\.array_record` at `64` is damaged"):
        list(sm.Dataset(path))


def test_head_shows_text_as_text_and_other_bytes_as_hex(tmp_path: Path) -> None:
    records = [
        b"plain text",
        "füße".encode(),
        b"line\nbreak",
        b"\x00\x01\x02",
        bytes(range(200, 220)),
        b"",
    ]
    result = shardmill("head", write(tmp_path / "a.array_record", records))
    assert (result.returncode, result.stderr) == (0, "6 of 6 rows in 1 arrayrecord file\n")
    header, types, *rows = result.stdout.splitlines()
    assert (header.split(), types.split()) == (["record"], ["binary"])
    shown = [row.strip().partition("  ")[2] for row in rows]
    assert shown == [
        "plain text",
        "füße",
        r"line\nbreak",
        "<3 bytes: 000102>",
        "<20 bytes: c8c9cacbcccdcecf…>",
        "",
    ]


@pytest.mark.parametrize("options", OPTIONS)
def test_inspect_tells_the_numbers_of_a_file(tmp_path: Path, options: str) -> None:
    records = [b"text", b"\x00\xff" * 40, b"", *records_of(300)]
    path = write(tmp_path / "a.array_record", records, options)
    (file,) = inspect(path).files
    assert (file.format, file.samples, file.damage) == ("arrayrecord", 303, [])
    summary = file.arrayrecord
    assert summary is not None
    group = min(303, int(options.partition(":")[2].partition(",")[0] or 1))
    assert (summary["records"], summary["chunks"], summary["group_size"]) == (
        303,
        -(-303 // group),
        group,
    )
    lengths = list(map(len, records))
    assert (summary["shortest"], summary["longest"], summary["measured"]) == (
        min(lengths),
        max(lengths),
        303,
    )
    assert (summary["decoded_bytes"], summary["stored_bytes"]) == (
        sum(lengths),
        path.stat().st_size,
    )
    assert (
        summary["writer_options"]
        == array_record_module.ArrayRecordReader(str(path)).writer_options_string()
    )
    assert [(first["bytes"], first["text"]) for first in summary["first"]] == [
        (4, "text"),
        (80, None),
        (0, ""),
    ]
    assert summary["first"][1]["hex"] == "00ff" * 16
    page = str(file)
    assert "4 bytes: text" in page
    assert "80 bytes: " + "00ff" * 16 + "…" in page


def test_inspect_of_an_empty_and_of_a_cut_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.array_record", [])
    (file,) = inspect(path).files
    assert file.arrayrecord is not None
    assert (
        file.arrayrecord["records"],
        file.arrayrecord["shortest"],
        file.arrayrecord["codec"],
    ) == (0, 0, None)
    path.write_bytes(path.read_bytes()[:-1])
    (file,) = inspect(path).files
    assert (file.format, file.arrayrecord, len(file.damage)) == ("arrayrecord", None, 1)


def test_file_is_recognized_by_its_first_bytes(tmp_path: Path) -> None:
    path = write(tmp_path / "no_extension", [b"x"])
    assert inspect(path).files[0].format == "arrayrecord"
    assert verify(path)[0].format == "arrayrecord"


@pytest.mark.parametrize("options", [*OPTIONS, "group_size:3,pad_to_block_boundary:true"])
def test_verify_accepts_what_array_record_writes(tmp_path: Path, options: str) -> None:
    records = [*records_of(200), b"x" * 200_000, b"", b""]
    (check,) = verify(write(tmp_path / "a.array_record", records, options))
    assert (check.is_valid, check.samples, check.problems) == (True, 203, [])


def test_verify_finds_every_changed_byte_and_reading_need_not(tmp_path: Path) -> None:
    path = write(tmp_path / "a.array_record", records_of(50), "uncompressed")
    data = path.read_bytes()
    for place in [
        0,
        30,
        63,
        64,
        90,
        105,
        4_000,
        20_000,
        65_000,
        65_536,
        65_600,
        70_000,
        len(data) - 1,
    ]:
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        (check,) = verify(path)
        assert not check.is_valid, place
        assert all(problem.rule == "readable" for problem in check.problems)


def test_verify_tells_each_damaged_chunk_with_its_number_and_offset(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.array_record", [bytes([number]) * 90 for number in range(20)], "uncompressed"
    )
    data = bytearray(path.read_bytes())
    size = 40 + 3 + 90
    offsets = {number: 64 + number * size for number in (2, 3, 11)}
    for number, offset in offsets.items():
        # Of chunk 3 the header, which hides where the next one begins.
        data[offset + (10 if number == 3 else 60)] ^= 1
    path.write_bytes(data)
    (check,) = verify(path)
    assert [(problem.member, problem.offset) for problem in check.problems] == [
        (f"chunk {number}", offset) for number, offset in offsets.items()
    ]
    assert check.samples == 17
    result = shardmill("verify", path)
    assert result.returncode == 1
    assert "chunk 11 at 1527" in result.stdout
    assert "hash of the chunk's data does not match" in result.stdout


def test_verify_goes_on_without_an_index(tmp_path: Path) -> None:
    path = write(tmp_path / "a.array_record", [b"x" * 90] * 20, "uncompressed")
    data = bytearray(path.read_bytes())
    data[64 + 60] ^= 1
    path.write_bytes(data[:-1])
    (check,) = verify(path)
    whats = [problem.what for problem in check.problems]
    assert "whole blocks" in whats[0]
    assert check.problems[1].offset == 64


def test_directory_of_shards_is_verified_and_inspected(shards: tuple[Path, list[bytes]]) -> None:
    directory, records = shards
    assert sum(check.samples for check in verify(directory) if check.is_valid) == len(records)
    result = shardmill("inspect", directory, "--json")
    assert [file["format"] for file in json.loads(result.stdout)["files"]] == ["arrayrecord"] * len(
        OPTIONS
    )
