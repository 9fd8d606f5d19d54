"""Kill −9 and Ctrl-C in mid-write: nothing partial is visible, a new run gives the same files."""

import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
from breadth import covering, examples
from job import KINDS, READERS, WRITERS
from job_process import Job, assert_whole, contents, run_job, staging
from promptness import HANGS_S, assert_prompt

MAX_STOP_S = 0.5


def wait_for(condition, timeout: float = HANGS_S) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "nothing happens"
        time.sleep(0.001)


def held(out: Path) -> dict[str, object]:
    """Options of a job that stops with a file open, until there is a file at ``gate_of(out)``."""
    return {"map": f"held:{gate_of(out)}", "memory_bytes": 1 << 20}


def gate_of(out: Path) -> Path:
    return out.parent / "gate"


def kill_while_a_file_is_open(kind: str, source: Path, out: Path) -> None:
    """Chunks of 1 MB, of which the second waits in Python while the file of its shard is open.

    This kill cannot come too late.
    """
    job = Job(kind, source, out, **held(out))
    wait_for(lambda: staging(out))
    job.send(signal.SIGKILL)
    job.finish()
    assert staging(out), "the file in the making is left, for the next run to remove"
    assert all(path.match(".shardmill-*") for path in out.iterdir()), "nothing has a final name"


def kill_repeatedly(
    kind: str, source: Path, out: Path, reference: dict[str, bytes], kills: int
) -> None:
    rng = random.Random(f"{kind} {kills}")
    whole = Job(kind, source, out)
    start = time.monotonic()
    assert whole.finish()[0] == 0
    longest = time.monotonic() - start
    shutil.rmtree(out)
    kill_while_a_file_is_open(kind, source, out)
    hits = kill = 0
    while kill < kills or hits < kills // 3:
        assert kill < 10 * kills, "most kills came too late"
        if kill % 3 == 2:
            shutil.rmtree(out, ignore_errors=True)
        job = Job(kind, source, out)
        if kill % 2:
            # Into the middle of the writing.
            wait_for(lambda: staging(out) or job.process.poll() is not None)  # noqa: B023
            time.sleep(rng.random() * longest / 4)
        else:
            time.sleep(rng.random() * longest)
        job.send(signal.SIGKILL)
        code, _ = job.finish()
        is_hit = code == -signal.SIGKILL
        hits += is_hit
        kill += 1
        # The machine may have become faster since the whole run.
        longest *= 1 if is_hit else 0.8
        assert_whole(out)
        for name, data in contents(out).items() if out.exists() else ():
            assert name.startswith(".") or data == reference[name]
    outcome = run_job(kind, source, out)
    assert contents(out) == reference
    assert sorted(outcome["outputs"]) == sorted(reference)


@covering(1, reader=READERS, writer=WRITERS)
def test_killed_runs_leave_nothing_partial_and_the_next_one_completes(
    reader, writer, shards, references, tmp_path
) -> None:
    kind = f"{reader}-{writer}"
    kill_repeatedly(kind, shards[reader], tmp_path / "out", references[kind], kills=examples(5, 2))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_fifty_kills_leave_nothing_partial_and_the_next_run_completes(
    kind, shards, references, tmp_path
) -> None:
    kill_repeatedly(kind, shards[kind.split("-")[0]], tmp_path / "out", references[kind], kills=50)


def test_next_run_removes_stale_staging_and_spares_that_of_a_living_run(
    shards, references, tmp_path
) -> None:
    out = tmp_path / "out"
    dead = Job("wds-parquet", shards["wds"] / "shard0.tar", out, **held(out))
    wait_for(lambda: staging(out))
    dead.send(signal.SIGKILL)
    dead.finish()
    stale = staging(out)
    assert len(stale) == 1

    alive = Job("wds-parquet", shards["wds"] / "shard1.tar", out, **held(out))
    wait_for(lambda: not stale[0].exists() and staging(out))
    living = staging(out)
    run_job("wds-parquet", shards["wds"] / "shard2.tar", out)
    assert staging(out) == living
    gate_of(out).touch()
    code, outcome = alive.finish()
    assert (code, len(outcome["outputs"])) == (0, 1)
    assert staging(out) == []
    assert_whole(out)
    written = contents(out)
    assert len(written) == 2
    assert all(references["wds-parquet"].keys() >= {name} for name in written)


def interrupt(job: Job) -> float:
    """How long it takes the job to hear of it; endless when the job was done before."""
    sent = time.monotonic()
    job.send(signal.SIGINT)
    code, outcome = job.finish()
    if code == 0:
        return float("inf")
    assert outcome["error"] == "KeyboardInterrupt", outcome
    assert code == -signal.SIGINT, outcome["stderr"]
    assert "Traceback" in outcome["stderr"]
    assert "Fatal" not in outcome["stderr"]
    return outcome["seen_at"] - sent


@covering(1, reader=READERS, writer=WRITERS)
def test_ctrl_c_ends_a_run_at_once_and_leaves_no_staging_file(
    reader, writer, raw_shards, tmp_path
) -> None:
    out = tmp_path / "out"

    def interrupted() -> float:
        job = Job(f"{reader}-{writer}", raw_shards[reader], out)
        wait_for(lambda: staging(out) or job.process.poll() is not None)
        seconds = interrupt(job)
        assert staging(out) == []
        assert_whole(out)
        shutil.rmtree(out)
        return seconds

    assert_prompt(MAX_STOP_S, interrupted)


def test_ctrl_c_ends_a_python_stage_that_sleeps_in_small_steps(shards, tmp_path) -> None:
    out = tmp_path / "out"

    def interrupted() -> float:
        job = Job("wds-parquet", shards["wds"], out, map="slow")
        assert job.process.stdout is not None
        assert job.process.stdout.readline() == "at work\n"
        seconds = interrupt(job)
        assert staging(out) == []
        return seconds

    assert_prompt(MAX_STOP_S, interrupted)


def test_ctrl_c_in_a_python_stage_removes_the_open_file(shards, tmp_path) -> None:
    out = tmp_path / "out"

    def interrupted() -> float:
        job = Job("wds-wds", shards["wds"], out, **held(out))
        wait_for(lambda: staging(out))
        seconds = interrupt(job)
        assert staging(out) == []
        return seconds

    assert_prompt(MAX_STOP_S, interrupted)


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("mode", ["resume", "overwrite"])
def test_content_is_synced_before_the_name_appears_and_the_directory_after(
    mode, shards, tmp_path
) -> None:
    import subprocess
    import sys

    from job_process import JOB

    log, out = tmp_path / "log", tmp_path / "deep" / "out"
    command = [
        "strace",
        "-f",
        "-y",
        "-o",
        str(log),
        "-e",
        "trace=fsync,fdatasync,rename,renameat,renameat2,mkdir",
    ]
    shard = shards["wds"] / "shard0.tar"
    traced = subprocess.run(
        [*command, sys.executable, str(JOB), "wds-parquet", str(shard), str(out), f"mode={mode}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if "ptrace" in traced.stderr:
        pytest.skip("this user may not trace")
    assert traced.returncode == 0, traced.stderr
    directory = os.path.realpath(out)
    calls = [
        line
        for line in log.read_text().splitlines()
        if directory in line or os.path.dirname(directory) in line
    ]
    order = [
        ("mkdir" if "mkdir(" in call else "rename" if "rename" in call else "sync " + _synced(call))
        for call in calls
    ]
    assert order[:2] == ["mkdir", "sync tmp"] or "mkdir" in order
    rename = order.index("rename")
    assert order[rename - 1] == "sync staging"
    assert order[rename + 1] == "sync out"
    assert "sync deep" in order[:rename], "the name of the new directory is synced as well"


def _synced(call: str) -> str:
    path = call.split("<")[1].split(">")[0]
    return "staging" if path.endswith(".staging") else Path(path).name
