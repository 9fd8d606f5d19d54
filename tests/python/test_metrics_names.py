"""Loaders, writers, pipelines and stores count under the same names."""

import json
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from shardmill.curate import Map, ParquetSink, Pipeline, PipelineMetrics, TableSource

ROWS = 1_000


def written(directory: Path) -> sm.WriterMetrics:
    with sm.Writer(directory, shard_bytes="4KiB") as writer:
        before = writer.metrics()
        for x in range(ROWS):
            writer.write({"x": x})
        during = writer.metrics()
    after = writer.metrics()
    assert [before.rows, during.rows, after.rows] == [0, ROWS, ROWS]
    assert (during.files, during.bytes_written) == (0, 0)
    assert 0 < after.publish_seconds <= after.elapsed_seconds
    assert writer.metrics() == after, "time ends with the writer"
    return after


def test_writer_counts_its_rows_and_published_bytes(tmp_path: Path) -> None:
    metrics = written(tmp_path / "out")
    files = list((tmp_path / "out").glob("*.parquet"))
    assert (metrics.files, metrics.bytes_written) == (
        len(files),
        sum(file.stat().st_size for file in files),
    )


def test_index_counts_as_written(tmp_path: Path) -> None:
    for mode in ("error", "append"):
        with sm.Writer(tmp_path / "out", format="mds", columns={"x": "int"}, mode=mode) as writer:
            writer.write({"x": 1})
        index = tmp_path / "out" / "index.json"
        sizes = [Path(path).stat().st_size for path in [*writer.files, index]]
        assert (writer.metrics().files, writer.metrics().bytes_written) == (1, sum(sizes))


def check_failed(writer: sm.Writer, *, rows: int) -> sm.WriterMetrics:
    metrics = writer.metrics()
    assert (metrics.rows, metrics.files, metrics.bytes_written) == (rows, 0, 0)
    assert metrics.elapsed_seconds > 0
    writer.close()
    assert writer.metrics() == metrics, "time ends with the writer"
    return metrics


@pytest.mark.parametrize("rows", [10, 2_000], ids=["first_rows", "later_rows"])
def test_exception_in_the_block_keeps_the_counters(tmp_path: Path, rows: int) -> None:
    writer = sm.Writer(tmp_path / "out")
    with pytest.raises(ZeroDivisionError), writer:
        for x in range(rows):
            writer.write({"x": x})
        raise ZeroDivisionError
    assert check_failed(writer, rows=rows).publish_seconds == 0


def test_close_that_fails_keeps_the_counters(tmp_path: Path) -> None:
    writer = sm.Writer(tmp_path / "out")
    writer.write({"x": 1})
    writer.write({"x": "two"})
    with pytest.raises(sm.FormatError):
        writer.close()
    assert check_failed(writer, rows=2).publish_seconds > 0


def test_index_that_fails_leaves_the_counters_of_replaced_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_arguments: object, **_options: object) -> int:
        raise sm.StorageError("the disk is full")

    monkeypatch.setattr("shardmill.write._index.write_index", fails)
    writer = sm.Writer(tmp_path / "out", format="mds", columns={"x": "int"}, mode="overwrite")
    writer.write({"x": 1})
    with pytest.raises(sm.StorageError):
        writer.close()
    size = (tmp_path / "out" / "shard.00000.mds").stat().st_size
    assert (writer.metrics().files, writer.metrics().bytes_written) == (1, size)


@pytest.fixture
def executor(request: pytest.FixtureRequest) -> Iterator[str]:
    """An executor; that of Ray has a executor of its own."""
    if request.param == "local":
        yield request.param
        return
    ray = pytest.importorskip("ray")
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        logging_level="error",
        log_to_driver=False,
    )
    yield request.param
    ray.shutdown()


@pytest.mark.parametrize(
    "executor",
    ["local", pytest.param("ray", marks=[pytest.mark.ray, pytest.mark.slow])],
    indirect=True,
)
def test_pipeline_counts_what_it_reads_and_writes_by_stage(tmp_path: Path, executor: str) -> None:
    # Ray sends a function by value only if it is not one of this module.
    def doubled(table: pa.Table) -> pa.Table:
        import pyarrow.compute as pc

        time.sleep(0.02)
        return table.append_column("y", pc.multiply(table["x"], 2))

    (tmp_path / "in").mkdir()
    for part in range(2):
        pq.write_table(pa.table({"x": list(range(ROWS))}), tmp_path / f"in/{part}.parquet")
    report = Pipeline(
        source=TableSource(tmp_path / "in", files_per_partition=1),
        stages=[Map(doubled, batch_size=500)],
        sink=ParquetSink(tmp_path / "out"),
    ).run(executor, progress=False)
    metrics = report.metrics()
    files = list((tmp_path / "out").glob("*.parquet"))
    assert (metrics.splits, metrics.rows_read, metrics.rows, metrics.files) == (
        2,
        2 * ROWS,
        2 * ROWS,
        len(files),
    )
    assert metrics.bytes_written == sum(file.stat().st_size for file in files)
    assert metrics.bytes_read == sum(file.stat().st_size for file in (tmp_path / "in").iterdir())
    assert metrics.elapsed_seconds == report.seconds
    slowest = max(metrics.stages, key=lambda name: metrics.stages[name])
    assert metrics.stages[slowest] >= 4 * 0.02, "the stage that sleeps"
    assert json.loads(json.dumps(metrics.to_dict()))["stages"] == metrics.stages


def test_equal_quantities_have_equal_names() -> None:
    names = {
        kind: {field.name for field in fields(kind)}
        for kind in (sm.LoaderMetrics, sm.WriterMetrics, PipelineMetrics)
    }
    assert set.intersection(*names.values()) == {"rows", "elapsed_seconds"}
    assert names[sm.LoaderMetrics] & names[PipelineMetrics] == {
        "rows",
        "bytes_read",
        "elapsed_seconds",
        "stages",
        "storage",
    }
    assert names[sm.WriterMetrics] & names[PipelineMetrics] == {
        "rows",
        "bytes_written",
        "files",
        "elapsed_seconds",
    }
