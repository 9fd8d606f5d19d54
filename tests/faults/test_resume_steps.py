"""A job with a checkpoint that dies, or falls asleep, at an exact system call of its protocol.

The order of those calls is tested too.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import pytest
from breadth import beginning
from promptness import HANGS_S
from resume_process import Case

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")

CALLS = ("fsync", "rename", "renameat2", "link", "unlink", "rmdir", "flock", "utimensat")
# Each thread counts its own calls: the first ones are those of the run, those with higher numbers
# are of threads that commit.
SAMPLED = beginning(
    8,
    [
        *(("fsync", number, number % 2 == 0) for number in (2, 15, 18)),
        *(("renameat2", number, number % 2 == 0) for number in (3, 4)),
        ("rename", 3, True),
        ("unlink", 2, True),
        ("rmdir", 1, True),
        ("rename", 2, False),
        *(("fsync", number, number % 2 == 0) for number in (7, 14, 16, 17, 19)),
        *(("renameat2", number, number % 2 == 0) for number in (1, 5)),
    ],
)


def traced(case: Case, *injection: str, log: Path, **options: object) -> subprocess.Popen[str]:
    command = [
        "strace",
        "-f",
        "-y",
        "-qq",
        "-o",
        str(log),
        "-e",
        f"trace={','.join(CALLS)}",
        *injection,
    ]
    return subprocess.Popen(
        [*command, sys.executable, "-B", *case.arguments(workers=1, **options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=HANGS_S)
    if "ptrace" in err or "Operation not permitted" in err:
        pytest.skip("this user may not trace")
    return process.returncode, out, err


def small(directory: Path, kind: str = "explode") -> Case:
    return Case(directory, kind, files=10, rows=6)


def half_done(case: Case) -> None:
    """A run before, over two files.

    So the next one has records to pack, files to collect and ids to skip.
    """
    later = sorted(case.source.iterdir())[2:]
    for file in later:
        file.rename(file.with_suffix(".aside"))
    case.finish_here()
    for file in later:
        file.with_suffix(".aside").rename(file)
    job = case.job_directory()
    assert job is not None
    stale = case.out / f".shardmill-job-{job.name}-0123-unit-attempt-1.attempt"
    stale.write_bytes(b"of a run that died")


def die_at(
    directory: Path, call: str, number: int, *, is_resumed: bool = False, **options: object
) -> bool:
    """Kills a job when it is about to make its call of this number, and resumes it.

    False when it makes fewer of them.
    """
    case = small(directory)
    if is_resumed:
        half_done(case)
    code, _out, err = finished(
        traced(
            case, "-e", f"inject={call}:signal=KILL:when={number}", log=directory / "log", **options
        )
    )
    assert code in (0, -signal.SIGKILL, 128 + signal.SIGKILL), err
    case.assert_nothing_twice()
    case.finish_here()
    case.assert_exact()
    return code != 0


@pytest.mark.parametrize("death", SAMPLED, ids=str)
def test_job_that_dies_at_a_system_call_is_resumed_exactly(death, tmp_path) -> None:
    call, number, is_resumed = death
    assert die_at(tmp_path, call, number, is_resumed=is_resumed), "it makes fewer of these calls"


@pytest.mark.slow
@pytest.mark.parametrize("is_resumed", [False, True])
@pytest.mark.parametrize("call", CALLS)
def test_job_may_die_at_each_system_call(call, is_resumed, tmp_path) -> None:
    number = 1
    while die_at(tmp_path / str(number), call, number, is_resumed=is_resumed):
        number += 1


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
def test_job_may_die_while_it_deletes_its_checkpoint(call, tmp_path) -> None:
    """Afterwards the job is done, or there is no checkpoint.

    Then it is done again, under the same names.
    """
    number = 1
    while die_at(tmp_path / str(number), call, number, delete=1):
        number += 1


def woken(case: Case, call: str, number: int, meanwhile: Callable[[], object]) -> str | None:
    """Stops a job before its call of this number, and wakes it after something else.

    Returns its error; None when it made fewer calls.
    """
    log = case.source.parent / "log"
    process = traced(case, "-e", f"inject={call}:signal=STOP:when={number}", log=log)
    sleeper = None
    try:
        while process.poll() is None and not (
            log.exists() and "stopped by SIGSTOP" in log.read_text()
        ):
            time.sleep(0.01)
        if process.poll() is not None:
            finished(process)
            return None
        # Every thread of it stands still.
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        [sleeper] = map(int, children.read_text().split())
        meanwhile()
        # Other threads stop at calls of the same number.
        while process.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(sleeper, signal.SIGCONT)
            time.sleep(0.02)
        _code, out, err = finished(process)
    finally:
        if sleeper is not None and process.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(sleeper, signal.SIGKILL)
        process.kill()
        process.wait()
    outcome = json.loads(out.splitlines()[-1]) if "{" in out else {"error": err}
    return outcome.get("error", "")


def sleep_at(directory: Path, call: str, number: int) -> str | None:
    """Another run takes the job over and ends it, while the first one sleeps."""
    case = small(directory)
    half_done(case)

    def take_over() -> None:
        case.break_locks()
        # The first run may sleep while it holds a lock of its cache.
        with patch.dict(os.environ, XDG_CACHE_HOME=str(directory / "cache")):
            case.finish_here()
        assert case.visible() == case.expected

    error = woken(case, call, number, take_over)
    case.finish_here()
    case.assert_exact()
    return error


def test_jobs_with_checkpoints_of_their_own_may_share_an_output_directory(tmp_path) -> None:
    """The first one is about to make a record when the other one begins.

    Its files have hidden names.
    """
    one, other = small(tmp_path / "one"), small(tmp_path / "other", "drop")
    other.out = one.out
    assert woken(one, "renameat2", 5, other.finish_here) == ""
    one.finish_here()
    assert one.visible() == one.expected + other.expected


@pytest.mark.parametrize(
    "sleep",
    beginning(3, [("fsync", 15), ("renameat2", 4), ("rename", 2), ("fsync", 6), ("fsync", 18)]),
    ids=str,
)
def test_job_that_slept_at_a_system_call_changes_nothing(sleep, tmp_path) -> None:
    call, number = sleep
    assert sleep_at(tmp_path, call, number) in (None, "", "CheckpointBusyError")


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
def test_job_may_sleep_at_each_system_call(call, tmp_path) -> None:
    for number in range(1, 100):
        outcome = sleep_at(tmp_path / str(number), call, number)
        assert outcome in (None, "", "CheckpointBusyError"), number
        if outcome is None:
            break


def test_record_is_made_after_all_of_its_files_are_synced_and_before_they_get_their_names(
    tmp_path,
) -> None:
    """So a loss of power, which takes what was not synced, takes no row of a record."""
    case, log = small(tmp_path), tmp_path / "log"
    code, _out, err = finished(traced(case, log=log))
    assert code == 0, err
    synced: dict[str, int] = {}
    recorded: dict[str, int] = {}
    named: list[str] = []
    for moment, line in enumerate(log.read_text().splitlines()):
        if found := re.search(r" fsync\(\d+<([^>]+)>", line):
            synced[found[1]] = moment
        elif found := re.search(r' rename(?:at2?)?\([^"]*"([^"]+)", [^"]*"([^"]+)"', line):
            source, target = found[1], found[2]
            if "/units-" in target:
                unit = Path(target).name
                files = [path for path in synced if f"-{unit}-" in path]
                assert len(files) == 2, "rows, and ids"
                assert all(synced[path] < synced[str(Path(path).parent)] for path in files), (
                    "names after contents"
                )
                assert source in synced, "the record itself"
                recorded[unit] = moment
            elif source.endswith(".attempt"):
                assert any(f"-{unit}-" in source for unit in recorded), (
                    f"{source} got its name before its record"
                )
                named.append(target)
    assert len(recorded) == 10
    assert len(named) == 20
    assert all(synced[str(Path(path).parent)] > max(recorded.values()) for path in named), (
        "the final names, at the end"
    )
