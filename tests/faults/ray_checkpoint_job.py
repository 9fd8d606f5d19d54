"""A job of Ray Data with our checkpoint, for the test that kills it: python ray_checkpoint_job.py SOURCE CHECKPOINT OUT."""

import os
import sys
import time

import numpy as np
import ray
from shardmill.integrations.ray import checkpoint_config


def patiently(batch):
    # So that a kill finds writes of which some are committed, some begun and some not.
    time.sleep(0.05)
    # And so that a write takes its time, compressed by gzip.
    return batch | {"blob": np.array([os.urandom(1 << 21) for _ in batch["id"]], dtype=object)}


def main(source: str, checkpoint: str, out: str) -> None:
    ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level="error", log_to_driver=False)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    # The newer way of reading packs small files into one task, and starts actors for seconds before it does.
    context.use_datasource_v2 = False
    context.checkpoint_config = checkpoint_config(id_column="id", checkpoint_path=checkpoint)
    ray.data.read_parquet(source, override_num_blocks=10_000).map_batches(patiently).write_parquet(
        out, compression="gzip"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
