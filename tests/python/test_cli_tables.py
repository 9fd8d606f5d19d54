"""`head` and `explain` as a user runs them; what `explain` says is what loaders deliver."""

import datetime
import decimal
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from command import shardmill
from flat_options import flat_loader

ROWS = 1_000


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tables") / "data"
    directory.mkdir()
    for number in range(4):
        ids = np.arange(250) + number * 250
        table = pa.table(
            {
                "row_id": ids,
                "label": ids % 10,
                "text": [None if row % 7 == 3 else f"line {row}\n\x1b[31mof text" for row in ids],
            }
        )
        pq.write_table(table, directory / f"part-{number}.parquet", row_group_size=50)
    return directory


@pytest.mark.parametrize("command", ["head", "explain"])
def test_help_shows_an_example(command: str) -> None:
    result = shardmill(command, "--help")
    assert (result.returncode, result.stderr) == (0, "")
    assert f"\n    shardmill {command} " in result.stdout.split("Example:")[1]


def test_head_prints_a_table_and_talks_on_stderr(data: Path) -> None:
    result = shardmill("head", data, "--rows", 4)
    assert result.returncode == 0
    assert result.stderr == "4 of 1,000 rows in 4 parquet files\n"
    header, types, *rows = result.stdout.splitlines()
    assert header.split() == ["row_id", "label", "text"]
    assert types.split() == ["int64", "int64", "string"]
    assert rows[0].split(maxsplit=3) == ["0", "0", "0", r"line 0\n\u001b[31mof text"]
    assert rows[3].split() == ["3", "3", "3", "null"]
    assert len(rows) == 4


def test_head_wraps_a_table_that_is_wider_than_the_terminal(data: Path) -> None:
    lines = shardmill("head", data, "--rows", 2, columns=24).stdout.splitlines()
    assert max(map(len, lines)) <= 40
    bands = "\n".join(lines).split("\n\n")
    assert [band.split("\n")[0].split() for band in bands] == [["row_id", "label"], ["text"]]
    assert [band.split("\n")[-1].split()[0] for band in bands] == ["1", "1"]


def test_head_takes_columns_filter_and_format(data: Path, tmp_path: Path) -> None:
    options = [
        "--columns",
        "text,row_id",
        "--filter",
        "label = 3 and text is not null",
        "--rows",
        2,
        "--json",
    ]
    result = shardmill("head", data, *options)
    assert [json.loads(line)["row_id"] for line in result.stdout.splitlines()] == [13, 23]
    assert list(json.loads(result.stdout.splitlines()[0])) == ["text", "row_id"]
    pyarrow.csv.write_csv(pa.table({"x": [1, 2]}), tmp_path / "table")
    named = shardmill("head", tmp_path / "table", "--format", "csv", "--json")
    assert named.stdout == '{"x": 1}\n{"x": 2}\n'


def test_json_of_head_holds_every_type(tmp_path: Path) -> None:
    row = {
        "float": float("nan"),
        "raw": b"\x00\xff",
        "when": datetime.datetime(2024, 5, 6, 7, 8),
        "price": decimal.Decimal("1.50"),
        "list": [{"a": 1, "b": None}],
        "nothing": None,
    }
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "row.parquet")
    (line,) = shardmill("head", tmp_path, "--json").stdout.splitlines()
    assert json.loads(line, parse_constant=pytest.fail) == {
        "float": None,
        "raw": "AP8=",
        "when": "2024-05-06T07:08:00",
        "price": "1.50",
        "list": [{"a": 1, "b": None}],
        "nothing": None,
    }
    assert "<2 bytes: 00ff>" in shardmill("head", tmp_path).stdout


def test_head_shows_nanoseconds_with_nine_digits(tmp_path: Path) -> None:
    ticks = pa.array([10**9 + 1, 10**9, None])
    columns = {
        "row": [0, 1, 2],
        "moment": ticks.view(pa.timestamp("ns")),
        "zoned": ticks.view(pa.timestamp("ns", "Asia/Tokyo")),
        "time": ticks.view(pa.time64("ns")),
        "length": ticks.view(pa.duration("ns")),
        "list": pa.array([[{"at": 1}], [], None], pa.list_(pa.struct({"at": pa.timestamp("ns")}))),
    }
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    first, second, third = (
        json.loads(line) for line in shardmill("head", tmp_path, "--json").stdout.splitlines()
    )
    assert first == {
        "row": 0,
        "moment": "1970-01-01T00:00:01.000000001",
        "zoned": "1970-01-01T09:00:01.000000001+09:00",
        "time": "00:00:01.000000001",
        "length": "0:00:01.000000001",
        "list": [{"at": "1970-01-01T00:00:00.000000001"}],
    }
    whole = {
        "moment": "1970-01-01T00:00:01",
        "zoned": "1970-01-01T09:00:01+09:00",
        "time": "00:00:01",
    }
    assert second == {"row": 1, **whole, "length": "0:00:01", "list": []}
    assert third == {"row": 2} | dict.fromkeys(("moment", "zoned", "time", "length", "list"))
    assert (
        "1970-01-01 00:00:01.000000001" in shardmill("head", tmp_path, "--columns", "moment").stdout
    )
    nothing = shardmill("head", tmp_path, "--rows", 0, "--columns", "moment")
    assert nothing.stdout.split() == ["moment", "timestamp[ns]"]


def test_head_shows_years_that_the_datetime_of_python_lacks(tmp_path: Path) -> None:
    path = tmp_path / "years.parquet"
    moments = pa.array([568_990_000_000_000_001, None], pa.timestamp("us"))
    pq.write_table(
        pa.table({"moment": moments, "day": pa.array([6_600_000, 0], pa.date32()), "id": [1, 2]}),
        path,
    )
    table = shardmill("head", path)
    assert table.stdout.splitlines()[2].split() == [
        "0",
        "20000-07-29",
        "09:46:40.000001",
        "20040-03-09",
        "1",
    ]
    rows = [json.loads(line) for line in shardmill("head", path, "--json").stdout.splitlines()]
    assert rows == [
        {"moment": "20000-07-29T09:46:40.000001", "day": "20040-03-09", "id": 1},
        {"moment": None, "day": "1970-01-01", "id": 2},
    ]


def test_head_of_nothing_says_so(data: Path, tmp_path: Path) -> None:
    empty = shardmill("head", tmp_path)
    assert (empty.returncode, empty.stdout) == (0, "")
    assert empty.stderr == f"warning: no data files in {tmp_path}\nno rows in 0 files\n"
    none = shardmill("head", data, "--filter", "label > 10", "--columns", "label")
    assert none.stdout.split() == ["label", "int64"]
    assert none.stderr.startswith("no rows in 4 parquet files")


@pytest.mark.parametrize("name", ["empty.jsonl", "empty.csv"])
def test_head_of_an_empty_file_prints_nothing_on_stdout(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("")
    result = shardmill("head", tmp_path / name)
    assert (result.returncode, result.stdout) == (0, "")
    assert result.stderr == f"no rows in 1 {name[6:]} file\n"


def test_one_row_and_one_file_are_singular(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"x": 1}\n')
    assert shardmill("head", tmp_path).stderr == "1 of 1 row in 1 jsonl file\n"
    assert shardmill("explain", tmp_path).stdout.startswith(
        "Epoch 0, step 0 of 1, rank 0 of 1: 1 row\n"
    )


def test_character_that_the_encoding_lacks_is_escaped(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"x": "é…\U0001f600"}) + "\n")

    def head(encoding: str) -> str:
        command = [sys.executable, "-m", "shardmill", "head", str(tmp_path), "--json"]
        environment = os.environ | {"PYTHONIOENCODING": encoding}
        return subprocess.run(
            command, capture_output=True, text=True, env=environment, check=True
        ).stdout

    assert head("ascii") == '{"x": "\\u00e9\\u2026\\ud83d\\ude00"}\n'
    assert head("ascii:replace") == '{"x": "???"}\n'


def test_hint_for_mixed_formats_names_an_option_that_reads_one_of_them(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text('{"x": 1}\n')
    (tmp_path / "in" / "b.jsonl").write_text('{"x": 2}\n')
    (tmp_path / "in" / "c.csv").write_text("x\n3\n")
    for command in (
        ["head", tmp_path / "in"],
        ["convert", tmp_path / "in", tmp_path / "out.parquet"],
    ):
        refused = shardmill(*command)
        assert refused.returncode == 1
        assert "hint: --format jsonl reads these files only" in refused.stderr
        assert shardmill(*command, "--format", "jsonl").returncode == 0
    assert pq.read_table(tmp_path / "out.parquet").to_pydict() == {"x": [1, 2]}


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["nowhere"], 1, "error: No file at `nowhere`"),
        (["DATA", "--columns", "nome"], 1, "error: No column `nome`"),
        (["DATA", "--filter", "label = 'x'"], 1, "error: Column `label` is int64"),
        (["DATA", "--filter", "label ="], 2, "Error: Invalid value for '--filter'"),
        (["DATA", "--rows", "-1"], 2, "Error: Invalid value for '--rows'"),
        (["DATA", "--format", "xml"], 2, "Error: Invalid value for '--format'"),
        ([], 2, "Error: Missing argument 'PATH...'"),
    ],
)
def test_head_refuses_with_one_line(
    data: Path, options: list[str], code: int, message: str
) -> None:
    result = shardmill("head", *[str(data) if option == "DATA" else option for option in options])
    assert (result.returncode, result.stdout) == (code, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr


TOPOLOGIES = [(1, 64, None), (2, 32, None), (4, 16, 4), (3, 50, 2), (2, 333, 1)]


@pytest.mark.parametrize(("ranks", "batch_size", "lanes"), TOPOLOGIES)
@pytest.mark.parametrize("tail", ["uneven", "drop", "pad"])
@pytest.mark.parametrize(
    "order", [{}, {"shuffle": True, "seed": 5, "shuffle_window_bytes": 20_000}]
)
def test_explained_rows_are_those_that_are_delivered(
    data: Path, ranks, batch_size, lanes, tail, order
) -> None:
    first = {f"part-{number}.parquet": number * 250 for number in range(4)}
    settings = {
        "batch_size": batch_size,
        "lanes": lanes,
        "world_size": ranks,
        "tail": tail,
        "output": "numpy",
        **order,
    }
    for rank in range(ranks):
        loader = flat_loader(data, columns=["row_id"], rank=rank, **settings)
        batches = [batch["row_id"].tolist() for batch in loader]
        for step, rows in enumerate(batches):
            plan = loader.explain(step=step, epoch=0)
            said = [
                first[file] + start + row
                for file, start, count in plan["rows"]
                for row in range(count)
            ]
            assert said == rows
            assert sum(count for *_, count in plan["lanes"]) == len(rows) - plan["repeats"]
        assert loader.explain(epoch=0)["ranks"][rank]["batches"] == len(batches)
        assert loader.explain(step=len(batches) + 1, epoch=0)["rows"] is None


def test_explain_tells_the_rows_of_another_topology(data: Path) -> None:
    loader = sm.Loader(
        data, columns=["row_id"], batch_size=64, lanes=4, rank=0, world_size=1, output="arrow"
    )
    whole = loader.explain(step=2)
    parts = [
        loader.explain(step=2, rank=rank, world_size=4, batch_size=16)["rows"] for rank in range(4)
    ]
    assert [run for part in parts for run in part] == whole["rows"]
    assert (whole["tail"], loader.explain(world_size=2)["tail"]) == ("uneven", "pad")


def test_a_rank_with_lanes_of_its_own_decodes_its_share(data: Path) -> None:
    local = sm.Loader(data, batch_size=16, rank=0, world_size=4, output="arrow").explain()
    assert local["decode_amplification"] == 1.0
    assert [rank["blocks"] for rank in local["ranks"]] == [5, 5, 5, 5]
    one_lane = sm.Loader(
        data, batch_size=16, rank=0, world_size=4, lanes=1, output="arrow"
    ).explain()
    assert one_lane["decode_amplification"] == 4.0


def test_mixing_distance_is_that_of_a_random_order(data: Path) -> None:
    settings = {
        "batch_size": ROWS,
        "columns": ["row_id"],
        "output": "numpy",
        "rank": 0,
        "world_size": 1,
    }
    loader = flat_loader(data, shuffle=True, **settings)
    plan = loader.explain()
    (order,) = [batch["row_id"] for batch in loader]
    assert plan["windows"] == 1
    # Blocks are in a random order as well, which changes nothing where all of them are one window.
    assert abs(np.abs(order - np.arange(ROWS)).mean() - plan["mixing_distance"]) < ROWS / 20
    assert flat_loader(data, **settings).explain()["mixing_distance"] == 0


def test_explain_prints_rows_reasons_and_costs(data: Path) -> None:
    result = shardmill(
        "explain", data, "--step", 3, "--rank", 1, "--world-size", 2, "--batch-size", 96
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines()[0] == "Epoch 0, step 3 of 6, rank 1 of 2: 96 rows"
    for part in (
        "1,000 rows in 20 blocks of 4 files",
        "2 lanes of equal length",
        "places 576 to 767",
        "pad: the last step",
    ):
        assert part in result.stdout
    rows = [line.split() for line in result.stdout.split("\n\n")[1].splitlines()]
    assert rows == [["file", "first", "row", "rows"], ["part-3.parquet", "38", "96"]]


def test_explain_writes_json(data: Path) -> None:
    options = [
        "--shuffle",
        "--seed",
        7,
        "--window",
        "20KB",
        "--epoch",
        2,
        "--filter",
        "label < 5",
        "--columns",
        "row_id",
    ]
    result = shardmill("explain", data, "--batch-size", 64, *options, "--json")
    plan = json.loads(result.stdout)
    filtered = sm.Dataset(data, filter=sm.col("label") < 5)
    settings = {
        "shuffle": True,
        "seed": 7,
        "shuffle_window_bytes": 20_000,
        "rank": 0,
        "world_size": 1,
    }
    loader = flat_loader(filtered, batch_size=64, columns=["row_id"], output="numpy", **settings)
    loader.set_epoch(2)
    rows = next(iter(loader))["row_id"].tolist()
    assert [
        int(file[5]) * 250 + start + row
        for file, start, count in plan["rows"]
        for row in range(count)
    ] == rows
    assert (plan["rows_of_epoch"], plan["filter"], plan["epoch"]) == (500, "(col('label') < 5)", 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--step", "11", "--batch-size", "100"],
            "step 11 does not exist: the epoch has 10 steps of 100 rows a rank\n"
            "hint: the last one is --step 9",
        ),
        (["--step", "11", "--batch-size", "100", "--json"], "step 11 does not exist"),
        (["--filter", "label > 10"], "the filter selects no row\nhint: change --filter"),
        (
            ["--tail", "drop"],
            "and the data has 1,000 rows\nhint: lower --batch-size, or pass --tail uneven or pad",
        ),
        (["--rank", "2", "--world-size", "2"], "--rank must be below --world-size"),
        (["--window", "1MB"], "--window requires --shuffle"),
        (["--tail", "short"], "Invalid value for '--tail'"),
    ],
)
def test_explain_refuses_with_one_line(data: Path, options: list[str], message: str) -> None:
    result = shardmill("explain", data, *options)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr


def test_explain_of_data_without_rows_says_so(tmp_path: Path) -> None:
    missing = shardmill("explain", tmp_path)
    assert (missing.returncode, missing.stdout) == (1, "")
    assert missing.stderr.endswith(f"error: there are no data files at {tmp_path}\n")
    (tmp_path / "a.jsonl").write_text("")
    empty = shardmill("explain", tmp_path)
    assert (empty.returncode, empty.stdout) == (2, "")
    assert empty.stderr.endswith("Error: the files have no rows\n")


def test_window_of_no_bytes_shuffles_within_row_groups(data: Path) -> None:
    result = shardmill("explain", data, "--shuffle", "--window", "0", "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["window_limit"] == 0
    assert "--window requires --shuffle" in shardmill("explain", data, "--window", "0").stderr


def without_arrow(*arguments: object) -> subprocess.CompletedProcess[str]:
    blocked = "import sys; sys.modules.update(pyarrow=None, arro3=None); sys.argv[0] = 'shardmill'"
    program = f"{blocked}; from shardmill.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True
    )


def test_head_without_an_arrow_library_shows_rows_and_types(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"x": 1}\n')
    shown = without_arrow("head", tmp_path / "rows.jsonl")
    assert (shown.returncode, shown.stdout.split()) == (0, ["x", "int64", "0", "1"]), shown.stderr


def test_explain_without_an_arrow_library_shows_rows_of_all_types(tmp_path: Path) -> None:
    row = {
        "list": [{"a": 1}],
        "when": datetime.datetime(2024, 5, 6),
        "price": decimal.Decimal("1.5"),
        "raw": b"x",
        "nothing": None,
    }
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "a.parquet")
    shown = without_arrow("explain", tmp_path)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "1 row in 1 block of 1 file" in shown.stdout


def test_warning_has_its_hint_on_a_line_of_its_own_and_names_stay_escaped(tmp_path: Path) -> None:
    directory = tmp_path / "a\nb\x1b[31m"
    with sm.Writer(directory, format="mds") as writer:
        writer.write({"x": 1})
    (directory / "index.json").unlink()
    told = shardmill("head", directory)
    assert told.returncode == 0
    warning, hint, *_ = told.stderr.splitlines()
    assert warning.startswith("warning: the MDS shards in ") and r"a\nb\u001b[31m" in warning
    assert hint.startswith("hint: `shardmill repair-index ") and r"a\nb\u001b[31m" in hint
