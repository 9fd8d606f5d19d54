"""Kill −9 of jobs with a checkpoint.

Whatever was visible stays, nothing is there twice, and in the end every row is there once.
"""

import random
import signal
import time
from pathlib import Path

import pytest
from breadth import beginning, examples
from resume_job import DOCUMENTS
from resume_process import Case, ResumeJob, hidden, wait_for
from shardmill.errors import CheckpointMismatchError

#: First one whose function makes no row, one or several of each, and one of documents.
KINDS = ("explode", "wds", "double", "drop", "parquet")
#: Long enough for a kill to find the job at work, on a machine that is busy.
PACE = 0.1


def kill(case: Case, job: ResumeJob, rng: random.Random, number: int, longest: float) -> bool:
    """At a random moment, while files are in the making, or as soon as there is a record.

    True when it did not come too late.
    """
    known = set(case.units())
    if number % 3 == 1:
        wait_for(lambda: hidden(case.out), job)
    elif number % 3 == 2:
        wait_for(lambda: set(case.units()) - known, job)
    time.sleep(rng.random() * (longest if number % 3 == 0 else PACE))
    job.send(signal.SIGKILL)
    return job.finish()[0] == -signal.SIGKILL


def kill_and_resume(directory: Path, kind: str, kills: int) -> None:
    case = Case(directory, kind)
    rng = random.Random(f"{kind} {kills}")
    # Four calls a file, eight files, two threads.
    longest = 16 * PACE
    hits, done = 0, set()
    for number in range(kills):
        job = case.start(pace=PACE)
        hits += kill(case, job, rng, number, longest)
        case.assert_nothing_twice()
        if kind not in DOCUMENTS:
            again = {row // case.rows for row in case.called()} & done
            assert not again, f"rows of the files {again} were processed although they were done"
            assert done <= case.files_done(), "what was visible is gone"
            done = case.files_done()
        if case.visible() == case.expected:
            case.finish_here()
            case.assert_exact()
            case.forget()
            done = set()
    assert hits >= kills // 2, "most kills came too late"
    case.finish_here()
    case.assert_exact()
    assert case.finish_here().splits == []
    assert case.called() == set()
    case.assert_exact()


@pytest.mark.parametrize("kind", beginning(2, KINDS))
def test_killed_job_is_resumed_and_every_row_is_there_once(kind, tmp_path) -> None:
    kill_and_resume(tmp_path, kind, kills=examples(3, 2))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_forty_kills_of_each_kind_lose_and_repeat_no_row(kind, tmp_path) -> None:
    kill_and_resume(tmp_path, kind, kills=40)


def sleep_and_wake(directory: Path, seed: int) -> str:
    """A run sleeps while another one takes over and ends its job. Returns how the sleeper ended."""
    case = Case(directory, "explode")
    rng = random.Random(seed)
    sleeper = case.start(pace=PACE)
    try:
        wait_for(case.leases, sleeper)
        wait_for(lambda: seed % 2 == 0 or hidden(case.out), sleeper)
        time.sleep(rng.random() * 10 * PACE)
        sleeper.send(signal.SIGSTOP)
        if sleeper.process.poll() is None and case.leases() and not case.is_released():
            code, refused = case.start().finish()
            assert (code, refused["error"]) == (1, "CheckpointBusyError"), refused
            assert f"process {sleeper.process.pid} on" in refused["message"]
        case.break_locks()
        case.finish_here()
        assert case.visible() == case.expected
        files = {
            path.name: path.stat().st_ino
            for path in case.out.iterdir()
            if not path.name.startswith(".")
        }
    finally:
        sleeper.send(signal.SIGCONT)
    _code, outcome = sleeper.finish()

    assert case.visible() == case.expected
    assert {
        path.name: path.stat().st_ino
        for path in case.out.iterdir()
        if not path.name.startswith(".")
    } == files
    case.finish_here()
    case.assert_exact()
    return outcome.get("error", "")


def test_run_that_was_overtaken_in_its_sleep_changes_nothing_when_it_wakes(tmp_path) -> None:
    outcomes = [sleep_and_wake(tmp_path / str(seed), seed) for seed in range(2)]

    assert set(outcomes) <= {"CheckpointBusyError", ""}
    assert "CheckpointBusyError" in outcomes


@pytest.mark.slow
def test_thirty_sleepers_change_nothing_when_they_wake(tmp_path) -> None:
    outcomes = [sleep_and_wake(tmp_path / str(seed), seed) for seed in range(30)]

    assert set(outcomes) <= {"CheckpointBusyError", ""}
    assert outcomes.count("CheckpointBusyError") > 15


def test_two_jobs_that_begin_at_once_on_one_checkpoint_do_each_row_once(tmp_path) -> None:
    case = Case(tmp_path, "explode")
    jobs = [case.start(pace=PACE) for _ in range(examples(3, 2))]
    outcomes = [job.finish()[1] for job in jobs]

    assert [outcome.get("error") for outcome in outcomes].count(None) >= 1
    assert {outcome.get("error") for outcome in outcomes} <= {None, "CheckpointBusyError"}
    case.assert_exact()


def test_interrupted_run_leaves_no_hidden_file_and_is_resumed(tmp_path) -> None:
    case = Case(tmp_path, "explode")
    job = case.start(pace=PACE)
    wait_for(case.units, job)
    job.send(signal.SIGINT)
    assert job.finish()[1]["error"] == "KeyboardInterrupt"
    assert hidden(case.out) == []
    case.assert_nothing_twice()
    case.finish_here()
    case.assert_exact()


@pytest.mark.parametrize("moment", ["the lease", "its work", "a commit"])
def test_killed_run_that_overwrites_leaves_nothing_of_what_was_there(moment, tmp_path) -> None:
    """Whatever the first run has done of the emptying, and of the work."""
    case = Case(tmp_path, "explode")
    case.out.mkdir()
    stranger = case.out / "stranger.parquet"
    stranger.write_bytes(b"no Parquet")
    job = case.start(pace=PACE, mode="overwrite")
    wait_for(
        {"the lease": case.leases, "its work": lambda: hidden(case.out), "a commit": case.units}[
            moment
        ],
        job,
    )
    job.send(signal.SIGKILL)
    job.finish()
    try:
        case.finish_here(mode="overwrite")
    except CheckpointMismatchError:
        case.finish_here()
    assert not stranger.exists()
    case.assert_exact()
