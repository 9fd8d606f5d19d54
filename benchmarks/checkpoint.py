"""A job whose rows are partly done already, by a list of ids.

The systems are shardmill, and Ray Data with three kinds of checkpoint. The clock holds the load of
the checkpoint, but no import and no start of Ray. What is given to read is never written to: a job
adds the ids it has done to its checkpoint, and the next round would find nothing to do.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.dataset

from benchmarks.measure import (
    Metrics,
    Options,
    io_counters,
    prepare_caches,
    run_entry,
    start_ray,
)

# What the page calls a figure, and what the report of a pipeline calls it.
_TOLD = {
    "load_s": "checkpoint_load_s",
    "read_s": "task_table_reader_process_time_sum",
    "filter_s": "task_table_reader_custom.ids_seconds_sum",
    "lookups": "task_table_reader_custom.ids_looked_up_sum",
    "write_s": "task_table_parquet_writer_process_time_sum",
}
_BATCH_ROWS = 1_000


@dataclass(frozen=True, kw_only=True)
class JobOptions(Options):
    """What is read.

    Attributes:
        input: Directory of Parquet files with a column ``id``.
        checkpoint: Directory of the ids that are done.
        blocks: Read tasks of Ray Data, ``cpus`` the cores that it is told of.
        cold: Drop the input from the page cache before the clock.
    """

    input: Path
    checkpoint: Path | None = None
    executor: Any = "local"
    workers: int = 2
    blocks: int = 10
    cpus: int = 3
    cold: bool = False

    @property
    def rows(self) -> Path:
        """Directory of the output."""
        return self.scratch / "data"


class Identity:
    """The expensive step of a real job, without the expense.

    For Ray Data, a function with a state is an actor.
    """

    def __call__(self, batch: Any) -> Any:
        """Returns the batch."""
        return batch


def shardmill(options: JobOptions) -> Metrics:
    """Table source, ids that are done, identity, Parquet files; by the public API."""
    from shardmill.curate import Map, ParquetSink, Pipeline, TableSource
    from shardmill.resume import Checkpoint

    metrics: Metrics = {}
    if options.executor == "ray":
        metrics["init_s"] = start_ray(options.workers)
    if options.cold:
        prepare_caches("cold", [options.input])
    before, start = io_counters(), time.perf_counter()
    done = [options.checkpoint] if options.checkpoint else ()
    pipeline = Pipeline(
        source=TableSource(options.input),
        stages=[Map(Identity(), batch_size=_BATCH_ROWS)],
        sink=ParquetSink(options.rows),
        checkpoint=Checkpoint(options.scratch / "checkpoint", id_column="id", done=done),
    )
    at_once = {"threads" if options.executor == "local" else "workers": options.workers}
    report = pipeline.run(executor=options.executor, **at_once, progress=False)
    metrics["wall_s"] = time.perf_counter() - start
    after = io_counters()
    if options.executor == "local":
        # Of this process alone, which says nothing where others do the work.
        metrics |= {name: after[name] - before[name] for name in ("rchar", "read_bytes")}
    told = dict(report.to_dict())
    metrics |= {name: told[key] for name, key in _TOLD.items() if key in told}
    return metrics | {"is_success": report.is_success}


def ray_none(options: JobOptions) -> Metrics:
    """Ray Data without a checkpoint, which is what both of its checkpoints are held against."""
    return _ray(options, lambda _: None)


def ray(options: JobOptions) -> Metrics:
    """Ray Data with its own checkpoint."""
    from ray.data.checkpoint import CheckpointConfig

    return _ray(
        options, lambda path: CheckpointConfig("id", path, delete_checkpoint_on_success=False)
    )


def ray_plugin(options: JobOptions) -> Metrics:
    """Ray Data with the checkpoint of shardmill plugged in."""
    from shardmill.integrations.ray import checkpoint_config

    return _ray(options, lambda path: checkpoint_config(id_column="id", checkpoint_path=path))


def _ray(options: JobOptions, config: Callable[[str], Any]) -> Metrics:
    import ray

    logging.getLogger("ray").setLevel(logging.WARNING)
    copy = options.scratch / "checkpoint"
    if options.checkpoint:
        shutil.copytree(options.checkpoint, copy)
    checkpoint = config(str(copy))
    start = time.perf_counter()
    ray.init(address="local", num_cpus=options.cpus, include_dashboard=False, log_to_driver=False)
    started = time.perf_counter()
    try:
        context = ray.data.DataContext.get_current()
        context.checkpoint_config = checkpoint
        context.enable_progress_bars = False
        rows = ray.data.read_parquet(str(options.input), override_num_blocks=options.blocks)
        rows.map_batches(Identity, batch_size=_BATCH_ROWS).write_parquet(str(options.rows))
        finished = time.perf_counter()
    finally:
        ray.shutdown()
    return {"wall_s": finished - started, "init_s": started - start}


def measure(options: JobOptions) -> Metrics:
    """Runs the job once."""
    # An index that an earlier round has built would take the load out of the clock.
    os.environ["XDG_CACHE_HOME"] = str(options.scratch / "cache")
    metrics = SYSTEMS[options.system](options)
    # Ray makes no directory when no row is left.
    options.rows.mkdir(parents=True, exist_ok=True)
    return metrics | {
        "rows_out": pyarrow.dataset.dataset(options.rows, format="parquet").count_rows()
    }


SYSTEMS = {
    "shardmill": shardmill,
    "shardmill_ray": shardmill,
    "ray": ray,
    "ray_plugin": ray_plugin,
    "ray_none": ray_none,
}


if __name__ == "__main__":
    run_entry(JobOptions, measure)
