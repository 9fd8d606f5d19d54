"""Jobs with a checkpoint on Ray: lost workers, a lost cluster, workers that outlive the driver."""

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
from promptness import HANGS_S
from resume_process import Case, ResumeJob, is_alive, wait_for

pytest.importorskip("ray")
pytestmark = [pytest.mark.ray, pytest.mark.slow]

#: Of one call, of which there are sixteen: a job of many seconds, so that its workers are
#: lost at work.
PACE = 0.5
OPTIONS = {"executor": "ray", "workers": 2, "pace": PACE}


def a_worker(case: Case, job: ResumeJob) -> int | None:
    wait_for(lambda: any(map(is_alive, case.processes())), job)
    return next(filter(is_alive, case.processes()), None)


def lose_a_worker(directory: Path, seed: int) -> None:
    case, rng = Case(directory, "explode", files=4), random.Random(seed)
    job = case.start(**OPTIONS)
    for _ in range(1 if seed == 0 else 2):
        if worker := a_worker(case, job):
            time.sleep(rng.random() * 2 * PACE)
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
    code, outcome = job.finish(timeout=2 * HANGS_S)

    assert code == 0, outcome
    assert len(case.processes()) > 2, "no worker was lost in its work"
    case.assert_exact()


def lose_the_driver(directory: Path, seed: int) -> None:
    """And with it the cluster, which this driver has started.

    One worker sleeps, and wakes when the job is done.
    """
    case, rng = Case(directory, "drop", files=4), random.Random(seed)
    job = case.start(**OPTIONS)
    worker = a_worker(case, job)
    time.sleep(rng.random() * 8 * PACE)
    if worker is not None and is_alive(worker):
        os.kill(worker, signal.SIGSTOP)
    try:
        job.send(signal.SIGKILL)
        job.finish()
        case.assert_nothing_twice()
        if seed % 2:
            case.finish(**OPTIONS)
        else:
            case.finish_here()
        case.assert_exact()
        files = {path.name: path.stat().st_ino for path in case.out.iterdir()}
    finally:
        if worker is not None:
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGCONT)
    deadline = time.monotonic() + HANGS_S
    while worker is not None and is_alive(worker) and time.monotonic() < deadline:
        time.sleep(0.05)

    assert {
        path.name: path.stat().st_ino
        for path in case.out.iterdir()
        if not path.name.startswith(".")
    } == files
    case.finish_here()
    case.assert_exact()


def test_lost_workers_are_made_up_for_within_the_run(tmp_path) -> None:
    lose_a_worker(tmp_path, 0)


def test_lost_cluster_is_made_up_for_on_one_machine(tmp_path) -> None:
    lose_the_driver(tmp_path, 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 11))
def test_lost_workers_of_ten_runs_are_made_up_for(seed, tmp_path) -> None:
    lose_a_worker(tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 11))
def test_lost_clusters_of_ten_runs_are_made_up_for(seed, tmp_path) -> None:
    lose_the_driver(tmp_path, seed)
