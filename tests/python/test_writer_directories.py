"""Directories of `sm.Writer`: appending, two writers at once, kills, and the indexes of shards."""

import fcntl
import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
import shardmill as sm
from breadth import beginning
from shardmill.write._output import output_of

FORMATS = ["parquet", "jsonl", "webdataset", "mds"]
SHARDS = {
    "parquet": ("part-", ".parquet"),
    "jsonl": ("part-", ".jsonl"),
    "webdataset": ("part-", ".tar"),
    "mds": ("shard.", ".mds"),
}


def names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


def written(directory: Path, format: str, *texts: str, **options) -> sm.Writer:
    # A shard a row.
    limit = 1 if format != "mds" else 260
    with sm.Writer(directory, format=format, shard_bytes=limit, **options) as writer:
        writer.write_rows({"txt": text * 60} for text in texts)
    return writer


def shard_names(format: str, count: int) -> list[str]:
    before, after = SHARDS[format]
    return [f"{before}{number:05}{after}" for number in range(count)]


def listed(directory: Path) -> list[str]:
    return [
        shard["raw_data"]["basename"]
        for shard in json.loads((directory / "index.json").read_text())["shards"]
    ]


@pytest.mark.parametrize("format", FORMATS)
def test_append_adds_shards_behind_those_that_are_there(tmp_path: Path, format: str) -> None:
    written(tmp_path, format, "a", "b")
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.name != "index.json"}
    with pytest.raises(FileExistsError, match="data files already"):
        written(tmp_path, format, "c")
    written(tmp_path, format, "c", mode="append")
    expected = shard_names(format, 3)
    assert [name for name in names(tmp_path) if name != "index.json"] == expected
    assert all(path.read_bytes() == content for path, content in before.items())
    if format == "mds":
        assert listed(tmp_path) == expected


@pytest.mark.parametrize("format", FORMATS)
def test_append_of_no_rows_keeps_the_rows(tmp_path: Path, format: str) -> None:
    written(tmp_path, format, "a", "b")
    with sm.Writer(tmp_path, format=format, mode="append") as writer:
        pass
    assert writer.metrics().rows == 0
    assert [row["txt"] for row in sm.Dataset(tmp_path)] == ["a" * 60, "b" * 60]
    assert writer.files == []
    assert [name for name in names(tmp_path) if name != "index.json"] == shard_names(format, 2)
    written(tmp_path, format, "c", mode="append")
    assert [row["txt"] for row in sm.Dataset(tmp_path)] == ["a" * 60, "b" * 60, "c" * 60]


@pytest.mark.parametrize("format", FORMATS)
def test_two_appending_writers_end_with_shards_of_their_own(tmp_path: Path, format: str) -> None:
    with sm.Writer(tmp_path, format=format, mode="append") as first:
        first.write({"txt": "first"})
        with sm.Writer(tmp_path, format=format, mode="append") as second:
            second.write({"txt": "second"})
    assert [Path(path).name for path in [*second.files, *first.files]] == shard_names(format, 2)
    if format == "mds":
        assert listed(tmp_path) == shard_names(format, 2)


def test_directory_with_the_name_of_a_data_file_is_kept_by_overwrite(tmp_path: Path) -> None:
    (tmp_path / "table.parquet").mkdir()
    written(tmp_path, "jsonl", "a")
    written(tmp_path, "jsonl", "b", mode="overwrite")
    assert names(tmp_path) == [*shard_names("jsonl", 1), "table.parquet"]


@pytest.mark.parametrize("mode", ["error", "overwrite"])
@pytest.mark.parametrize("format", FORMATS)
def test_of_two_writers_that_want_the_directory_the_later_is_refused(
    tmp_path: Path, format: str, mode: str
) -> None:
    if mode == "overwrite":
        written(tmp_path, format, "old")
    late = sm.Writer(tmp_path, format=format, mode=mode)
    late.write({"txt": "late"})
    written(tmp_path, format, "first", mode=mode)
    content = {
        path: path.read_bytes() for path in tmp_path.iterdir() if not path.name.startswith(".")
    }
    with pytest.raises(FileExistsError):
        late.close()
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == content


@pytest.mark.parametrize("format", FORMATS)
def test_overwrite_leaves_the_new_shards_alone(tmp_path: Path, format: str) -> None:
    written(tmp_path, format, "a", "b", "c")
    with (
        pytest.raises(ZeroDivisionError),
        sm.Writer(tmp_path, format=format, mode="overwrite") as writer,
    ):
        writer.write({"txt": "x"})
        raise ZeroDivisionError
    assert [name for name in names(tmp_path) if name != "index.json"] == shard_names(format, 3)
    written(tmp_path, format, "z", mode="overwrite")
    assert [name for name in names(tmp_path) if name != "index.json"] == shard_names(format, 1)
    if format == "mds":
        assert listed(tmp_path) == shard_names(format, 1)


def test_directory_whose_name_is_a_pattern_for_another_is_written_too(tmp_path: Path) -> None:
    for name in ("run1", "run[1]", "run*"):
        written(tmp_path / name, "parquet", name)
        assert names(tmp_path / name) == ["part-00000.parquet"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_child_forked_meanwhile_does_not_keep_the_directory_locked(tmp_path: Path) -> None:
    with output_of(str(tmp_path), is_file=False, mode="append", prefix="part-").locked():
        child = os.fork()
        if child == 0:
            signal.pause()
            os._exit(0)
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(descriptor)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.parametrize("format", FORMATS)
def test_exception_in_the_block_publishes_nothing(tmp_path: Path, format: str) -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        sm.Writer(tmp_path / "out", format=format, shard_bytes=1000) as writer,
    ):
        writer.write_rows({"txt": f"text {number}" * 100} for number in range(3_000))
        raise KeyboardInterrupt
    assert not (tmp_path / "out").exists() or names(tmp_path / "out") == []


KILLED = """
import os, sys, time, shardmill as sm
writer = sm.Writer(sys.argv[1], format=sys.argv[2], shard_bytes=1000)
for number in range(4_000):
    writer.write({"txt": "x" * 500})
writer.write_batch({"txt": ["x" * 500] * 1000})
# Threads make the files.
while not os.listdir(sys.argv[1]):
    time.sleep(0.01)
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("format", beginning(1, list(FORMATS)))
def test_killed_writer_leaves_hidden_files_that_the_next_removes(
    tmp_path: Path, format: str
) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path), format]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert names(tmp_path)
    assert all(name.startswith(".shardmill-") for name in names(tmp_path))
    written(tmp_path, format, "a")
    assert [name for name in names(tmp_path) if name != "index.json"] == shard_names(format, 1)


def test_append_to_mds_wants_the_same_columns_and_an_index(tmp_path: Path) -> None:
    written(tmp_path, "mds", "a")
    before = (tmp_path / "index.json").read_bytes()
    with (
        pytest.raises(ValueError, match="do not fit those that are there"),
        sm.Writer(tmp_path, format="mds", mode="append") as w,
    ):
        w.write({"other": 1})
    assert (tmp_path / "index.json").read_bytes() == before
    assert names(tmp_path) == ["index.json", "shard.00000.mds"]
    (tmp_path / "index.json").unlink()
    with (
        pytest.raises(ValueError, match="has shards and no index"),
        sm.Writer(tmp_path, format="mds", mode="append") as w,
    ):
        w.write({"txt": "x"})
    assert names(tmp_path) == ["shard.00000.mds"]


def test_index_of_chinidataset_lists_parquet_shards(tmp_path: Path) -> None:
    columns = {"text": "str", "ids": "uint32[]", "label": "int64"}
    options = {"format": "parquet", "index": "chinidataset", "columns": columns, "hashes": ["sha1"]}
    for first in (0, 3):
        with sm.Writer(tmp_path, shard_bytes=1, mode="append", **options) as writer:
            writer.write_batch(
                {"text": ["a", "b", "c"], "ids": [[1], [], [2, 3]], "label": [first, 1, 2]}
            )
    text = (tmp_path / "index.json").read_text()
    index = json.loads(text)
    assert text == json.dumps(index, sort_keys=True, indent=2)
    assert listed(tmp_path) == [f"shard.{number:05}.parquet" for number in range(6)]
    shard = index["shards"][0]
    assert shard["column_names"] == list(columns)
    assert shard["column_encodings"] == ["str", "ndarray:uint32", "int64"]
    assert shard["column_sizes"] == [None, None, None]
    assert (shard["format"], shard["samples"], shard["version"], shard["zip_data"]) == (
        "parquet",
        1,
        2,
        None,
    )
    assert shard["raw_data"]["bytes"] == (tmp_path / "shard.00000.parquet").stat().st_size
    digest = hashlib.sha1((tmp_path / "shard.00000.parquet").read_bytes()).hexdigest()
    assert shard["raw_data"]["hashes"] == {"sha1": digest}
    assert [
        row["label"] for row in sm.Dataset([*map(str, sorted(tmp_path.glob("*.parquet")))])
    ] == [0, 1, 2, 3, 1, 2]
    with (
        pytest.raises(ValueError, match="has an index, which would not list"),
        sm.Writer(tmp_path, format="parquet", mode="append") as w,
    ):
        w.write({"text": "x"})


def test_digest_of_a_large_shard_is_that_of_the_whole_file(tmp_path: Path) -> None:
    options = {"index": "chinidataset", "hashes": ["sha256", "md5"], "compression": "none"}
    with sm.Writer(tmp_path, format="parquet", **options) as writer:
        writer.write({"x": bytes(17 << 20)})
    (shard,) = json.loads((tmp_path / "index.json").read_text())["shards"]
    content = Path(writer.files[0]).read_bytes()
    expected = {name: hashlib.new(name, content).hexdigest() for name in ("sha256", "md5")}
    assert shard["raw_data"]["hashes"] == expected


DESCRIPTIONS = ["config.json", "dataset_info.json", "tokenizer.json", "README.md"]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("mode", ["error", "overwrite", "append"])
def test_files_that_describe_the_data_are_ignored_and_kept(
    tmp_path: Path, format: str, mode: str
) -> None:
    for name in DESCRIPTIONS:
        (tmp_path / name).write_text("{}")
    written(tmp_path, format, "a", mode=mode)
    assert [name for name in names(tmp_path) if name != "index.json"] == sorted(
        [*DESCRIPTIONS, *shard_names(format, 1)]
    )
    assert all((tmp_path / name).read_text() == "{}" for name in DESCRIPTIONS)


def test_index_is_a_data_file_that_is_refused_and_replaced(tmp_path: Path) -> None:
    with sm.Writer(tmp_path, format="mds", columns={"txt": "str"}):
        pass
    assert names(tmp_path) == ["index.json"]
    with pytest.raises(FileExistsError, match="1 data file already, such as 'index.json'"):
        sm.Writer(tmp_path)
    written(tmp_path, "parquet", "a", mode="overwrite")
    assert names(tmp_path) == ["part-00000.parquet"]


APPENDED = ["parquet", "jsonl", "webdataset"]


def appended(directory: Path, format: str, *rows: dict) -> None:
    with sm.Writer(directory, format=format, mode="append") as writer:
        writer.write_rows(rows)


@pytest.mark.parametrize("format", APPENDED)
@pytest.mark.parametrize("whole", [False, True], ids=["rows", "batch"])
def test_rows_of_other_columns_are_not_appended(tmp_path: Path, format: str, whole: bool) -> None:
    appended(tmp_path, format, {"txt": "a", "cls": 1})
    before = names(tmp_path)
    message = (
        r"do not fit the shards in '.*': the new rows do not have the column `cls`, "
        r"and the existing rows do not have the column `id`\nhint: "
    )
    with (
        pytest.raises(sm.PlanError, match=message),
        sm.Writer(tmp_path, format=format, mode="append") as writer,
    ):
        if whole:
            writer.write_batch({"txt": ["b"], "id": [1]})
        else:
            writer.write({"txt": "b", "id": 1})
    assert names(tmp_path) == before
    appended(tmp_path, format, {"cls": 2, "txt": "b"})
    assert [row["cls"] for row in sm.Dataset(tmp_path)] == [1, 2]


@pytest.mark.parametrize("format", APPENDED)
def test_rows_are_compared_with_the_last_shard_that_has_rows(tmp_path: Path, format: str) -> None:
    appended(tmp_path, format, {"txt": "a", "cls": 1})
    before = names(tmp_path)
    appended(tmp_path, format)
    assert names(tmp_path) == before
    # A shard without rows, as an earlier version wrote it.
    prefix, extension = SHARDS[format]
    schema = pa.schema([("txt", pa.string()), ("cls", pa.int64())]) if format == "parquet" else None
    empty = tmp_path / f"{prefix}00001{extension}"
    with sm.Writer(empty, schema=schema):
        pass
    with pytest.raises(sm.PlanError, match="the existing rows do not have the column `id`"):
        appended(tmp_path, format, {"txt": "b", "id": 1})
    appended(tmp_path, format, {"txt": "b", "cls": 2})
    assert [row["cls"] for row in sm.Dataset(tmp_path)] == [1, 2]


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_column_of_another_type_is_not_appended(tmp_path: Path, format: str) -> None:
    appended(tmp_path, format, {"x": 1})
    with pytest.raises(
        sm.PlanError,
        match="the column `x` is int64 in the existing rows and string in the new ones",
    ):
        appended(tmp_path, format, {"x": "one"})
    with sm.Writer(
        tmp_path, format=format, mode="append", schema=pa.schema([("x", pa.int8())])
    ) as writer:
        writer.write({"x": 2})
    assert [row["x"] for row in sm.Dataset(tmp_path)] == [1, 2]


def test_sample_without_a_member_is_appended_to_samples_that_have_it(tmp_path: Path) -> None:
    appended(tmp_path, "webdataset", {"txt": "a", "cls": 1}, {"txt": "b", "cls": None})
    appended(tmp_path, "webdataset", {"txt": "c"})
    # The last shard has no cls, the one before has.
    appended(tmp_path, "webdataset", {"txt": "d", "cls": 4})
    assert [row["cls"] for row in sm.Dataset(tmp_path)] == [1, None, None, 4]


@pytest.mark.parametrize("format", FORMATS)
def test_directories_that_were_made_for_nothing_are_removed(tmp_path: Path, format: str) -> None:
    with pytest.raises(RuntimeError), sm.Writer(tmp_path / "a" / "b", format=format) as writer:
        writer.write_batch({"txt": ["a" * 1_000] * 10_000})
        raise RuntimeError
    assert names(tmp_path) == []
    (tmp_path / "mine").mkdir()
    with pytest.raises(RuntimeError), sm.Writer(tmp_path / "mine", format=format) as writer:
        writer.write_batch({"txt": ["a"]})
        raise RuntimeError
    assert names(tmp_path) == ["mine"]
    with pytest.raises(RuntimeError), sm.Writer(tmp_path / "new", format=format) as writer:
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / "notes.txt").write_text("a foreign file")
        raise RuntimeError
    assert names(tmp_path / "new") == ["notes.txt"]
