"""Inputs that change under a run, and stages that fail."""

import itertools
import shutil
import time
from pathlib import Path

import pytest
import shardmill as sm
from job_process import assert_whole, contents, staging
from shardmill.curate import (
    InterleavedParquetSource,
    Map,
    ParquetSink,
    Pipeline,
    WebDatasetSink,
    WebDatasetSource,
)


def with_map(function, source: Path, out: Path, *, kind: str = "wds", sink=ParquetSink, **options):
    reader = {"wds": WebDatasetSource, "parquet": InterleavedParquetSource}[kind]
    return Pipeline(source=reader(source), stages=[Map(function)], sink=sink(out, **options))


@pytest.mark.parametrize("kind", ["wds", "parquet"])
def test_file_that_vanishes_after_listing_is_a_quarantined_shard(kind, shards, tmp_path) -> None:
    source = shutil.copytree(shards[kind], tmp_path / "in")
    last = sorted(source.iterdir())[-1]

    def remove(table):
        last.unlink(missing_ok=True)
        return table

    report = with_map(remove, source, tmp_path / "out", kind=kind).run(threads=1)
    assert [(item["path"], item["is_shard"]) for item in report.quarantined] == [(str(last), True)]
    assert str(last) in report.quarantined[0]["reason"]
    assert report.counts("output")["samples"] == 7 * 30
    assert_whole(tmp_path / "out") if len(report.outputs) == 7 else None
    assert staging(tmp_path / "out") == []


@pytest.mark.parametrize("kind", ["wds", "parquet"])
def test_file_that_is_cut_after_listing_is_a_quarantined_shard(kind, shards, tmp_path) -> None:
    source = shutil.copytree(shards[kind], tmp_path / "in")
    last = sorted(source.iterdir())[-1]

    def cut(table):
        with last.open("r+b") as file:
            file.truncate(3_000_000)
        return table

    report = with_map(cut, source, tmp_path / "out", kind=kind).run(threads=1)
    assert [item["path"] for item in report.quarantined if item["is_shard"]] == [str(last)]
    assert {item["path"] for item in report.quarantined} == {str(last)}
    kept = report.counts("output")["samples"] - 7 * 30
    # A tar gives what lies before the cut; a Parquet file without its footer gives nothing.
    assert kept == (14 if kind == "wds" else 0)
    assert staging(tmp_path / "out") == []


def cut_in_use(source: Path):
    """A stage that cuts the shard whose rows it sees."""

    def cut(table):
        path = source / "shard0.tar"
        if path.stat().st_size > 3_000_000 and str(path) in table["source_ref"][0].as_py():
            with path.open("r+b") as file:
                file.truncate(3_000_000)
        return table

    return cut


@pytest.mark.parametrize("sink", [ParquetSink, WebDatasetSink])
def test_file_that_is_cut_while_it_is_read_follows_the_policy_for_images(
    sink, shards, tmp_path
) -> None:
    source = shutil.copytree(shards["wds"], tmp_path / "in")
    out = tmp_path / "out"
    with pytest.raises(sm.CurateError, match=r"Materialization failed .*range read"):
        with_map(cut_in_use(source), source, out, sink=sink).run(threads=1)
    assert staging(out) == []

    shutil.copy(shards["wds"] / "shard0.tar", source)
    pipeline = with_map(
        cut_in_use(source),
        source,
        out,
        sink=sink,
        on_materialize_error="drop_sample",
        mode="overwrite",
    )
    report = pipeline.run(threads=1)
    kept = report.counts("output")["samples"]
    assert 7 * 30 + 10 < kept < 8 * 30
    assert sum(report.rows_dropped.values()) == 3 * (8 * 30 - kept)
    assert_whole(out)


@pytest.mark.parametrize("sink", [ParquetSink, WebDatasetSink])
def test_exception_in_a_stage_stops_the_run_and_leaves_nothing_partial(
    sink, shards, references, tmp_path
) -> None:
    numbers = itertools.count(1)
    calls = []

    class Bad(Exception):
        pass

    def fail_at_the_fourth(table):
        number = next(numbers)
        calls.append(number)
        if number == 4:
            raise Bad("the fourth")
        # Those after it have started before the failure could be reported; they run longer than
        # that takes.
        time.sleep(0.05 if number < 4 else 3)
        return table

    with pytest.raises(sm.CurateError, match=r"shard\d.tar.*the fourth") as caught:
        with_map(fail_at_the_fourth, shards["wds"], tmp_path).run(threads=2)
    assert isinstance(caught.value.__cause__, Bad)
    assert len(calls) < 8, "the other splits were stopped"
    assert staging(tmp_path) == []
    written = contents(tmp_path)
    assert len(written) < 8
    assert_whole(tmp_path)
    assert all(references["wds-parquet"].keys() >= {name} for name in written)


def test_exit_of_the_interpreter_in_a_stage_is_an_error_like_any_other(shards, tmp_path) -> None:
    def leave(table):
        raise SystemExit(3)

    with pytest.raises(sm.CurateError) as caught:
        with_map(leave, shards["wds"], tmp_path).run(threads=2)
    assert isinstance(caught.value.__cause__, SystemExit)
    assert contents(tmp_path) == {}
