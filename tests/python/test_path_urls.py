"""File URLs mean the local path everywhere, and what looks like another URL is not a local name."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import in_one
from command import shardmill
from shardmill.arrayrecord import ArrayRecordDataSource, ArrayRecordReader, ArrayRecordWriter
from shardmill.curate import ParquetSink, Pipeline, TableSource, inspect, verify
from shardmill.resume import Checkpoint, IdIndex

FORMS: list[Callable[[Path], Any]] = [
    lambda path: f"file:{path}",
    lambda path: f"file://{path}",
    lambda path: f"file://localhost{path}",
    lambda path: f"FILE:///{str(path)[1:]}",
    lambda path: f"file://{quote(str(path))}",
    Path.as_uri,
    lambda path: Path(f"file://{path}"),
]


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with a space in its name; nothing may appear beside it."""
    directory = tmp_path / "a b é"
    (directory / "in").mkdir(parents=True)
    pq.write_table(pa.table({"id": ["a", "b", "c"]}), directory / "in/rows.parquet")
    working = tmp_path / "working"
    working.mkdir()
    monkeypatch.chdir(working)
    monkeypatch.delenv("SHARDMILL_CACHE_DIR", raising=False)
    yield directory
    assert os.listdir(working) == []


@pytest.mark.parametrize("form", FORMS)
def test_data_is_read_and_written_by_any_form(directory: Path, form: Callable[[Path], Any]) -> None:
    url = form
    assert len(sm.Dataset(url(directory / "in"))) == 3
    assert len(sm.Dataset(str(url(directory / "in")) + "/*.parquet")) == 3
    assert len(sm.Loader(url(directory / "in"), batch_size=1)) == 3
    with sm.Writer(url(directory / "w"), format="mds", columns={"x": "int"}) as writer:
        writer.write({"x": 1})
    assert (directory / "w/index.json").exists()
    assert len(sm.Dataset(url(directory / "w"))) == 1
    (directory / "w/index.json").unlink()
    assert sm.rebuild_index(url(directory / "w")) == (1, 1)
    with sm.Writer(url(directory / "set/0"), format="mds", columns={"x": "int"}) as writer:
        writer.write({"x": 1})
    sm.merge(url(directory / "set"))
    assert (directory / "set/index.json").exists()


@pytest.mark.parametrize("form", FORMS)
def test_jobs_and_indexes_take_any_form(directory: Path, form: Callable[[Path], Any]) -> None:
    url = form
    pipeline = Pipeline(
        source=TableSource(url(directory / "in")),
        stages=[],
        sink=ParquetSink(url(directory / "out")),
        checkpoint=Checkpoint(url(directory / "state"), id_column="id"),
    )
    assert [pipeline.run(progress=False).committed_before for _ in range(2)] == [0, 1]
    assert pq.read_table(directory / "out").num_rows == 3
    assert (directory / "state").is_dir()
    index = IdIndex.build(
        url(directory / "in"), "id", path=url(directory / "ids/index"), progress=False
    )
    assert len(index) == 3
    assert len(IdIndex.open(url(directory / "ids/index"))) == 3
    assert (directory / "ids/index").is_file()
    assert len(verify(url(directory / "out"))) == 1
    assert inspect(url(directory / "in")) is not None


@pytest.mark.parametrize("form", FORMS)
def test_record_files_take_any_form(directory: Path, form: Callable[[Path], Any]) -> None:
    path = form(directory / "a.array_record")
    with ArrayRecordWriter(path, "group_size:1,uncompressed") as writer:
        writer.write(b"one")
    with ArrayRecordReader(path) as reader:
        assert (reader.read(), bytes(reader.view(0))) == (b"one", b"one")
    assert ArrayRecordDataSource(str(path))[0] == b"one"
    assert (directory / "a.array_record").is_file()


@pytest.mark.parametrize("form", FORMS[:5])
def test_command_line_takes_any_form(directory: Path, form: Callable[[Path], Any]) -> None:
    def run(*arguments: str) -> str:
        done = shardmill(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "a" in run("head", form(directory / "in"), "--json")
    run("convert", form(directory / "in"), form(directory / "converted.jsonl"), "--no-progress")
    assert (directory / "converted.jsonl").read_text().count("\n") == 3


@pytest.mark.parametrize("form", FORMS[:5])
def test_cache_directory_takes_any_form(
    directory: Path, form: Callable[[Path], Any], monkeypatch: Any
) -> None:
    # A directory that has no cache in it is refused by its local name.
    named = re.escape(f"`{directory / 'cache'}`")
    with pytest.raises(FileNotFoundError, match=named):
        sm.storage.cache_entries(form(directory / "cache"))
    monkeypatch.setenv("SHARDMILL_CACHE_DIR", form(directory / "cache"))
    with pytest.raises(FileNotFoundError, match=named):
        sm.storage.cache_entries(sm.storage.cache_directory())


def uses(path: Any, directory: Path) -> dict[str, Callable[[], Any]]:
    """Everything that takes a path."""
    source, sink = TableSource(directory / "in"), ParquetSink(directory / "out")
    return {
        "dataset": lambda: sm.Dataset(path),
        "loader": lambda: sm.Loader(path),
        "writer": lambda: sm.Writer(path, format="parquet"),
        "writer of a file": lambda: sm.Writer(f"{path}/a.jsonl"),
        "merge": lambda: sm.merge(path),
        "rebuild_index": lambda: sm.rebuild_index(path),
        "source": lambda: Pipeline(source=TableSource(path), stages=[], sink=sink).run(
            progress=False
        ),
        "sink": lambda: Pipeline(source=source, stages=[], sink=ParquetSink(path)).run(
            progress=False
        ),
        "checkpoint": lambda: Checkpoint(path),
        "ids": lambda: IdIndex.build(path, "id", path=directory / "index", progress=False),
        "index": lambda: IdIndex.build(directory / "in", "id", path=path, progress=False),
        "opened index": lambda: IdIndex.open(path),
        "reader": lambda: ArrayRecordReader(path),
        "record writer": lambda: ArrayRecordWriter(path).close(),
        "verify": lambda: verify(path),
        "inspect": lambda: inspect(path),
        "cache": lambda: sm.storage.configure("s3://b", {"cache_dir": path}),
    }


@in_one("use", uses("", Path()))
@in_one(
    "path, named",
    [
        ("s4://b/x", "s4"),
        ("S3://b/x", "S3"),
        ("simplecache::s3://b/x", "simplecache"),
        ("file://otherhost/x", "another host"),
        ("file:x", "absolute"),
        ("s3:/b/x", "fewer than two slashes"),
        ("s3:b/x", "fewer than two slashes"),
    ],
)
def test_other_urls_are_errors_and_no_directories(
    directory: Path, use: str, path: str, named: str
) -> None:
    with pytest.raises((ValueError, RuntimeError)) as raised:
        uses(path, directory)[use]()
    message = str(raised.value)
    assert path.split(":")[0] in message
    if use != "cache":
        assert named in message, message
        assert "hint:" in message


def test_names_with_colons_are_local_names(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(directory)
    pq.write_table(pa.table({"x": [1]}), "12:30.parquet")
    assert len(sm.Dataset("12:30.parquet")) == 1
    Path("a:").mkdir()
    pq.write_table(pa.table({"x": [1]}), "./a:/b.parquet")
    assert len(sm.Dataset("./a:/b.parquet")) == 1


@pytest.mark.parametrize(
    "use",
    [
        sm.Dataset,
        sm.Writer,
        sm.Tokenizer,
        sm.rebuild_index,
        sm.resume.Checkpoint,
        sm.storage.is_remote,
    ],
)
def test_path_that_is_not_utf_8_is_an_option_error(use):
    path = os.fsdecode(b"latin/caf\xe9.parquet")
    with pytest.raises(
        sm.OptionError, match=r"^the path is not UTF-8: latin/caf\\udce9\.parquet\nhint: "
    ):
        use(path)
    with pytest.raises(sm.OptionError, match="is not UTF-8"):
        use(Path(path))


def test_address_with_a_query_is_refused_as_such() -> None:
    for query in ("download=true", "X-Amz-Signature=0123456789"):
        with pytest.raises(
            sm.OptionError, match="an address with a query, which may be a signature, is not read"
        ) as error:
            sm.Dataset(f"https://localhost:1/a.parquet?{query}")
        assert "0123456789" not in str(error.value)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("access_key_ids", "access_key_id"), ("regions", "region"), ("tokens", "token")],
)
def test_unknown_storage_option_is_refused_with_the_one_that_was_meant(
    typed: str, meant: str
) -> None:
    with pytest.raises(sm.OptionError, match=f"(?s){typed}.*did you mean '{meant}'"):
        sm.storage.configure("s3://bucket-of-typing-errors", {typed: "x"})
