"""Loaders in processes that begin with nothing: they import, read a little of the disk, and wait for the word to go.

Enters: what to read. Leaves: what each has measured. Called by ``opening`` and ``ranks``. Invariant: a process has sent no request
before its clock starts; all of a call begin at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.remote.children import answer, job_of_child, ready, run_children
from benchmarks.remote.clock import Pass, timed_pass


def run_alone(jobs: Sequence[dict[str, Any]]) -> list[Pass]:
    """Runs one process a job: the options of a loader, ``source``, ``warm_up`` (a local file), and ``batches``, all when None."""
    return [Pass(**found) for found in run_children("benchmarks.remote.alone", jobs)]


def main() -> None:
    """One process."""
    import shardmill as sm

    job = job_of_child()
    source, warm_up, batches = job.pop("source"), job.pop("warm_up"), job.pop("batches")
    plain: dict[str, Any] = {"batch_size": job["batch_size"], "output": job["output"], "rank": 0, "world_size": 1}
    timed_pass(lambda: sm.Loader(warm_up, **plain), most_batches=1)
    ready()
    answer(vars(timed_pass(lambda: sm.Loader(source, **job), sums=batches is None, most_batches=batches)))


if __name__ == "__main__":
    main()
