"""Kill −9 of the driver of a Ray Data job with our checkpoint.

Once it has been repeated to its end, every row is there once.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from promptness import HANGS_S

pytest.importorskip("ray")
pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq

from benchmarks.runner.processes import ProcessTree

JOB = Path(__file__).with_name("ray_checkpoint_job.py")
ROWS_IN_FILE = 5

pytestmark = [pytest.mark.ray, pytest.mark.slow]


class Driver:
    """A driver with a Ray of its own, whose processes die with it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        with (directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    str(JOB),
                    *(str(directory / name) for name in ("in", "checkpoint", "out")),
                ],
                env=os.environ | {"XDG_CACHE_HOME": str(directory / "cache")},
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )
        self.tree = ProcessTree(self.process.pid)

    def log(self) -> str:
        return (self.directory / "log").read_text()[-2000:]

    def kill(self, *, with_workers: bool) -> None:
        self.tree.sample()
        if with_workers:
            self.tree.kill()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        # A worker that outlives its driver goes on writing for a moment; who resumes must wait for
        # it, here as anywhere.
        time.sleep(1)
        self.tree.kill()


def committed(directory: Path) -> set[str]:
    return {path.name for path in directory.glob("checkpoint/*.parquet")} - pending(directory)


def pending(directory: Path) -> set[str]:
    return {path.name for path in directory.glob("checkpoint/*.pending.parquet")}


def kill_repeatedly(directory: Path, files: int, kills: int) -> int:
    """Kills so often, resumes to the end, and checks every row.

    Returns how many kills left a write in the middle.
    """
    rng = random.Random(f"ray {kills}")
    (directory / "in").mkdir()
    for number in range(files):
        ids = pa.array([f"{number}-{row}" for row in range(ROWS_IN_FILE)])
        pq.write_table(pa.table({"id": ids}), directory / "in" / f"{number}.parquet")
    hits = 0
    for kill in range(kills):
        is_aimed = kill % 2 == 0
        old, done = pending(directory), len(committed(directory))
        driver, aim = Driver(directory), done + rng.randrange(3)
        wait_until(
            driver,
            lambda aim=aim: (
                len(committed(directory)) >= aim and (directory / "checkpoint").exists()
            ),
        )
        if is_aimed:
            wait_until(driver, lambda old=old: bool(pending(directory) - old))
        time.sleep(rng.random() * (0.02 if is_aimed else 0.3))
        driver.kill(with_workers=is_aimed)
        hits += bool(pending(directory) - old)
    assert len(committed(directory)) < files, "the last run has something to do"
    last = Driver(directory)
    last.process.wait(timeout=300)
    last.tree.kill()
    assert last.process.returncode == 0, last.log()
    written = sorted(
        value
        for path in (directory / "out").iterdir()
        for value in pq.read_table(path, columns=["id"])["id"].to_pylist()
    )
    assert written == sorted(
        f"{number}-{row}" for number in range(files) for row in range(ROWS_IN_FILE)
    )
    return hits


def wait_until(driver: Driver, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 2 * HANGS_S
    while not condition():
        assert driver.process.poll() is None, driver.log()
        assert time.monotonic() < deadline, "nothing happens"
        time.sleep(0.002)


def test_killed_driver_is_resumed_without_loss_or_repetition(tmp_path) -> None:
    # Enough files that a driver writes only a few of them before it is killed,
    # however late that is.
    hits = kill_repeatedly(tmp_path, files=32, kills=3)
    print("hits", hits)


@pytest.mark.slow
def test_driver_killed_thirty_times_is_resumed_without_loss_or_repetition(tmp_path) -> None:
    assert kill_repeatedly(tmp_path, files=160, kills=30) > 5
