"""A job of Ray Data with our checkpoint, for the tests that kill it.

Called as ``python ray_checkpoint_job.py SOURCE CHECKPOINT OUT [BYTES]``.
"""

import os
import sys
import time
from functools import partial

import numpy as np
import ray
from shardmill.integrations.ray import checkpoint_config


def patiently(batch, blob_bytes):
    # So that a kill finds writes of which some are committed, some begun and some not.
    time.sleep(0.05)
    # And so that a write takes its time, compressed by gzip.
    return batch | {"blob": np.array([os.urandom(blob_bytes) for _ in batch["id"]], dtype=object)}


def main(source: str, checkpoint: str, out: str, blob_bytes: str = str(1 << 21)) -> None:
    # A cluster of its own, unless it is told of one.
    own = (
        {}
        if "RAY_ADDRESS" in os.environ
        else {"address": "local", "num_cpus": 2, "include_dashboard": False}
    )
    ray.init(**own, logging_level="error", log_to_driver=False)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    # The newer way of reading packs small files into one task, and starts actors for seconds before
    # it does.
    context.use_datasource_v2 = False
    context.checkpoint_config = checkpoint_config(id_column="id", checkpoint_path=checkpoint)
    step = partial(patiently, blob_bytes=int(blob_bytes))
    ray.data.read_parquet(source, override_num_blocks=10_000).map_batches(step).write_parquet(
        out, compression="gzip"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
