"""Ray Data resumes a job: with its own checkpoint, with ours plugged in, or with none, which is what both are held against.

Enters: Parquet files with a string column ``id`` and, unless ``--checkpoint none``, a folder with the ids that are done.
Leaves: one JSON file; under ``--out`` the rows in ``data`` and, in ``checkpoint``, the folder that the job went on with.
Invariant: the same lines run for every manager, only the configuration differs; what is given to read is never written
to, because a job adds the ids it has done to its checkpoint, and the next round would find nothing to do.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow.dataset
import ray
from ray.data.checkpoint import CheckpointConfig

from benchmarks.runner.processes import ProcessTree

_SAMPLE_INTERVAL_S = 0.25


class Identity:
    """The expensive step of a real job, without the expense."""

    def __call__(self, batch: Any) -> Any:
        """Returns the batch."""
        return batch


def main() -> int:
    """Runs the job once and returns the exit code."""
    options = _parse_options()
    out = options.out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    # An index that an earlier round has built would take the load out of the clock.
    os.environ["XDG_CACHE_HOME"] = str(out / "cache")
    config = _config(options, out / "checkpoint")
    tree, has_ended = ProcessTree(os.getpid()), threading.Event()
    sampler = threading.Thread(target=_sample, args=(tree, has_ended))
    start = time.perf_counter()
    ray.init(address="local", num_cpus=options.cpus, include_dashboard=False, log_to_driver=False)
    started = time.perf_counter()
    sampler.start()
    try:
        _run(options, config, out / "data")
        finished = time.perf_counter()
    finally:
        has_ended.set()
        sampler.join()
        ray.shutdown()
    # Ray makes no folder when no row is left.
    (out / "data").mkdir(exist_ok=True)
    metrics = {
        "manager": options.manager if config else "none",
        "wall_s": finished - started,
        "init_s": started - start,
        "rows_out": pyarrow.dataset.dataset(out / "data", format="parquet").count_rows(),
        "peak_rss_bytes": tree.peak_bytes,
        "ray": ray.__version__,
    }
    options.json.write_text(json.dumps(metrics, indent=2))
    print(json.dumps(metrics))
    return 0


def _run(options: argparse.Namespace, config: CheckpointConfig | None, out: Path) -> None:
    context = ray.data.DataContext.get_current()
    context.checkpoint_config = config
    context.enable_progress_bars = False
    rows = ray.data.read_parquet(str(options.input.resolve()), override_num_blocks=options.parallelism)
    rows.map_batches(Identity, batch_size=options.batch_size).write_parquet(str(out))


def _config(options: argparse.Namespace, copy: Path) -> CheckpointConfig | None:
    if options.checkpoint is None:
        return None
    shutil.copytree(options.checkpoint, copy)
    if options.manager == "default":
        return CheckpointConfig("id", str(copy), delete_checkpoint_on_success=False)
    from shardmill.integrations.ray import checkpoint_config

    return checkpoint_config(id_column="id", checkpoint_path=str(copy))


def _sample(tree: ProcessTree, has_ended: threading.Event) -> None:
    while not has_ended.wait(_SAMPLE_INTERVAL_S):
        tree.sample()


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Resumes a job with Ray Data.")
    parser.add_argument("--input", type=Path, required=True, help="folder of Parquet files with a column id")
    parser.add_argument("--checkpoint", type=_folder, required=True, help="folder of the ids that are done, or none")
    parser.add_argument("--manager", choices=("default", "shardmill"), default="default")
    parser.add_argument("--out", type=Path, required=True, help="folder that is replaced")
    parser.add_argument("--parallelism", type=int, required=True, help="read tasks")
    parser.add_argument("--batch-size", type=int, default=1000)
    parser.add_argument("--cpus", type=int, default=2)
    parser.add_argument("--json", type=Path, required=True, help="file for the figures")
    options = parser.parse_args()
    logging.getLogger("ray").setLevel(logging.WARNING)
    return options


def _folder(text: str) -> Path | None:
    return None if text == "none" else Path(text)


if __name__ == "__main__":
    sys.exit(main())
