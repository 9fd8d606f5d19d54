"""Interleaved shards from bucket to bucket.

Starts a store, then the job of the local benchmark, and checks what it wrote. Shards are objects
before the clock starts; ``job_s`` is the time of the job's process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.interleaved.check import check_entry
from benchmarks.measure import RECORD, Metrics, Options, WrongRowsError, run_entry
from benchmarks.remote.store import BUCKET, started


@dataclass(frozen=True, kw_only=True)
class CurationOptions(Options):
    """What is moved, as in ``benchmarks.interleaved.job``."""

    data: Path
    reader: str
    writer: str
    round_trip_s: float = 0.010


def measure(options: CurationOptions) -> Metrics:
    """One run with an empty output."""
    is_ours, job = options.system == "shardmill", options.out / "job"
    with started() as store:
        path = store.publish(options.data)
        store.away(options.round_trip_s)
        # Overwriting what is not there is what both can do, but shardmill gives only new names
        # in a store.
        given = {
            "out": job,
            "data": path,
            "output": f"s3://{BUCKET}/out",
            "mode": "error" if is_ours else "overwrite",
            **{name: getattr(options, name) for name in ("system", "reader", "writer")},
        }
        words = [f"--{key}={text}" for key, text in given.items()]
        command = [sys.executable, "-m", "benchmarks.interleaved.job", *words]
        # Parts of NeMo Curator do not pass on the options that they were given, so it finds them in
        # the environment too.
        environment = {**os.environ, **({} if is_ours else store.environment())}
        known = store.options() if is_ours else store.fsspec_options()
        environment["BENCHMARK_STORAGE_OPTIONS"] = json.dumps(known)
        start = time.perf_counter()
        subprocess.run(command, env=environment, check=True)
        seconds, asked = time.perf_counter() - start, store.asked()
        found = json.loads((job / "metrics.json").read_text())
        # The server keeps an object as a file; the record of the data set is not an object.
        directory = store.server.directory / BUCKET
        (directory / options.data.name / RECORD).write_bytes((options.data / RECORD).read_bytes())
        checked = check_entry(directory / options.data.name, found, directory / "out")
    if checked["failures"]:
        raise WrongRowsError("; ".join(checked["failures"]))
    return found | checked | {"job_s": seconds, **asked}


if __name__ == "__main__":
    run_entry(CurationOptions, measure)
