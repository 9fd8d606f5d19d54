"""A job with a checkpoint that dies, or falls asleep, at an exact system call of its protocol; and the order of those calls."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from resume_process import Case

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")

CALLS = ("fsync", "rename", "renameat2", "link", "unlink", "rmdir", "flock", "utimensat")
# The start of Python makes folders and opens files too; the others are the protocol's alone.
SAMPLED = [
    ("fsync", 1),
    ("fsync", 5),
    ("fsync", 9),
    ("rename", 1),
    ("rename", 2),
    ("renameat2", 1),
    ("renameat2", 3),
    ("unlink", 2),
]


def traced(case: Case, *injection: str, log: Path, **options: object) -> subprocess.Popen[str]:
    command = ["strace", "-f", "-y", "-qq", "-o", str(log), "-e", f"trace={','.join(CALLS)}", *injection]
    return subprocess.Popen(
        [*command, sys.executable, "-B", *case.arguments(workers=1, **options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    if "ptrace" in err or "Operation not permitted" in err:
        pytest.skip("this user may not trace")
    return process.returncode, out, err


def small(folder: Path, kind: str = "explode") -> Case:
    return Case(folder, kind, files=3, rows=12)


def half_done(case: Case) -> None:
    """A run before, with one file less, so that the next one has records to pack, files to collect and ids to skip."""
    last = max(case.source.iterdir())
    aside = last.with_suffix(".aside")
    last.rename(aside)
    case.finish_here()
    aside.rename(last)
    stale = case.out / ".shardmill-term-0123-unit-attempt-1.attempt"
    stale.write_bytes(b"of a run that died")


def die_at(folder: Path, call: str, number: int, *, is_resumed: bool = False, **options: object) -> bool:
    """Kills a job when it is about to make its call of this number, and resumes it; False when it makes fewer of them."""
    case = small(folder)
    if is_resumed:
        half_done(case)
    code, _out, err = finished(
        traced(case, "-e", f"inject={call}:signal=KILL:when={number}", log=folder / "log", **options)
    )
    assert code in (0, -signal.SIGKILL, 128 + signal.SIGKILL), err
    case.assert_nothing_twice()
    case.finish_here()
    case.assert_exact()
    return code != 0


@pytest.mark.parametrize(("call", "number"), SAMPLED)
def test_job_that_dies_at_a_system_call_is_resumed_exactly(call, number, tmp_path) -> None:
    die_at(tmp_path, call, number, is_resumed=number % 2 == 1)


@pytest.mark.slow
@pytest.mark.parametrize("is_resumed", [False, True])
@pytest.mark.parametrize("call", CALLS)
def test_job_may_die_at_each_system_call(call, is_resumed, tmp_path) -> None:
    number = 1
    while die_at(tmp_path / str(number), call, number, is_resumed=is_resumed):
        number += 1
    assert number > 1 or call in ("link", "utimensat", "rename", "renameat2", "rmdir"), (
        f"the job makes no call of {call}"
    )


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
def test_job_may_die_while_it_deletes_its_checkpoint(call, tmp_path) -> None:
    """Afterwards the job is done, or there is no checkpoint; then it is done again, under the same names."""
    number = 1
    while die_at(tmp_path / str(number), call, number, delete=1):
        number += 1


def sleep_at(folder: Path, call: str, number: int) -> str | None:
    """Stops a job before its call of this number, lets another run end the job, and wakes it. Returns its error; None when it made fewer calls."""
    case, log = small(folder), folder / "log"
    half_done(case)
    process = traced(case, "-e", f"inject={call}:signal=STOP:when={number}", log=log)
    try:
        while process.poll() is None and not (log.exists() and "stopped by SIGSTOP" in log.read_text()):
            time.sleep(0.01)
        if process.poll() is not None:
            return None
        # Names itself: every thread of it stands still.
        [sleeper] = (
            int(child) for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        )
        case.break_locks()
        case.finish_here()
        assert case.visible() == case.expected
        os.kill(sleeper, signal.SIGCONT)
        _code, out, err = finished(process)
    finally:
        process.kill()
        process.communicate()
    assert case.visible() == case.expected, (call, number)
    case.finish_here()
    case.assert_exact()
    outcome = json.loads(out.splitlines()[-1]) if "{" in out else {"error": err}
    return outcome.get("error", "")


@pytest.mark.parametrize(("call", "number"), [("fsync", 3), ("fsync", 6), ("renameat2", 1)])
def test_job_that_slept_at_a_system_call_changes_nothing(call, number, tmp_path) -> None:
    assert sleep_at(tmp_path, call, number) in (None, "", "CheckpointBusyError")


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
def test_job_may_sleep_at_each_system_call(call, tmp_path) -> None:
    for number in range(1, 100):
        outcome = sleep_at(tmp_path / str(number), call, number)
        assert outcome in (None, "", "CheckpointBusyError"), number
        if outcome is None:
            break


def test_record_is_made_after_all_of_its_files_are_synced_and_before_they_get_their_names(tmp_path) -> None:
    case, log = small(tmp_path), tmp_path / "log"
    code, _out, err = finished(traced(case, log=log))
    assert code == 0, err
    synced: set[str] = set()
    seen = {"record": 0, "output": 0}
    recorded: set[str] = set()
    for line in log.read_text().splitlines():
        if found := re.search(r" fsync\(\d+<([^>]+)>", line):
            synced.add(found[1])
        elif found := re.search(r' rename(?:at2?)?\((?:[^"]*)"([^"]+)", (?:[^"]*)"([^"]+)".* = 0', line):
            source, target = found[1], found[2]
            if "/units-" in target:
                seen["record"] += 1
                assert source in synced, "the record itself"
                assert any(path.endswith(".attempt") for path in synced)
                assert str(case.out) in synced, "the names of the outputs"
                recorded |= {path for path in synced if path.endswith(".attempt")}
                synced.discard(str(case.out))
            elif target.startswith(str(case.out)):
                seen["output"] += 1
                assert source in recorded, f"{source} got its name before its record"
    assert seen == {"record": 3, "output": 3}
    assert str(case.out) in synced, "the final names, at the end"
