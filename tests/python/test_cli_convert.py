"""`shardmill convert` as a user runs it: rows arrive and are compared; a failure leaves nothing."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from command import shardmill
from promptness import HANGS_S
from shardmill.cli._commands import run

ENVIRONMENT = os.environ | {"COLUMNS": "100", "NO_COLOR": "1"}
TEXTS = [f"line {number} of text" * (number % 9) for number in range(3_000)]


def converted(*arguments: object) -> str:
    result = shardmill("convert", *arguments)
    assert (result.returncode, result.stdout) == (0, ""), result.stderr
    return result.stderr


def names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


def test_times_of_csv_are_times_to_every_reader_of_the_parquet_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("at,x\n2024-01-31 08:30:00,1\n1969-12-31 23:59:59,2\n")
    converted(tmp_path / "a.csv", tmp_path / "a.parquet")
    found = pq.read_table(tmp_path / "a.parquet")
    assert found.schema.types == [pa.timestamp("ms"), pa.int64()]
    assert found.to_pylist() == list(sm.Dataset(tmp_path / "a.csv"))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("source")
    table = pa.table(
        {
            "id": range(3_000),
            "text": TEXTS,
            "raw": [text.encode() + b"\xff" for text in TEXTS],
            "holes": [None if number % 10 == 3 else text for number, text in enumerate(TEXTS)],
        }
    )
    pq.write_table(table[:1_000], directory / "a.parquet", row_group_size=300)
    pq.write_table(table[1_000:], directory / "b.parquet")
    return directory


def test_decimals_with_zeros_and_tiny_values_go_to_mds_and_are_compared(tmp_path: Path) -> None:
    types = [
        pa.decimal128(18, 8),
        pa.decimal128(38, 38),
        pa.decimal256(76, 30),
        pa.decimal128(9, 0),
    ]
    for data_type in types:
        tiny = Decimal(1).scaleb(-data_type.scale)
        values = [Decimal(0), tiny, -tiny]
        pq.write_table(pa.table({"x": pa.array(values, data_type)}), tmp_path / "a.parquet")
        told = converted(tmp_path / "a.parquet", tmp_path / f"{data_type}", "--to", "mds")
        assert "only the number of rows" not in told
        assert [Decimal(row["x"]) for row in sm.Dataset(tmp_path / f"{data_type}")] == values


def test_help_shows_an_example() -> None:
    result = shardmill("convert", "--help")
    assert (result.returncode, result.stderr) == (0, "")
    assert "\n    shardmill convert " in result.stdout.split("Example:")[1]


@pytest.mark.parametrize("column", ["text", "raw"])
@pytest.mark.parametrize("options", [[], ["--compression", "brotli:3", "--group-size", 100]])
def test_column_goes_to_arrayrecord_and_back(
    source: Path, tmp_path: Path, column: str, options: list
) -> None:
    there, back = tmp_path / "there.array_record", tmp_path / "back.parquet"
    told = converted(source, there, "--column", column, *options)
    assert told.startswith("3,000 rows of 2 parquet files")
    assert "written to 1 arrayrecord file " in told
    told_back = converted(there, back)
    expected = [row[column] for row in sm.Dataset(source, columns=[column])]
    expected = [text.encode() if isinstance(text, str) else text for text in expected]
    assert [row["record"] for row in sm.Dataset(there)] == expected
    assert pq.read_table(back).schema == pa.schema(
        [pa.field("record", pa.binary(), nullable=False)]
    )
    assert pq.read_table(back).column("record").to_pylist() == expected
    assert told.rsplit("hash ")[1] == told_back.rsplit("hash ")[1], (
        "the rows are the same, so is their hash"
    )


def test_array_record_reads_the_output(source: Path, tmp_path: Path) -> None:
    original = pytest.importorskip("array_record.python.array_record_module")
    converted(
        source,
        tmp_path / "a.array_record",
        "--column",
        "text",
        "--group-size",
        7,
        "--compression",
        "snappy",
    )
    reader = original.ArrayRecordReader(str(tmp_path / "a.array_record"))
    assert reader.read_all() == [text.encode() for text in TEXTS]
    assert "group_size:7," in reader.writer_options_string()
    assert "snappy" in reader.writer_options_string()


def test_output_of_array_record_is_converted(tmp_path: Path) -> None:
    original = pytest.importorskip("array_record.python.array_record_module")
    writer = original.ArrayRecordWriter(
        str(tmp_path / "a.array_record-00000-of-00001"), "group_size:16"
    )
    records = [b"", b"\x00" * 300, *(text.encode() for text in TEXTS)]
    for record in records:
        writer.write(record)
    writer.close()
    converted(tmp_path / "a.array_record-00000-of-00001", tmp_path / "out", "--to", "parquet")
    assert pq.read_table(tmp_path / "out").column("record").to_pylist() == records


def test_all_columns_go_to_parquet_from_every_format(source: Path, tmp_path: Path) -> None:
    rows = [{"x": number, "y": f"text {number}", "z": number / 8} for number in range(500)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with (tmp_path / "a.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, ["x", "y", "z"])
        table.writeheader()
        table.writerows(rows)
    pa.orc = pytest.importorskip("pyarrow.orc")
    pa.orc.write_table(pa.Table.from_pylist(rows), tmp_path / "a.orc")
    for name in ("a.jsonl", "a.csv", "a.orc"):
        out = tmp_path / f"{name}.parquet"
        converted(tmp_path / name, out, "--compression", "snappy")
        assert pq.read_table(out).to_pylist() == rows, name
    converted(source, tmp_path / "all.parquet")
    assert pq.read_table(tmp_path / "all.parquet").equals(pq.read_table(source))


def test_nested_columns_and_nulls_go_to_parquet(tmp_path: Path) -> None:
    table = pa.table(
        {
            "list": [[1, None], None, []] * 100,
            "struct": [{"a": 1, "b": None}, None, {"a": None, "b": "x"}] * 100,
            "map": pa.array([[("a", 1)], [], None] * 100, pa.map_(pa.string(), pa.int64())),
            "float": [float("nan"), None, -0.0] * 100,
            "words": pa.array(["a", None, "b"] * 100).dictionary_encode(),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    converted(tmp_path / "a.parquet", tmp_path / "b.parquet")
    assert str(pq.read_table(tmp_path / "b.parquet").to_pylist()) == str(table.to_pylist())


def test_half_precision_goes_to_jsonl(tmp_path: Path) -> None:
    values = [0.1, None, 65504.0, -0.0, 6e-8, 1 / 3]
    halves = pa.array(values, pa.float16())
    table = pa.table(
        {
            "f": halves,
            "list": pa.array([[value] for value in values], pa.list_(pa.float16())),
            "s": pa.StructArray.from_arrays([halves], ["f"]),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    converted(tmp_path / "a.parquet", tmp_path / "a.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert pa.array([row["f"] for row in rows], pa.float16()).equals(halves)


def test_nulls_are_counted_in_the_message(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, None]}), tmp_path / "a.parquet")
    result = shardmill("convert", tmp_path / "a.parquet", tmp_path / "out", "--to", "mds")
    assert "column 'a' has 1 null, and MDS has none" in result.stderr


def test_search_for_nulls_keeps_the_options_of_the_store(tmp_path: Path) -> None:
    from shardmill.cli._conversion import Conversion

    pq.write_table(pa.table({"text": ["a", "b"]}), tmp_path / "a.parquet")
    dataset = sm.Dataset(tmp_path / "a.parquet")
    # As of the Hub, whose commit is pinned. Configured again, they would replace those of this
    # process, and its token with them.
    dataset._arguments["storage_options"] = {"revisions": "hf://datasets/o/n=a"}
    assert Conversion(dataset, "mds")._encodings == {"text": "str"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "arrayrecord"], "ArrayRecord has one column, but the input has none"),
        (["--columns", ""], "--column and --columns take names of columns"),
        (["--columns", ","], "--column and --columns take names of columns"),
        (["--column", ""], "--column and --columns take names of columns"),
    ],
)
def test_conversion_of_no_columns_is_refused(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    result = shardmill("convert", tmp_path / "empty.jsonl", tmp_path / "out", *arguments)
    assert result.returncode == 2
    assert message in " ".join(result.stderr.split())
    assert not (tmp_path / "out").exists()


def test_directory_gets_shards(source: Path, tmp_path: Path) -> None:
    told = converted(
        source, tmp_path / "out", "--to", "arrayrecord", "--column", "text", "--shard-bytes", "50kB"
    )
    assert len(names(tmp_path / "out")) > 3
    assert f"written to {len(names(tmp_path / 'out'))} arrayrecord files" in told
    assert [row["record"].decode() for row in sm.Dataset(tmp_path / "out")] == TEXTS


def test_rows_without_values_are_refused_until_a_filter_leaves_them_out(
    source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "a.array_record"
    refused = shardmill("convert", source, out, "--column", "holes")
    assert refused.returncode == 1
    assert (
        "error: Row 3 has a null in column `holes`, and ArrayRecord has no nulls\nhint: "
        in refused.stderr
    )
    assert names(tmp_path) == []
    assert converted(source, out, "--column", "holes", "--filter", "holes is not null").startswith(
        "2,700 rows"
    )
    assert len(sm.Dataset(out)) == 2_700


@pytest.mark.parametrize("to", ["array_record", "parquet"])
def test_file_without_rows_becomes_one_without_rows(tmp_path: Path, to: str) -> None:
    pq.write_table(pa.table({"x": pa.array([], pa.string())}), tmp_path / "in.parquet")
    told = converted(tmp_path / "in.parquet", tmp_path / f"out.{to}")
    assert told.startswith("0 rows of 1 parquet file ")
    assert len(sm.Dataset(tmp_path / f"out.{to}")) == 0


def test_existing_output_is_kept_until_it_may_be_replaced(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.array_record"
    out.write_bytes(b"mine")
    refused = shardmill("convert", source, out, "--column", "text")
    assert (refused.returncode, out.read_bytes()) == (1, b"mine")
    assert "hint: --mode overwrite replaces it" in refused.stderr
    converted(source, out, "--column", "text", "--mode", "overwrite")
    assert len(sm.Dataset(out)) == 3_000
    # A file may be its own output.
    converted(out, out, "--mode", "overwrite", "--compression", "none")
    assert len(sm.Dataset(out)) == 3_000
    # But not of a part of its rows.
    refused = shardmill(
        "convert", out, out, "--mode", "overwrite", "--filter", "record is not null"
    )
    assert (refused.returncode, len(sm.Dataset(out))) == (2, 3_000)
    assert names(tmp_path) == ["a.array_record"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["SRC", "a.array_record"], 2, "select one of id, text, raw, holes with --column"),
        (["SRC", "a.array_record", "--column", "nome"], 1, "No column `nome`"),
        (
            ["SRC", "a.array_record", "--column", "id"],
            1,
            "Column `id` is int64, and records of ArrayRecord are bytes",
        ),
        (["SRC", "out.txt"], 2, "does not match a format; pass --to, one of"),
        (["SRC", "out.csv"], 2, "an extension that can be read, but not written"),
        (
            ["SRC", "out.csv", "--to", "parquet"],
            2,
            "has the file extension .csv, but as parquet it would be a directory",
        ),
        (["SRC", "out", "--to", "xml"], 2, "'xml' is not one of"),
        (["SRC", "a.parquet", "--group-size", "5"], 2, "group_size is only for ArrayRecord"),
        (["SRC", "a.parquet", "--compression", "zip"], 2, "compression of Parquet must be one of"),
        (["SRC", "a.parquet", "--shard-bytes", "5MB"], 2, "shard_bytes requires a directory"),
        (["SRC", "a.parquet", "--filter", "id ="], 2, "Invalid value for '--filter'"),
        (["nowhere", "a.parquet"], 1, "No file at `nowhere`"),
        (["empty", "a.parquet"], 1, "there are no files"),
        (["a.parquet"], 2, "SRC and DST are required, and there is only 'a.parquet'"),
        ([], 2, "Missing argument 'SRC... DST'"),
    ],
)
def test_bad_usage_is_told(
    source: Path, tmp_path: Path, monkeypatch, arguments, code: int, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    result = shardmill(
        "convert", *[str(source) if argument == "SRC" else argument for argument in arguments]
    )
    assert result.returncode == code
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
    assert names(tmp_path) == ["empty"]


def test_damaged_source_leaves_nothing(source: Path, tmp_path: Path) -> None:
    there = tmp_path / "a.array_record"
    converted(source, there, "--column", "text", "--compression", "none")
    data = bytearray(there.read_bytes())
    data[data.index(b"line 2999 of text") + 3] ^= 1
    there.write_bytes(data)
    result = shardmill("convert", there, tmp_path / "out", "--to", "parquet")
    assert result.returncode == 1
    assert "error: Chunk `2999` of" in result.stderr
    assert not (tmp_path / "out").exists() or names(tmp_path / "out") == []


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGINT])
def test_interrupted_conversion_leaves_no_final_name(tmp_path: Path, kill: signal.Signals) -> None:
    with sm.Writer(tmp_path / "in.array_record", compression="none") as writer:
        writer.write_rows(bytes([number % 256]) * 1_000 for number in range(100_000))
    out = tmp_path / "out"
    command = [
        sys.executable,
        "-m",
        "shardmill",
        "convert",
        str(tmp_path / "in.array_record"),
        str(out),
    ]
    command += ["--to", "arrayrecord", "--compression", "brotli:9", "--shard-bytes", "1MB"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    deadline = time.monotonic() + 120
    while not (out.exists() and names(out)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(kill)
    _, told = process.communicate(timeout=HANGS_S)
    # Who is asked to stop removes what was made; who is killed leaves hidden files.
    assert out.exists() == (kill == signal.SIGKILL)
    assert not out.exists() or all(name.startswith(".shardmill-") for name in names(out))
    if kill == signal.SIGINT:
        assert (process.returncode, told.strip()) == (130, "interrupted")


def test_rows_that_come_back_changed_are_removed(source: Path, tmp_path: Path, monkeypatch) -> None:
    from shardmill.cli import _commands as commands
    from shardmill.cli import _conversion as conversion

    changed = sm.Dataset(source / "a.parquet", columns=["text"])
    monkeypatch.setattr(conversion.Conversion, "written", lambda *_arguments: changed)
    out = tmp_path / "a.array_record"
    assert commands.run(["convert", str(source), str(out), "--column", "text"]) == 1
    assert names(tmp_path) == []


def test_file_that_replaced_its_source_is_kept_if_the_comparison_is_interrupted(
    source: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    from shardmill.cli import _commands as commands
    from shardmill.cli import _conversion as conversion

    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    out = tmp_path / "a.array_record"
    converted(source, out, "--column", "text")
    monkeypatch.setattr(conversion.Conversion, "written", interrupted)
    with pytest.raises(KeyboardInterrupt):
        commands.run(
            ["convert", str(out), str(out), "--mode", "overwrite", "--compression", "none"]
        )
    assert "replaced its source and is kept" in capsys.readouterr().err
    assert [row["record"].decode() for row in sm.Dataset(out)] == TEXTS


def test_missing_pyarrow_is_told(source: Path, tmp_path: Path) -> None:
    code = "import sys; sys.modules['pyarrow'] = None; from shardmill.cli import main; main()"
    command = [sys.executable, "-c", code, "convert", str(source), str(tmp_path / "a.parquet")]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=HANGS_S, env=ENVIRONMENT, check=False
    )
    assert (result.returncode, names(tmp_path)) == (1, [])
    assert (
        result.stderr == "error: convert requires pyarrow\nhint: pip install 'shardmill[arrow]'\n"
    )


@pytest.mark.parametrize("target", ["jsonl", "tar"])
def test_rows_go_to_text_and_archives_and_back(source: Path, tmp_path: Path, target: str) -> None:
    there, back = tmp_path / f"there.{target}", tmp_path / "back.parquet"
    converted(source, there, "--columns", "id,text")
    converted(there, back, "--columns", "id,text")
    table = pq.read_table(back)
    rows = table.to_pylist()
    text = [row["text"].decode() if isinstance(row["text"], bytes) else row["text"] for row in rows]
    assert text == TEXTS
    assert [int(row["id"]) for row in rows] == list(range(3_000))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["out.jsonl"], "column 'raw' is binary, and JSON has no such values"),
        (
            ["out", "--to", "mds", "--columns", "text,holes"],
            "column 'holes' has 300 nulls, and MDS has none",
        ),
    ],
)
def test_what_a_format_cannot_hold_is_refused_before_anything_is_written(
    source: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    result = shardmill("convert", source, tmp_path / arguments[0], *arguments[1:])
    assert result.returncode == 1
    assert message in result.stderr
    assert "hint: " in result.stderr
    assert names(tmp_path) == []


def test_encodings_of_mds_are_named_with_the_columns(tmp_path: Path) -> None:
    boxes = [[1.5, 2.0], [], [0.25]] * 5
    table = pa.table(
        {
            "boxes": boxes,
            "grid": [[[1, 2, 3], [4, 5, 6]]] * 15,
            "text": ["a"] * 15,
            "day": range(15),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    refused = shardmill("convert", tmp_path / "a.parquet", tmp_path / "out", "--to", "mds")
    assert refused.returncode != 0 and "json for lists that may be empty" in refused.stderr
    assert not (tmp_path / "out").exists()
    columns = "text,boxes=json,grid=ndarray:int32:2,3,day=int16"
    told = converted(tmp_path / "a.parquet", tmp_path / "out", "--to", "mds", "--columns", columns)
    assert "column 'boxes' is written as JSON, and only the number of rows is compared" in told
    (shard,) = json.loads((tmp_path / "out" / "index.json").read_text())["shards"]
    encodings = dict(zip(shard["column_names"], shard["column_encodings"], strict=True))
    assert encodings == {
        "boxes": "json",
        "day": "int16",
        "grid": "ndarray:int32:2,3",
        "text": "str",
    }
    rows = list(sm.Dataset(tmp_path / "out"))
    assert [row["boxes"] for row in rows] == boxes and [row["day"] for row in rows] == list(
        range(15)
    )


@pytest.mark.parametrize(
    ("columns", "to", "message"),
    [
        ("text=nonsense", "mds", "the encoding does not exist"),
        ("text=", "mds", "neither a name nor NAME=TYPE"),
        ("text=str", "parquet", "are for --to mds"),
    ],
)
def test_encodings_that_mean_nothing_are_refused(
    tmp_path: Path, columns: str, to: str, message: str
) -> None:
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "a.parquet")
    result = shardmill(
        "convert", tmp_path / "a.parquet", tmp_path / "out", "--to", to, "--columns", columns
    )
    assert result.returncode != 0 and message in result.stderr
    assert not (tmp_path / "out").exists()


def test_types_that_samples_lose_are_told(tmp_path: Path) -> None:
    table = pa.table(
        {
            "caption": ["a"],
            "label": [1],
            "txt": ["b"],
            "cls": [2],
            "jpg": [b"\xff"],
            "id": ["7"],
            "meta.json": [{"x": 1}],
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    told = converted(tmp_path / "a.parquet", tmp_path / "out.tar")
    assert (
        "note: 'caption' (string), 'label' (int64) will be read as bytes: "
        "the name of a column is the extension" in told
    )
    assert "note: 'id' (string) will be read as integers: " in told
    assert "'txt'" not in told and "'cls'" not in told and "'jpg'" not in told
    typed = converted(tmp_path / "a.parquet", tmp_path / "typed.tar", "--columns", "txt,cls,jpg")
    assert "will be read as" not in typed


@pytest.mark.parametrize("dst", ["in", "."])
def test_output_that_contains_the_input_is_refused_and_the_input_stays(
    tmp_path: Path, dst: str
) -> None:
    with sm.Writer(tmp_path / "in" / "a.parquet") as writer:
        writer.write_rows([{"x": number} for number in range(10)])
    before = (tmp_path / "in" / "a.parquet").read_bytes()
    refused = shardmill(
        "convert",
        tmp_path / "in",
        tmp_path / dst,
        "--to",
        "parquet",
        "--mode",
        "overwrite",
        "--columns",
        "x",
    )
    assert refused.returncode == 2 and "contains the input" in refused.stderr
    assert (tmp_path / "in" / "a.parquet").read_bytes() == before


@pytest.mark.parametrize("encoding", ["bytes", "uint8"])
@pytest.mark.parametrize("column", ["number", "day", "list", "flag", "text"])
def test_encoding_that_does_not_fit_is_refused_by_column_and_type(
    tmp_path: Path, column: str, encoding: str
) -> None:
    day = pa.array([18_262], pa.date32())
    table = pa.table({"number": [0.5], "day": day, "list": [[0.5]], "flag": [True], "text": ["a"]})
    pq.write_table(table, tmp_path / "a.parquet")
    columns = ("--to", "mds", "--columns", f"{column}={encoding}")
    if (column, encoding) == ("flag", "uint8"):
        converted(tmp_path / "a.parquet", tmp_path / "out", *columns)
        return
    result = shardmill("convert", tmp_path / "a.parquet", tmp_path / "out", *columns)
    assert result.returncode == 1
    assert result.stderr.startswith(f"error: Column `{column}` of type ")
    assert f"cannot be written with the MDS encoding `{encoding}`\nhint: " in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("sources", "dst", "is_refused"),
    [
        (["in"], "in/all.jsonl", True),
        (["in"], "in/sub/all.parquet", True),
        (["."], "in/all.jsonl", True),
        (["in/*.jsonl"], "in/all.jsonl", True),
        (["in/a.jsonl", "in/b.jsonl"], "in/all.jsonl", False),
        (["in/*.jsonl"], "in/all.parquet", False),
        (["in"], "inside.jsonl", False),
    ],
)
def test_output_that_the_next_run_would_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sources: list[str], dst: str, is_refused: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        (tmp_path / "in" / f"{name}.jsonl").write_text('{"x": 1}\n')
    result = shardmill("convert", *sources, dst)
    assert (result.returncode, Path(dst).exists()) == ((2, False) if is_refused else (0, True)), (
        result.stderr
    )
    if is_refused:
        assert (
            "is inside the input" in result.stderr
            and "hint: use a separate directory" in result.stderr
        )
        assert names(tmp_path / "in") == ["a.jsonl", "b.jsonl"]


def test_partitions_become_columns_and_may_be_filtered(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with sm.Writer(tmp_path / "in" / f"part={name}" / "x.parquet") as writer:
            writer.write_rows([{"x": name * 2}])
    options = ("--to", "mds", "--hive", "--filter", "part = 'b'")
    told = converted(tmp_path / "in", tmp_path / "out", *options)
    assert told.startswith("1 row of 1 parquet file ")
    assert list(sm.Dataset(tmp_path / "out")) == [{"part": "b", "x": "bb"}]


def test_directory_of_one_file_is_replaced_by_it(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text('{"x": 1}\n')
    converted(tmp_path / "in", tmp_path / "in" / "a.jsonl", "--mode", "overwrite")
    assert list(sm.Dataset(tmp_path / "in")) == [{"x": 1}]


def test_bar_counts_a_row_once_although_it_is_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    pq.write_table(pa.table({"text": TEXTS}), tmp_path / "a.parquet")
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr("shardmill._progress._PATIENCE_S", 0.0)
    assert run(["convert", str(tmp_path / "a.parquet"), str(tmp_path / "b.jsonl")]) == 0
    bars = [
        line for line in terminal.getvalue().replace("\r", "\n").splitlines() if "batches" in line
    ]
    assert "3/6 batches  3,000 rows" in bars[2]
    assert "6/6 batches  3,000 rows" in bars[-1]


@pytest.mark.parametrize("out", ["out.parquet", "out.jsonl", "out.tar", "mds/"])
def test_renamed_columns_are_written_and_compared(tmp_path: Path, out: str) -> None:
    rows = pa.table({"a=b": ["x", "y"], "n": [1, 2], "txt": ["p", "q"]})
    pq.write_table(
        rows.cast(pa.schema([field.with_nullable(False) for field in rows.schema])),
        tmp_path / "in.parquet",
    )
    # All at once: "txt" is the old name of one column and the new name of another.
    renames = [part for name in ("a=b=txt", "n=cls", "txt=text") for part in ("--rename", name)]
    to = ["--to", "mds"] if out == "mds/" else []
    assert (
        run(
            [
                "convert",
                str(tmp_path / "in.parquet"),
                str(tmp_path / out),
                "--filter",
                "n > 1",
                *to,
                *renames,
            ]
        )
        == 0
    )
    (row,) = sm.Dataset(str(tmp_path / out))
    assert {"txt": "y", "cls": 2}.items() <= row.items()
    assert row["text"] in ("q", b"q")


def test_mds_encodings_follow_a_renamed_column(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": pa.array([300], pa.int64())}), tmp_path / "in.parquet")
    options = ["--to", "mds", "--columns", "n=int32", "--rename", "n=label"]
    pq.write_table(
        pq.read_table(tmp_path / "in.parquet").cast(pa.schema([("n", pa.int64(), False)])),
        tmp_path / "in.parquet",
    )
    assert run(["convert", str(tmp_path / "in.parquet"), str(tmp_path / "out"), *options]) == 0
    index = json.loads((tmp_path / "out" / "index.json").read_text())
    assert (index["shards"][0]["column_names"], index["shards"][0]["column_encodings"]) == (
        ["label"],
        ["int32"],
    )


def test_renames_that_cannot_be_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(pa.table({"a": [1], "b": [2]}), tmp_path / "in.parquet")
    cases = {
        ("a",): "'a' is not OLD=NEW",
        ("c=d",): "column 'c'; the columns are a, b",
        ("a=",): "gives no new name",
        ("a=b",): "two columns are called 'b'",
        ("a=c", "b=c"): "two columns are called 'c'",
        ("a=c", "a=d"): "column 'a' twice",
    }
    failures = []
    for renames, told in cases.items():
        given = [part for name in renames for part in ("--rename", name)]
        code = run(["convert", str(tmp_path / "in.parquet"), str(tmp_path / "out.parquet"), *given])
        shown = capsys.readouterr().err
        if code not in (1, 2) or told not in shown or (tmp_path / "out.parquet").exists():
            failures.append((renames, code, shown))
    assert not failures
