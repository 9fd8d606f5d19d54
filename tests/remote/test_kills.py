"""Kill −9 of jobs and writers whose input, output and state lie in a bucket.

In the end every row is there once, and nothing else is visible.
"""

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from glob import glob
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import examples
from promptness import HANGS_S

from .fault_proxy import Fault, mix
from .kill_job import pipeline_of

SCRIPT = Path(__file__).with_name("kill_job.py")
FILES, ROWS, PACE_S = 10, 50, 0.02
#: A run that saw no heartbeat of a lease for so long takes it.
LEASE_S = 60


class Case:
    """A bucket with the input of a job, and what has become of its rows."""

    def __init__(self, bucket, tmp_path: Path, options: dict) -> None:
        self.bucket, self.options, self.root = bucket, options, f"s3://{bucket.name}"
        source = tmp_path / "in"
        source.mkdir()
        for number in range(FILES):
            ids = list(range(number * ROWS, (number + 1) * ROWS))
            pq.write_table(
                pa.table({"id": ids, "text": [f"row {id}" for id in ids]}),
                source / f"{number}.parquet",
            )
        bucket.publish("in", source)
        self.expected = Counter(range(FILES * ROWS))
        sm.storage.configure(self.root, options)

    def start(self, pace: float = PACE_S) -> subprocess.Popen:
        command = [sys.executable, str(SCRIPT), self.root, json.dumps(self.options), str(pace)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout.readline() == "go\n", process.communicate()[1]
        return process

    def finish_here(self):
        return pipeline_of(self.root, self.options, 0).run(threads=2, progress=False)

    def visible(self) -> Counter:
        """The rows of what a listing shows; each object must be whole."""
        out, rows = self.bucket.directory / "out", Counter()
        for path in out.iterdir() if out.exists() else ():
            if not path.name.startswith("."):
                rows.update(pq.read_table(path)["id"].to_pylist())
        return rows

    def assert_nothing_twice(self) -> None:
        surplus = self.visible() - self.expected
        assert not surplus, f"{len(surplus)} rows too many, such as {list(surplus)[:3]}"

    def assert_exact(self) -> None:
        visible = self.visible()
        assert visible == self.expected, (
            list(self.expected - visible)[:3],
            list(visible - self.expected)[:3],
        )
        hidden = [
            path.name
            for path in (self.bucket.directory / "out").iterdir()
            if path.name.startswith(".")
        ]
        assert hidden == []
        assert sorted(row["id"] for row in sm.Dataset(f"{self.root}/out")) == sorted(self.expected)

    def forget(self) -> None:
        subprocess.run(
            ["rm", "-rf", self.bucket.directory / "out", self.bucket.directory / "state"],
            check=True,
        )


def outcome_of(process: subprocess.Popen) -> dict:
    out, err = process.communicate(timeout=HANGS_S)
    lines = out.splitlines()
    return (
        json.loads(lines[-1])
        if lines and lines[-1].startswith("{")
        else {"killed": process.returncode, "stderr": err}
    )


def kill_and_resume(case: Case, kills: int, disturb=lambda number: None) -> None:
    rng = random.Random(kills)
    hits = number = 0
    begun = time.monotonic()
    assert "rows" in outcome_of(case.start())
    longest = time.monotonic() - begun
    case.forget()
    while number < kills or hits < kills // 2:
        assert number < 10 * kills, "most kills came too late"
        disturb(number)
        process = case.start()
        time.sleep(rng.random() * longest)
        process.send_signal(signal.SIGKILL)
        outcome = outcome_of(process)
        is_hit = outcome.get("killed") == -signal.SIGKILL
        hits += is_hit
        number += 1
        # The machine may have become faster since.
        longest *= 1 if is_hit else 0.8
        assert "error" not in outcome, outcome
        case.assert_nothing_twice()
        if case.visible() == case.expected:
            case.finish_here()
            case.assert_exact()
            case.forget()
    disturb(-1)
    case.finish_here()
    case.assert_exact()
    assert case.finish_here().splits == []
    case.assert_exact()


@pytest.fixture
def case(bucket, server, proxy, tmp_path):
    return Case(
        bucket, tmp_path, {**server.storage_options(endpoint=proxy.endpoint), "request_timeout": 1}
    )


def test_killed_job_is_resumed_at_once_and_every_row_is_there_once(case):
    begun = time.monotonic()
    kills = examples(8, 3)
    kill_and_resume(case, kills)
    # The leases of processes that are gone from this machine are not waited for.
    assert time.monotonic() - begun < kills * LEASE_S / 2


@pytest.mark.slow
def test_hundred_and_twenty_kills_lose_and_repeat_no_row(case):
    kill_and_resume(case, kills=120)


#: Applied without a response: of conditional puts, copies, removals and the last request
#: of an upload.
UNHEARD = Fault(
    kind="lost", applied=True, methods=("PUT", "POST", "DELETE"), probability=0.15, seed=8
)


def with_lost_answers(case, proxy, kills: int) -> None:
    def disturb(number):
        proxy.faults(*([] if number < 0 else [UNHEARD]))

    kill_and_resume(case, kills, disturb)


def test_kills_among_lost_answers(case, proxy):
    with_lost_answers(case, proxy, kills=examples(3, 2))


@pytest.mark.slow
def test_many_kills_among_lost_answers(case, proxy):
    with_lost_answers(case, proxy, kills=60)


@pytest.mark.slow
def test_many_kills_among_all_faults(case, proxy):
    def disturb(number):
        proxy.faults(
            *([] if number < 0 else [mix(probability=0.2, count=0, seed=number, hold_s=0.1)])
        )

    kill_and_resume(case, 60, disturb)


@pytest.mark.parametrize("probability", [0.3, 1.0])
def test_job_whose_answers_are_lost_after_they_were_done(probability, case, proxy):
    """With 1.0: each first answer of everything that changes something."""
    faults = [
        Fault(
            kind="lost",
            applied=True,
            methods=("PUT", "POST", "DELETE"),
            probability=probability,
            count=examples(60, 20),
            seed=2,
        )
    ]
    proxy.faults(*faults)
    case.finish_here()
    assert sum(proxy.given()) >= 10
    proxy.faults()
    case.assert_exact()


def test_conflicts_of_conditional_puts_are_tried_again(case, proxy, bucket, server):
    conflict = Fault(
        kind="error",
        status=409,
        code="ConditionalRequestConflict",
        message="Try again.",
        methods=("PUT",),
        probability=0.2,
        count=20,
        seed=1,
    )
    proxy.faults(conflict)
    case.finish_here()
    assert sum(proxy.given()) >= 5
    proxy.faults(
        Fault(
            kind="error", status=409, code="ConditionalRequestConflict", methods=("PUT",), count=3
        )
    )
    with sm.Writer(f"{case.root}/single.parquet") as writer:
        writer.write({"id": 1})
    assert proxy.given() == [3]
    proxy.faults()
    case.assert_exact()
    assert list(sm.Dataset(f"{case.root}/single.parquet")) == [{"id": 1}]


def test_two_runs_at_one_time_are_one(case):
    for _ in range(examples(2, 1)):
        processes = [case.start() for _ in range(3)]
        outcomes = [outcome_of(process) for process in processes]
        errors = Counter(outcome.get("error") for outcome in outcomes)
        assert errors[None] >= 1 and set(errors) <= {None, "CheckpointBusyError"}, outcomes
        case.assert_exact()
        case.forget()


def test_run_that_sleeps_while_its_process_lives_is_not_taken_for_dead(case):
    # Seconds long, so that it is at work when it is stopped.
    sleeper = case.start(pace=0.5)
    deadline = time.monotonic() + HANGS_S
    # Unlike that of pathlib, it takes a directory that goes away meanwhile for an empty one.
    while not glob(f"{case.bucket.directory}/state/*/lease/0*"):
        assert time.monotonic() < deadline and sleeper.poll() is None, "it takes no lease"
        time.sleep(0.01)
    sleeper.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(Exception, match=f"process {sleeper.pid} on"):
            case.finish_here()
    finally:
        sleeper.send_signal(signal.SIGCONT)
    assert outcome_of(sleeper).get("rows") == FILES * ROWS
    case.assert_exact()


WRITE = """
import json, os, signal, sys, time
import pyarrow as pa, shardmill as sm
root, options, moment, stop = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3], int(sys.argv[4])
if moment == "directory":
    writer = sm.Writer(
        f"{root}/out", format="parquet", compression="none", shard_bytes=1 << 20,
        storage_options=options,
    )
else:
    writer = sm.Writer(f"{root}/out.parquet", compression="none", storage_options=options)
print("go", flush=True)
for number in range(200):
    noise = [os.urandom(30_000) for _ in range(10)]
    writer.write_batch(pa.table({"id": [number] * 10, "noise": noise}))
    if number == stop:
        print("stopped", flush=True)
        time.sleep(3600)
"""


@pytest.mark.parametrize("moment", ["file", "directory"])
def test_writer_that_was_killed_leaves_nothing_visible_and_the_next_one_works(
    moment, bucket, server
):
    options, root = server.storage_options(), f"s3://{bucket.name}"
    for stop in (5, 60, 150)[: examples(3, 2)]:
        command = [sys.executable, "-c", WRITE, root, json.dumps(options), moment, str(stop)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert [process.stdout.readline() for _ in range(2)] == ["go\n", "stopped\n"]
        process.kill()
        process.communicate()
        visible = [
            path for path in bucket.directory.rglob("*.parquet") if ".sgwtmp" not in path.parts
        ]
        assert [path for path in visible if not path.name.startswith(".")] == []
        with pytest.raises(FileNotFoundError):
            sm.Dataset(f"{root}/out.parquet", storage_options=options)
    out = f"{root}/out" if moment == "directory" else f"{root}/out.parquet"
    with sm.Writer(out, format="parquet", storage_options=options) as writer:
        writer.write({"id": 1})
    assert list(sm.Dataset(out)) == [{"id": 1}]
