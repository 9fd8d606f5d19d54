"""Nodes are lost at each system call of the tasks of a shardmill job, on a cluster of three nodes.

A worker is stopped at the call when its node is killed. Then it is killed too, or it wakes when
the job has ended, as after a network failure. Every row is there once, and no part
of a file is left.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

pytest.importorskip("ray")

from promptness import HANGS_S
from ray_nodes import Driver, Nodes
from resume_process import Case, is_alive

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed"),
]


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    nodes = Nodes(head_cpus=0)
    yield nodes
    nodes.close()


def files_of(case: Case) -> dict[str, int]:
    """Files with their identities, but for hidden ones, which the next run removes."""
    names = {path.name: path.stat().st_ino for path in case.out.iterdir()}
    return {name: number for name, number in names.items() if not name.startswith(".")}


def wake(process: int) -> None:
    """Wakes a worker, and waits until it has found that its node is gone."""
    deadline = time.monotonic() + HANGS_S
    while is_alive(process):
        assert time.monotonic() < deadline, "a worker outlives its node"
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGCONT)
        time.sleep(0.05)


#: The system calls of a task after it has got its first rows, in their order: each output file is
#: made, written and synced; with a checkpoint, the task then records what it has done.
WITHOUT = [("flock", 1), ("fsync", 1), ("rename", 1), ("fsync", 2)]
WITH = [
    ("flock", 1),
    *(("fsync", number) for number in range(1, 6)),
    ("renameat2", 1),
    ("fsync", 6),
    ("rename", 1),
    ("rename", 2),
]


@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_job_that_loses_a_node_at_each_step_writes_every_row_once(
    nodes, tmp_path, has_checkpoint
) -> None:
    calls = WITH if has_checkpoint else WITHOUT
    case, moments = Case(tmp_path, "explode", files=len(calls) + 2), tmp_path / "moments"
    moments.mkdir()
    # A single task reads the first file, which decides the columns of results.
    for number, (call, count) in enumerate(calls, 1):
        (moments / str(number)).write_text(f"{call} {count}")
    options = {"executor": "ray", "workers": 4, "stop": f"{case.rows}:{moments}"}
    if not has_checkpoint:
        options["checkpoint"] = ""
    driver = Driver(nodes, case.arguments(**options), tmp_path / "log")
    left, asleep = set(range(1, len(calls) + 1)), []

    def stopped() -> int | None:
        logs = {number: moments / f"{number}.log" for number in left}
        found = (n for n, log in logs.items() if log.exists() and "stopped by" in log.read_text())
        return next(found, None)

    while left and driver.wait_for(lambda: stopped() is not None):
        left.remove(number := stopped())
        process, node = (moments / f"{number}.worker").read_text().split()
        nodes.lose_node(node)
        if has_checkpoint and number % 2:
            asleep.append(int(process))
        else:
            os.kill(int(process), signal.SIGKILL)
        nodes.replace()
    assert driver.finish() == 0, driver.log()
    assert not left, f"a task makes fewer calls than {[calls[number - 1] for number in left]}"
    case.assert_exact()
    before = files_of(case)
    for process in asleep:
        wake(process)
    assert files_of(case) == before
    case.finish_here(**({} if has_checkpoint else {"checkpoint": ""}))
    case.assert_exact()
