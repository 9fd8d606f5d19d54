"""The directory of a table of Delta, Iceberg or Hudi is not read as plain files."""

import os
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from command import shardmill
from shardmill.curate import ParquetSink, Pipeline, TableSource

MARKS = {
    "Delta": "_delta_log/00000000000000000000.json",
    "Iceberg": "metadata/00000-aaaa.metadata.json",
    "Hudi": ".hoodie/hoodie.properties",
}
HINTS = {"Delta": "integrations.delta", "Iceberg": "integrations.iceberg", "Hudi": "list the files"}


@pytest.fixture(params=MARKS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def lake(tmp_path: Path, kind: str) -> Path:
    """A table in `lakes/t`, with files in partitions."""
    table = tmp_path / "lakes" / "t"
    for name in ("a.parquet", "data/b.parquet", "data/k=1/c.parquet"):
        (table / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"x": [1]}), table / name)
    (table / MARKS[kind]).parent.mkdir()
    (table / MARKS[kind]).write_text("{}")
    return table


def test_directories_and_globs_at_below_and_above_the_table_are_refused(
    lake: Path, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = []
    (tmp_path / "link").symlink_to(lake / "data" / "k=1")
    monkeypatch.chdir(lake / "data")
    paths = [
        lake,
        lake.parent,
        tmp_path,
        lake / "data",
        lake / "data" / "k=1",
        tmp_path / "link",
        ".",
        "k=1",
        "..",
    ]
    globs = [
        f"{lake}/*.parquet",
        f"{lake}/**/*.parquet",
        f"{lake.parent}/*/data/*.parquet",
        f"{lake}/data/k=*/*",
        "*",
        "*.parquet",
    ]
    for path in [
        *paths,
        *globs,
        [lake / "data" / "b.parquet", lake / "data" / "k=1"],
        f"file://{lake}",
    ]:
        try:
            sm.Dataset(path)
        except sm.PlanError as error:
            text = str(error)
            place = "`..`" if path == ".." else f"`{lake}`"
            if (
                f"{place} is the directory of a" not in text
                or f" {kind} table (" not in text
                or HINTS[kind] not in text
            ):
                failures.append((path, text))
        else:
            failures.append((path, "read"))
    assert failures == []


def test_files_that_are_listed_one_by_one_are_read(lake: Path) -> None:
    files = sorted(lake.rglob("*.parquet"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [row["x"] for row in sm.Dataset(files)] == [1, 1, 1]
        assert [row["x"] for row in sm.Dataset(files[0])] == [1]


def test_jobs_refuse_the_directory_too(lake: Path, kind: str, tmp_path: Path) -> None:
    job = Pipeline(
        source=TableSource(str(lake)), stages=[], sink=ParquetSink(str(tmp_path / "out"))
    )
    with pytest.raises(sm.PlanError, match=f"directory of an? {kind} table"):
        job.run(progress=False)


@pytest.mark.parametrize("name", ["inspect", "verify"])
def test_commands_that_look_at_files_refuse_the_directory_too(
    lake: Path, kind: str, name: str
) -> None:
    result = shardmill(name, lake)
    assert result.returncode == 1
    assert f" {kind} table (" in result.stderr and HINTS[kind] in result.stderr
    assert shardmill(name, lake / "a.parquet").returncode == 0


def test_directory_beside_a_table_is_read(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (lake.parent / "other").mkdir()
    pq.write_table(pa.table({"x": [1]}), lake.parent / "other" / "a.parquet")
    monkeypatch.chdir(lake)
    for path in ("../other", "../other/*.parquet", lake.parent / "other", f"{lake}/../other"):
        assert len(sm.Dataset(path)) == 1


def test_directories_that_only_look_like_a_table_are_read(tmp_path: Path) -> None:
    for name in (
        "a/metadata/notes.json",
        "b/metadata.json",
        "c/_delta_logs/x.json",
        "d/v1.metadata.json",
        "e/hoodie/x",
    ):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("{}")
        pq.write_table(pa.table({"x": [1]}), (tmp_path / name).parent / "rows.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert len(sm.Dataset(tmp_path, format="parquet")) == 4
        # A file with the name of a log directory.
        os.makedirs(tmp_path / "f")
        (tmp_path / "f" / "_delta_log").write_text("")
        pq.write_table(pa.table({"x": [1]}), tmp_path / "f" / "rows.parquet")
        assert len(sm.Dataset(tmp_path / "f")) == 1
