"""Measures rows through Ray Data: its own readers and writer, and those of shardmill.

    python -m benchmarks.ray_data --out=DIR --scenario=parquet --rounds=3

Scenarios are ``parquet``, ``webdataset``, ``json`` and ``write_parquet``, in which both systems run
in one cluster, in turns; and ``pipeline``, a job of shardmill on 1, 2 and 4 workers of a CPU each.
The clock begins when the workers have started, and holds the listing of files.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.measure import (
    Metrics,
    Options,
    WrongRowsError,
    make_set,
    prepare_caches,
    run_entry,
    start_ray,
    timed,
    timed_rows,
)

_BATCH_ROWS = 1_024
_WORKERS = (1, 2, 4)


@dataclass(frozen=True, kw_only=True)
class RayDataOptions(Options):
    """What is read or written.

    Attributes:
        data: Directory of the data sets, which are kept.
        rows: Rows of a data set.
        value_bytes: Size of the text of a row.
        cpus: Cores of the cluster.
        rounds: Times that each system runs; the fastest counts.
    """

    data: Path = Path(".cache/benchmarks/ray_data")
    rows: int = 400_000
    value_bytes: int = 1_000
    files: int = 8
    cpus: int = 2
    rounds: int = 3

    @property
    def format(self) -> str:
        """Format of the data set."""
        names = {"json": "jsonl", "write_parquet": "parquet", "pipeline": "parquet"}
        return names.get(self.scenario, self.scenario)


def write_set(options: RayDataOptions, directory: Path) -> None:
    """Rows of a number and a text of letters, in files of equal size."""
    import shardmill as sm

    letters, size = np.random.default_rng(1), options.value_bytes
    for file in range(options.files):
        first, last = (options.rows * part // options.files for part in (file, file + 1))
        text = letters.integers(97, 123, (last - first) * size, dtype=np.uint8)
        offsets = np.arange(0, len(text) + 1, size, dtype=np.int32)
        texts = pa.StringArray.from_buffers(last - first, pa.py_buffer(offsets), pa.py_buffer(text))
        table = pa.table({"cls": np.arange(first, last), "txt": texts})
        extension = {"webdataset": "tar"}.get(options.format, options.format)
        with sm.Writer(directory / f"{file}.{extension}") as writer:
            writer.write_batch(table)


def consumed(open_rows: Callable[[], Any]) -> int:
    """Takes all batches of a data set; returns their rows."""
    batches = open_rows().iter_batches(batch_size=_BATCH_ROWS, batch_format="pyarrow")
    return sum(batch.num_rows for batch in batches)


def letters_counted(table: pa.Table) -> pa.Table:
    """The function of a job: some work of a CPU for each row."""
    texts = table["txt"].to_pylist()
    return table.append_column("letters", pa.array([len(set(text)) for text in texts]))


def rows_of(out: Path) -> int:
    """Rows of the Parquet files that were written."""
    import pyarrow.parquet as pq

    return sum(pq.read_metadata(path).num_rows for path in out.glob("*.parquet"))


def pipeline_figure(options: RayDataOptions, source: Path, out: Path, workers: int) -> Metrics:
    """Runs a job with a number of workers."""
    from shardmill.curate import Map, ParquetSink, Pipeline, TableSource

    shutil.rmtree(out, ignore_errors=True)
    job = Pipeline(
        source=TableSource(source, files_per_partition=1),
        stages=[Map(letters_counted, batch_size=_BATCH_ROWS)],
        sink=ParquetSink(out),
    )

    def written() -> int:
        job.run("ray", workers=workers, progress=False)
        return rows_of(out)

    return timed_rows(options.rows, written)


def write_figure(options: RayDataOptions, out: Path, write: Callable[[], Any]) -> Metrics:
    """Writes the rows; the clock does not hold counting them."""
    shutil.rmtree(out, ignore_errors=True)
    seconds, _ = timed(write)
    found = rows_of(out)
    if found != options.rows:
        raise WrongRowsError(f"{found:,} rows of {options.rows:,}")
    size = sum(path.stat().st_size for path in out.iterdir())
    return {"seconds": seconds, "per_s": options.rows / seconds, "bytes": size}


def runs_of(options: RayDataOptions, source: Path) -> dict[str, Callable[[], Metrics]]:
    """What is measured in turns, by name."""
    import ray.data
    from shardmill.integrations.ray import read, write

    out = options.scratch / "rows"
    if options.scenario == "pipeline":
        return {
            f"workers_{workers}": partial(pipeline_figure, options, source, out, workers)
            for workers in _WORKERS
        }
    if options.scenario == "write_parquet":
        # Some blocks for each core.
        rows = read(source, ray_options={"override_num_blocks": options.files}).materialize()
        writers = {
            "ray": partial(rows.write_parquet, str(out)),
            "shardmill": partial(write, rows, out, compression="snappy"),
        }
        return {name: partial(write_figure, options, out, one) for name, one in writers.items()}
    readers = {
        "ray": partial(getattr(ray.data, f"read_{options.scenario}"), str(source)),
        "shardmill": partial(read, source),
    }
    return {
        name: partial(timed_rows, options.rows, partial(consumed, reader))
        for name, reader in readers.items()
    }


def measure(options: RayDataOptions) -> Metrics:
    """Runs both systems in turns, or a job with each number of workers."""
    import ray.data

    source = options.data / f"{options.format}-{options.rows}"
    wanted = {"rows": options.rows, "files": options.files, "value_bytes": options.value_bytes}
    make_set(source, wanted, partial(write_set, options))
    prepare_caches("warm", [source])
    is_pipeline = options.scenario == "pipeline"
    start_ray(max(_WORKERS) if is_pipeline else options.cpus)
    ray.data.DataContext.get_current().enable_progress_bars = False
    best: dict[str, Metrics] = {}
    try:
        runs = runs_of(options, source)
        for _ in range(options.rounds):
            for name, run in runs.items():
                figure = run()
                if name not in best or figure["per_s"] > best[name]["per_s"]:
                    best[name] = figure
    finally:
        ray.shutdown()
    if is_pipeline:
        return best
    ratio = best["shardmill"]["per_s"] / best["ray"]["per_s"]
    return {**best, "times_as_fast": ratio}


if __name__ == "__main__":
    run_entry(RayDataOptions, measure)
