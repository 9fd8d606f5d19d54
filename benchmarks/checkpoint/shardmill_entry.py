"""shardmill resumes a job: table source, ids that are done, identity, Parquet files.

Enters: a folder of Parquet files with a column ``id`` and, unless ``--checkpoint none``, one with the ids that are done.
Leaves: one JSON file, and under ``--out`` the rows in ``data`` and the job's own checkpoint in ``checkpoint``. Started by
the runner. Invariant: only the public API is used; the clock holds the load of the checkpoint, not the imports.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet

from benchmarks.checkpoint.sets import ID_COLUMN
from benchmarks.loader.options import write_json
from benchmarks.loader.proc import drop_from_cache, io_counters
from benchmarks.runner.ray_cluster import start_ray

# What the report calls a figure, and what it is called here.
_TOLD = {
    "checkpoint_load_s": "load_s",
    "task_table_reader_process_time_sum": "read_s",
    "task_table_reader_custom.ids_seconds_sum": "filter_s",
    "task_table_reader_custom.ids_looked_up_sum": "lookups",
    "task_table_parquet_writer_process_time_sum": "write_s",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the job once and returns the exit code."""
    options = _parse_options(arguments)
    shutil.rmtree(options.out, ignore_errors=True)
    options.out.mkdir(parents=True)
    try:
        metrics = run(options)
    except Exception as error:
        write_json(options.json, {"is_success": False, "error": f"{type(error).__name__}: {error}"})
        raise
    write_json(options.json, metrics)
    return 0 if metrics["is_success"] else 1


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Runs the pipeline and returns its metrics."""
    from shardmill import __version__
    from shardmill.curate import Map, ParquetSink, Pipeline, TableSource
    from shardmill.resume import Checkpoint

    data = options.out / "data"
    inputs = sorted(options.input.glob("*.parquet"))
    metrics = {"version": __version__, "input_bytes": sum(path.stat().st_size for path in inputs)}
    # An index that an earlier round has built would take the load out of the clock.
    os.environ["XDG_CACHE_HOME"] = str(options.out / "cache")
    if options.executor == "ray":
        metrics["init_s"] = start_ray(options.workers)
    if options.cold:
        drop_from_cache(inputs)
    before, start = io_counters(), time.perf_counter()
    pipeline = Pipeline(
        source=TableSource(options.input),
        stages=[Map(identity, batch_size=options.batch_size)],
        sink=ParquetSink(data),
        checkpoint=Checkpoint(
            options.out / "checkpoint",
            id_column=ID_COLUMN,
            done=[options.checkpoint] if options.checkpoint else (),
        ),
    )
    report = pipeline.run(executor=options.executor, workers=options.workers, progress=False)
    metrics["wall_s"] = time.perf_counter() - start
    after = io_counters()
    if options.executor == "local":
        # Of this process alone, which says nothing where others do the work.
        metrics |= {name: after[name] - before[name] for name in ("rchar", "read_bytes")}
    files = sorted(data.rglob("*.parquet"))
    rows = [pyarrow.parquet.read_metadata(path).num_rows for path in files]
    told = dict(report.to_dict())
    return {
        **metrics,
        **{name: told[key] for key, name in _TOLD.items() if key in told},
        "is_success": report.is_success,
        "rows_out": sum(rows),
        "output_files": len(files),
        "report": told,
    }


def identity(batch: Any) -> Any:
    """The expensive step of a real job, without the expense."""
    return batch


def _parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Resumes a job with shardmill.")
    parser.add_argument("--input", type=Path, required=True, help="folder of Parquet files with a column id")
    parser.add_argument("--checkpoint", type=_folder, required=True, help="folder of the ids that are done, or none")
    parser.add_argument("--out", type=Path, required=True, help="folder that is replaced")
    parser.add_argument("--executor", choices=("local", "ray"), default="local")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=1000)
    parser.add_argument("--cold", action="store_true", help="drop the input from the page cache before the clock")
    parser.add_argument("--json", type=Path, required=True, help="file for the figures")
    return parser.parse_args(arguments)


def _folder(text: str) -> Path | None:
    return None if text == "none" else Path(text)


if __name__ == "__main__":
    sys.exit(main())
