"""Who may commit: stores that know no conditional put, and jobs that start at the same moment."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from promptness import HANGS_S
from shardmill.curate import Map, ParquetSink, Pipeline, TableSource
from shardmill.resume import Checkpoint

from .fault_proxy import Fault

SCRIPT = Path(__file__).with_name("held_job.py")
IDS = list(range(30))


def write_input(directory: Path) -> None:
    directory.mkdir()
    for number in range(3):
        pq.write_table(
            pa.table({"id": IDS[number * 10 : number * 10 + 10]}), directory / f"{number}.parquet"
        )


class Place:
    """Where a job has its files: a local directory or a bucket, as files in both cases."""

    def __init__(self, root: str, directory: Path, options: dict) -> None:
        self.root, self.directory, self.options = root, directory, options

    def ids(self) -> Counter:
        files = [
            path for path in (self.directory / "out").glob("*") if not path.name.startswith(".")
        ]
        return Counter(id for path in files for id in pq.read_table(path)["id"].to_pylist())


@pytest.fixture(params=["local", "s3"])
def place(request, tmp_path):
    if request.param == "local":
        write_input(tmp_path / "in")
        return Place(str(tmp_path), tmp_path, {})
    bucket, server = request.getfixturevalue("bucket"), request.getfixturevalue("server")
    write_input(tmp_path / "in")
    bucket.publish("in", tmp_path / "in")
    return Place(f"s3://{bucket.name}", bucket.directory, server.storage_options())


class Start:
    """A job in a process of its own.

    It prints a line when it is ready to start, and when its function was called for the first time.
    """

    def __init__(self, place: Place) -> None:
        command = [sys.executable, str(SCRIPT), place.root, json.dumps(place.options)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(command, text=True, **pipes)
        assert self.line() == {"is": "ready"}

    def line(self) -> dict:
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"stderr": self.process.stderr.read()}

    def tell(self) -> None:
        """Lets the process go on from where it waits."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=HANGS_S)


@pytest.fixture
def starts(place):
    made = []

    def start() -> Start:
        made.append(Start(place))
        return made[-1]

    yield start
    for each in made:
        each.end()


def at_once(starts) -> tuple[Start, list[dict]]:
    """Three jobs that start together: the one that works, and what the others say."""
    jobs = [starts() for _ in range(3)]
    for job in jobs:
        job.tell()
    told = [(job, job.line()) for job in jobs]
    working = [job for job, line in told if line == {"is": "working"}]
    assert len(working) == 1, told
    return working[0], [line for _, line in told if line != {"is": "working"}]


def assert_one_ends_it(place: Place, working: Start, refused: list[dict]) -> None:
    for line in refused:
        assert line["error"] == "CheckpointBusyError", line
        # It found the lease of the other one, or lost its own while it took over.
        assert (
            f"process {working.process.pid} on " in line["message"]
            or "taken over this job" in line["message"]
        ), line
    working.tell()
    assert working.line() == {"rows": len(IDS)}
    assert place.ids() == Counter(IDS)


def test_of_three_jobs_that_start_at_once_one_runs_and_the_others_name_it(place, starts):
    assert_one_ends_it(place, *at_once(starts))


def test_of_three_jobs_that_find_the_lease_of_a_dead_one_one_runs(place, starts):
    dead = starts()
    dead.tell()
    assert dead.line() == {"is": "working"}
    os.kill(dead.process.pid, signal.SIGKILL)
    dead.process.wait(timeout=HANGS_S)
    assert_one_ends_it(place, *at_once(starts))


@pytest.fixture
def forgetful(bucket, server, proxy, tmp_path):
    """A bucket of a store that takes conditional puts for plain ones."""
    write_input(tmp_path / "in")
    bucket.publish("in", tmp_path / "in")
    options = server.storage_options(endpoint=proxy.endpoint)
    sm.storage.configure(f"s3://{bucket.name}", options)
    proxy.faults(Fault(kind="forget", methods=("PUT",), secret_key=server.keys.secret_key))
    return bucket


def pipeline_of(bucket, checkpoint: Checkpoint, calls: list, out: str = "out") -> Pipeline:
    root = f"s3://{bucket.name}"

    def work(table):
        calls.append(table.num_rows)
        return table

    return Pipeline(
        source=TableSource(f"{root}/in", files_per_partition=1),
        stages=[Map(work, batch_size=5)],
        sink=ParquetSink(f"{root}/{out}"),
        checkpoint=checkpoint,
    )


def test_store_without_conditional_puts_is_refused_before_anything_is_done(bucket, forgetful):
    calls: list[int] = []
    job = pipeline_of(bucket, Checkpoint(f"s3://{bucket.name}/state", "id"), calls)
    with pytest.raises(sm.StorageError, match="If-None-Match") as caught:
        job.run(progress=False)
    assert "hint: " in str(caught.value)
    assert 'Checkpoint(delivery="at-least-once")' in str(caught.value)
    assert calls == []
    assert not list(bucket.directory.rglob("*state/*")) and not (bucket.directory / "out").exists()


def test_store_without_conditional_puts_is_accepted_for_delivery_at_least_once(
    bucket, forgetful, proxy
):
    checkpoint = Checkpoint(f"s3://{bucket.name}/state", "id", delivery="at-least-once")
    calls: list[int] = []
    pipeline_of(bucket, checkpoint, calls).run(progress=False)
    again = pipeline_of(bucket, checkpoint, calls).run(progress=False)
    assert sum(calls) == len(IDS)
    assert again.splits == []
    assert sorted(row["id"] for row in sm.Dataset(f"s3://{bucket.name}/out")) == IDS


def test_store_with_conditional_puts_passes_its_probe_and_keeps_no_trace_of_it(
    bucket, server, tmp_path
):
    write_input(tmp_path / "in")
    bucket.publish("in", tmp_path / "in")
    sm.storage.configure(f"s3://{bucket.name}", server.storage_options())
    pipeline_of(bucket, Checkpoint(f"s3://{bucket.name}/state", "id"), []).run(progress=False)
    assert [path for path in (bucket.directory / "state").rglob("*") if "probe" in path.name] == []


def test_done_list_that_was_written_anew_with_the_same_size_is_another_list(
    bucket, server, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_input(tmp_path / "in")
    bucket.publish("in", tmp_path / "in")
    root = f"s3://{bucket.name}"
    sm.storage.configure(root, server.storage_options())
    sizes = set()
    for number, ids in enumerate(([0, 1], [2, 3])):
        done = tmp_path / f"done-{number}" / "ids.parquet"
        done.parent.mkdir()
        pq.write_table(pa.table({"id": ids}), done, compression="none")
        sizes.add(done.stat().st_size)
        bucket.publish("done", done.parent)
        # Some stores keep times in whole seconds.
        os.utime(bucket.directory / "done" / done.name, (1_700_000_000 + number,) * 2)
        checkpoint = Checkpoint(f"{root}/state-{number}", "id", done=f"{root}/done/ids.parquet")
        pipeline_of(bucket, checkpoint, [], out=f"out-{number}").run(progress=False)
        assert sorted(row["id"] for row in sm.Dataset(f"{root}/out-{number}")) == sorted(
            set(IDS) - set(ids)
        )
    assert len(sizes) == 1


def test_lease_that_is_removed_during_its_heartbeat_does_not_come_back(
    bucket, server, proxy, tmp_path
):
    write_input(tmp_path / "in")
    bucket.publish("in", tmp_path / "in")
    job = Start(
        Place(
            f"s3://{bucket.name}", bucket.directory, server.storage_options(endpoint=proxy.endpoint)
        )
    )

    def wait_for(operation: str) -> None:
        deadline = time.monotonic() + HANGS_S
        while not any(
            each["operation"] == operation and "/lease/" in each["target"]
            for each in proxy.requests()
        ):
            assert time.monotonic() < deadline, f"the heartbeat sends no {operation}"
            time.sleep(0.05)
        # The server has done what was asked.
        time.sleep(0.3)

    try:
        job.tell()
        assert job.line() == {"is": "working"}
        proxy.forget()
        proxy.faults(Fault(kind="latency", operations=("GetObject",), target="/lease/", delay_s=1))
        wait_for("GetObject")
        (lease,) = bucket.directory.glob("state/*/lease/0*")
        lease.unlink()
        wait_for("PutObject")
        assert not lease.exists()
    finally:
        job.end()
