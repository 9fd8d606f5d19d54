"""Processes that begin with nothing: they import, read a little of the disk, and wait for the word to go.

Enters: what to read. Leaves: what each has measured. Called by ``opening`` and ``ranks``. Invariant: a process has sent no request
before its clock starts; all of a call begin at the same time.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.remote.clock import timed_pass

_ROOT = Path(__file__).resolve().parents[2]


def run_alone(jobs: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Runs one process a job. A job is the options of a loader, with ``source``, ``warm_up`` (a local folder) and ``batches``.

    Raises:
        RuntimeError: If one of them fails.
    """
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.remote.alone"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=_ROOT,
        )
        for _ in jobs
    ]
    try:
        for process, job in zip(processes, jobs, strict=True):
            _tell(process, json.dumps(job))
        for process in processes:
            _hear(process)
        for process in processes:
            _tell(process, "go")
        return [json.loads(_hear(process)) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


def _hear(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        msg = (
            f"a process of the benchmark ended with code {process.wait()}\nhint: its message is in the log of the entry"
        )
        raise RuntimeError(msg)
    return line


def main() -> None:
    """One process."""
    import shardmill as sm

    job = json.loads(sys.stdin.readline())
    source, warm_up, batches = job.pop("source"), job.pop("warm_up"), job.pop("batches")
    passes = job.pop("passes", 1)
    plain = {name: value for name, value in job.items() if name not in ("storage_options", "rank", "world_size")}
    timed_pass(lambda: sm.Loader(warm_up, rank=0, world_size=1, **plain), most_batches=1)
    print("ready", flush=True)
    sys.stdin.readline()
    found = [
        timed_pass(lambda: sm.Loader(source, **job), sums=batches is None, most_batches=batches) for _ in range(passes)
    ]
    print(json.dumps([vars(one) for one in found]), flush=True)


if __name__ == "__main__":
    main()
