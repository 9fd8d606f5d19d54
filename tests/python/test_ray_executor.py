"""The Ray executor against the local one: equal files and errors, and as little Ray as possible."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("ray")
pytest.importorskip("PIL")
pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq
import ray
from documents import digests, write_shards, write_tar
from environment import child_environment
from shardmill import errors
from shardmill.curate import (
    AspectRatioFilter,
    BlurFilter,
    InterleavedParquetSource,
    Map,
    ParquetSink,
    Pipeline,
    TableSource,
    WebDatasetSink,
    WebDatasetSource,
)
from shardmill.curate._ray_executor import Outcome, SplitRunner, _packed
from shardmill.curate._resumption import Resumption
from shardmill.integrations._ray_tasks import connected, run_splits
from shardmill.resume import Checkpoint

# Workers cannot import a test module.
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore::ResourceWarning")]


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return write_shards(tmp_path_factory.mktemp("shards"))


@pytest.fixture(
    scope="module", params=[pytest.param(1, marks=pytest.mark.slow), 2], ids=["one_cpu", "two_cpus"]
)
def cluster(request):
    ray.init(
        address="local", num_cpus=request.param, include_dashboard=False, logging_level="error"
    )
    yield request.param
    ray.shutdown()


def pipeline(shards, out, *, stages=(AspectRatioFilter(),), sink=ParquetSink, **options):
    return Pipeline(source=WebDatasetSource(shards), stages=stages, sink=sink(out), **options)


def doubled_number(table):
    import pyarrow.compute as pc

    index = table.schema.get_field_index("number")
    return table.set_column(index, "number", pc.multiply(table["number"], 2))


@pytest.mark.parametrize("sink", [ParquetSink, WebDatasetSink])
def test_output_is_the_same_files_byte_for_byte(cluster, shards, tmp_path, sink):
    shift = 1
    stages = [
        AspectRatioFilter(min=0.9),
        BlurFilter(),
        Map(doubled_number),
        Map(lambda table: table.slice(0, None if shift else 0)),
    ]
    local = pipeline(shards, tmp_path / "local", stages=stages, sink=sink).run()
    remote = pipeline(shards, tmp_path / "ray", stages=stages, sink=sink).run("ray", progress=False)

    assert digests(tmp_path / "ray") == digests(tmp_path / "local")
    assert len(digests(tmp_path / "ray")) == 4
    assert [split["split"] for split in remote.splits] == [0, 1, 2, 3]
    assert remote.counts("output") == local.counts("output")
    assert ray.is_initialized()


def test_documents_of_all_tasks_have_the_schema_of_the_job(cluster, tmp_path):
    for number, value in enumerate([b"1", b'"x"', b'[1], "late": 0.5']):
        members = {f"{number}.json": b'{"texts": ["t"], "v": %b}' % value}
        write_tar(tmp_path / "in" / f"{number}.tar", members)
    for executor in ("local", "ray"):
        source, sink = WebDatasetSource(tmp_path / "in"), ParquetSink(tmp_path / executor)
        assert Pipeline(source=source, sink=sink).run(executor, progress=False).rescued == {}
    assert digests(tmp_path / "ray") == digests(tmp_path / "local")
    assert len({pq.read_schema(file).to_string() for file in (tmp_path / "ray").iterdir()}) == 1


@pytest.mark.slow
def test_parquet_input_gives_the_same_files(cluster, shards, tmp_path):
    pipeline(shards, tmp_path / "first").run()
    for executor in ("local", "ray"):
        source = InterleavedParquetSource(tmp_path / "first", files_per_partition=2)
        Pipeline(source=source, sink=WebDatasetSink(tmp_path / executor)).run(executor)

    assert digests(tmp_path / "ray") == digests(tmp_path / "local")


@pytest.mark.slow
def test_repeated_run_rewrites_the_same_files(cluster, shards, tmp_path):
    sink = ParquetSink(tmp_path / "out", mode="resume")
    for _ in range(2):
        Pipeline(source=WebDatasetSource(shards), sink=sink).run("ray")

    assert len(digests(tmp_path / "out")) == 4


def test_reports_arrive_while_other_splits_still_run(cluster, tmp_path):
    def waits_for_its_report(split: str) -> bool:
        """Ends when the report of the split before it has arrived."""
        end = time.time() + 60
        while not (tmp_path / split).exists() and time.time() < end:
            time.sleep(0.02)
        return (tmp_path / split).exists()

    splits = ["0", "1", "2", "3"]
    (tmp_path / "0").touch()
    seen = []
    for index, is_told in run_splits(waits_for_its_report, splits, workers=1):
        seen.append((index, is_told))
        (tmp_path / str(index + 1)).touch()

    assert seen == [(index, True) for index in range(4)]


@pytest.mark.slow
def test_number_of_workers_bounds_the_tasks_at_once(cluster):
    def span(split: str) -> tuple[float, float]:
        start = time.time()
        time.sleep(0.2)
        return start, time.time()

    spans = sorted(result for _index, result in run_splits(span, ["x"] * 4, workers=1))

    assert all(earlier[1] <= later[0] for earlier, later in zip(spans, spans[1:], strict=False))


@pytest.mark.slow
def test_function_is_unpickled_once_a_process(cluster):
    class Costly:
        def __init__(self):
            self.pickles = []

        def __setstate__(self, state):
            self.pickles = [os.getpid(), time.time_ns()]

        def __call__(self, split):
            return tuple(self.pickles)

    made = {result for _index, result in run_splits(Costly(), ["x"] * 8, workers=None)}

    assert len(made) == len({pid for pid, _when in made})


class UserError(Exception):
    """Cannot be made from its message alone."""

    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code = code

    def __reduce__(self):
        return UserError, (self.code, "told")


class Unreadable(Exception):
    def __init__(self, first, second):
        super().__init__("cannot be unpickled")


def test_error_of_a_stage_keeps_class_message_and_cause(cluster, shards, tmp_path):
    def refuse(table):
        raise UserError(7, "told")

    raised = {}
    for executor in ("local", "ray"):
        with pytest.raises(errors.CurateError) as caught:
            pipeline(shards, tmp_path / executor, stages=[Map(refuse, name="refuse")]).run(
                executor, **{"threads" if executor == "local" else "workers": 1}
            )
        raised[executor] = caught.value

    assert type(raised["ray"]) is type(raised["local"]) is errors.CurateError
    assert str(raised["ray"]) == str(raised["local"])
    assert type(raised["ray"].__cause__) is UserError
    assert raised["ray"].__cause__.code == 7
    assert any("in refuse" in note for note in raised["ray"].__cause__.__notes__)
    assert not digests(tmp_path / "ray")


@pytest.mark.slow
def test_cause_that_cannot_travel_is_told_in_words(cluster, shards, tmp_path):
    def refuse(table):
        raise Unreadable(1, 2)

    with pytest.raises(errors.CurateError, match="refuse") as caught:
        pipeline(shards, tmp_path / "out", stages=[Map(refuse, name="refuse")]).run("ray")

    assert str(caught.value.__cause__) == "Unreadable: cannot be unpickled"


def test_missing_image_stops_the_run_with_the_words_of_the_local_executor(cluster, tmp_path):
    body = b'{"texts": [null, "x"], "images": ["gone.png", null]}'
    write_tar(tmp_path / "in" / "a.tar", {"a.json": body})
    messages = []
    for executor in ("local", "ray"):
        with pytest.raises(errors.CurateError) as caught:
            pipeline(tmp_path / "in", tmp_path / executor, stages=()).run(executor)
        messages.append(str(caught.value))

    assert messages[0] == messages[1]
    assert "missing member 'gone.png'" in messages[1]


def test_errors_of_all_tasks_count_against_one_limit(cluster, tmp_path):
    for shard in range(4):
        write_tar(
            tmp_path / "in" / f"{shard}.tar",
            {"broken.json": b"{", "fine.json": b'{"texts": ["x"], "images": []}'},
        )
    out = tmp_path / "out"

    assert len(pipeline(tmp_path / "in", out, stages=(), max_errors=4).run("ray").quarantined) == 4
    with pytest.raises(errors.CurateError, match="3 quarantined items exceed the limit of 2"):
        pipeline(tmp_path / "in", tmp_path / "other", stages=(), max_errors=2).run("ray")


def test_lost_worker_is_repeated(cluster, tmp_path):
    def dies_once(split: str) -> str:
        marker = tmp_path / "died"
        if not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return split

    assert [result for _index, result in run_splits(dies_once, ["x"], workers=1)] == ["x"]


@pytest.mark.slow
def test_index_that_another_job_has_merged_is_made_again(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "in").mkdir()
    for number in range(2):
        pq.write_table(
            pa.table({"id": [f"{number}-a", f"{number}-b"]}), tmp_path / f"in/{number}.parquet"
        )
    pq.write_table(pa.table({"id": ["0-a", "1-a"]}), tmp_path / "done.parquet")
    checkpoint = Checkpoint(tmp_path / "state", id_column="id", done=tmp_path / "done.parquet")
    source, sink = (
        TableSource(tmp_path / "in", files_per_partition=1),
        ParquetSink(tmp_path / "out"),
    )
    job = Pipeline(source=source, stages=[], sink=sink, checkpoint=checkpoint)
    with Resumption(job, progress=False) as resumption:
        runner = SplitRunner(job, resumption.plan, resumption.schema)
        for split in resumption.splits:
            assert runner(split).report["output"]["rows"] == 1
            for index in (tmp_path / "cache").rglob("*.ids"):
                index.unlink()
    assert sorted(pq.read_table(tmp_path / "out")["id"].to_pylist()) == ["0-b", "1-b"]


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_tasks_pass_over_text_files_before_the_first_split(
    cluster, tmp_path, monkeypatch, has_checkpoint
):
    (tmp_path / "in").mkdir()
    for number, last in enumerate(["0.5", "7"]):
        rows = "1\n" * (1 << 20) + last
        (tmp_path / f"in/{number}.csv").write_text(f"n\n{rows}\n")
    paths = [str(tmp_path / f"in/{number}.csv") for number in range(2)]
    asked = []
    spied = run_splits

    def run(function, splits, workers):
        asked.append(list(splits))
        return spied(function, splits, workers)

    monkeypatch.setattr("shardmill.integrations._ray_tasks.run_splits", run)
    checkpoint = Checkpoint(tmp_path / "state") if has_checkpoint else None

    def job(out):
        source = TableSource(tmp_path / "in", files_per_partition=1)
        return Pipeline(source=source, sink=ParquetSink(tmp_path / out), checkpoint=checkpoint)

    report = job("ray").run("ray", progress=False)
    assert asked[0] == paths and [len(splits) for splits in asked] == [2, 2]
    assert report.params["schema"] == {"n": "double"}
    assert report.planning_s > 0
    checkpoint = None
    job("local").run(progress=False)
    assert pq.read_table(tmp_path / "ray") == pq.read_table(tmp_path / "local")


def test_text_file_that_no_task_can_read_stops_the_job_before_it_writes(cluster, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").write_text("n\n1\n")
    (tmp_path / "in/b.csv").write_bytes(b"PAR1" + bytes(100))
    job = Pipeline(source=TableSource(tmp_path / "in"), sink=ParquetSink(tmp_path / "out"))
    with pytest.raises(errors.FormatError, match="b.csv"):
        job.run("ray", progress=False)
    assert not (tmp_path / "out").exists()


def test_task_that_raises_is_an_error_with_a_hint(cluster):
    def impossible(split: str) -> str:
        raise LookupError("no such thing")

    with pytest.raises(errors.EngineError, match="no such thing"):
        list(run_splits(impossible, ["x"], workers=1))


def interrupt(code: str, marker: Path, *arguments: object) -> None:
    """Press Ctrl-C as soon as `marker` is there, in a process that is connected to the cluster.

    Ray Train leaves a handler of its own in a process that has trained, as tests may have.
    """
    script = textwrap.dedent(code) + "\nmain(*sys.argv[2:])"
    connect = "import ray, sys, time\nray.init(address=sys.argv[1], log_to_driver=False)\n"
    address = ray.get_runtime_context().gcs_address
    process = subprocess.Popen(
        [sys.executable, "-c", connect + script, address, marker, *map(str, arguments)],
        env=child_environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    while not marker.exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, talk = process.communicate()
    assert process.returncode and "KeyboardInterrupt" in talk, talk


@pytest.mark.slow
def test_ctrl_c_stops_the_task(cluster, tmp_path):
    code = """
        from pathlib import Path
        from shardmill.integrations._ray_tasks import run_splits

        def main(running, stopped):
            def endless(split):
                Path(running).touch()
                try:
                    while True:
                        time.sleep(0.05)
                finally:
                    Path(stopped).touch()

            list(run_splits(endless, ["x"], workers=1))
    """
    interrupt(code, tmp_path / "running", tmp_path / "stopped")

    assert (tmp_path / "stopped").exists()


@pytest.mark.slow
def test_ctrl_c_in_a_stage_leaves_no_file(cluster, shards, tmp_path):
    code = """
        from pathlib import Path
        from shardmill.curate import Map, ParquetSink, Pipeline, WebDatasetSource

        def main(running, shards, out):
            def endless(table):
                Path(running).touch()
                while True:
                    time.sleep(0.05)

            source, sink = WebDatasetSource(shards), ParquetSink(out)
            Pipeline(source=source, stages=[Map(endless)], sink=sink).run("ray", workers=1)
    """
    interrupt(code, tmp_path / "running", shards, tmp_path / "out")

    assert not digests(tmp_path / "out")


def test_every_class_of_error_travels():
    classes = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, errors.Error)
    ]
    for kind in classes:
        error = kind("what, where\nhint: what to do")
        error.__cause__ = ValueError("why")
        with pytest.raises(kind) as caught:
            Outcome(failure=_packed(error)).result()
        assert type(caught.value) is kind
        assert str(caught.value) == str(error)
        assert repr(caught.value.__cause__) == "ValueError('why')"


@pytest.fixture(scope="module")
def running_cluster():
    """The address of a cluster that another process has started, in another working directory."""
    ray.shutdown()
    # Short, since the paths of Ray's sockets must be.
    directory = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    command = [
        Path(sys.executable).parent / "ray", "start", "--head", "--block", "--num-cpus=1",
        "--node-ip-address=127.0.0.1", "--port=0", "--include-dashboard=false",
        "--disable-usage-stats", f"--temp-dir={directory}",
    ]  # fmt: skip
    process = subprocess.Popen(
        command,
        cwd="/",
        env=child_environment(RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S="0"),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        # Ray turns the address of the loopback into another one of this machine, and says which.
        lines = iter(process.stdout.readline, "")
        yield next(found[1] for line in lines if (found := re.search(r"--address='([^']+)'", line)))
        assert process.poll() is None
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=15)
        # What is left of the group; it holds nothing else.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.mark.slow
def test_cluster_at_ray_address_is_used_and_left_running(
    running_cluster, shards, tmp_path, monkeypatch
):
    monkeypatch.setenv("RAY_ADDRESS", running_cluster)
    # The workers of that cluster start in another directory.
    monkeypatch.chdir(shards.parent)
    pipeline(shards.name, tmp_path / "local").run()
    for _ in range(2):
        report = pipeline(
            shards.name, tmp_path / "ray", sink=lambda out: ParquetSink(out, mode="overwrite")
        ).run("ray", workers=8)
        assert not ray.is_initialized()
        assert len(report.splits) == 4

    assert digests(tmp_path / "ray") == digests(tmp_path / "local")


@pytest.mark.slow
def test_cluster_that_is_started_for_a_run_ends_with_it(shards, tmp_path, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    ray.shutdown()
    with connected(1):
        assert ray.cluster_resources()["CPU"] == 1
        pipeline(shards, tmp_path / "ray").run("ray")
        assert ray.is_initialized()

    assert not ray.is_initialized()
    assert len(digests(tmp_path / "ray")) == 4
