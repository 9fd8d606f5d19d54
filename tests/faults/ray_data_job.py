"""A job that Ray Data runs with our readers and writers, and that kills a process at one moment.

Called as ``python ray_data_job.py SOURCE CHECKPOINT OUT [WHO STEP NUMBER]``: before the step
``NUMBER`` with the name ``STEP``, ``driver`` ends, ``worker`` ends once, or a worker ends the
driver (``driver-of``) and goes on. Without a name of a checkpoint, there is none. ``STORE`` in the
environment has the options of the store of the output, as JSON.
"""

import json
import os
import signal
import sys
from pathlib import Path

import pyarrow.parquet as pq
import ray
from shardmill import Writer
from shardmill.integrations.ray import read, write
from shardmill.integrations.ray_data import _journal, _parts, _place, _staging

TASKS = 4
#: What changes files, by name. Native modules cannot be sent to workers by themselves.
STEPS = {
    "rename": (Path, "rename"),
    "mkdir": (Path, "mkdir"),
    "unlink": (Path, "unlink"),
    "ids": (pq, "write_table"),
    "record": (Path, "write_text"),
    "sync": (_journal, "sync"),
    "identity": (_journal, "publish_bytes"),
    "manifest": (_place, "publish_bytes"),
    "move": (_staging, "storage.move_file"),
    "published": (_staging, "publish_bytes"),
    "claim": (_place, "storage.replace_object"),
    "close": (Writer, "close"),
}


def end_before(step: str, number: int, process: int, once: Path) -> None:
    """Let a process be killed before a step of this process."""
    owner, path = STEPS[step]
    *modules, name = path.split(".")
    for module in modules:
        owner = getattr(owner, module)
    original, left = getattr(owner, name), iter(range(number, -1, -1))

    def call(*arguments, **options):
        if next(left, -1) == 0 and not once.exists():
            once.touch()
            os.kill(process, signal.SIGKILL)
        return original(*arguments, **options)

    setattr(owner, name, call)


def main(source: str, checkpoint: str, out: str, *moment: str) -> None:
    once, driver = Path(source + ".killed"), os.getpid()
    who, step, number = moment or ("", "", "0")

    def operator(batch):
        # A worker runs the tasks of a node one after another; each is counted from here.
        if who in ("worker", "driver-of") and 5 in batch["x"]:
            if step == "map":
                once.touch()
                os.kill(driver, signal.SIGKILL)
            else:
                end_before(step, int(number), os.getpid() if who == "worker" else driver, once)
        return {"_row": batch["_row"], "y": batch["x"] * 2}

    store = json.loads(os.environ.get("STORE", "{}"))
    keys = {
        f"AWS_{name.upper()}": store[name]
        for name in ("access_key_id", "secret_access_key")
        if store
    }

    # Files of a test are smaller than what is worth a task.
    _parts.RANGE_BYTES = 1
    ray.init(logging_level="error", log_to_driver=False, runtime_env={"env_vars": keys})
    ray.data.DataContext.get_current().enable_progress_bars = False
    options = {"override_num_blocks": TASKS}
    kept = {"checkpoint": checkpoint} if checkpoint else {}
    ds = read(source, ids="_row", ray_options=options, **kept)
    if who == "driver":
        end_before(step, int(number), driver, once)
    given = {"storage_options": store} if store else {}
    # Without a checkpoint, all rows are written again.
    mode = "error" if kept else "overwrite"
    print(write(ds.map_batches(operator), out, ids="_row", mode=mode, **kept, **given))


if __name__ == "__main__":
    main(*sys.argv[1:])
