"""Processes, threads and the resources they leave."""

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
from breadth import examples
from job import KINDS, pipeline_of
from job_process import contents, run_job
from loader_files import write_files
from promptness import HANGS_S


def script(text: str, *arguments: object) -> str:
    """Runs Python in a process of its own, which is killed when it hangs."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])
    }
    run = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore::DeprecationWarning",
            "-c",
            textwrap.dedent(text),
            *map(str, arguments),
        ],
        capture_output=True,
        text=True,
        timeout=2 * HANGS_S,
        check=False,
        env=environment,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_forked_child_finishes_a_run_of_its_own(shards, references, tmp_path) -> None:
    script(
        """
        import os, signal, sys
        from job import pipeline_of
        source, out = sys.argv[1:]
        pipeline_of("wds-parquet", source, f"{out}/parent").run()
        child = os.fork()
        if child == 0:
            signal.alarm(120)
            pipeline_of("wds-parquet", source, f"{out}/child").run()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        pipeline_of("wds-parquet", source, f"{out}/again").run()
        """,
        shards["wds"],
        tmp_path,
    )
    assert [contents(tmp_path / name) for name in ("parent", "child", "again")] == [
        references["wds-parquet"]
    ] * 3


def test_children_that_are_forked_in_the_midst_of_runs_finish_theirs(
    shards, references, tmp_path
) -> None:
    script(
        """
        import os, signal, sys, threading, time
        from job import pipeline_of
        # A child that is forked in the midst of an import waits for the import for ever; that is
        # Python's own business.
        import shardmill.curate
        source, out, children = sys.argv[1:]
        is_done = threading.Event()
        def busy():
            while not is_done.is_set():
                pipeline_of("wds-wds", source, f"{out}/parent").run()
        thread = threading.Thread(target=busy)
        thread.start()
        for child in range(int(children)):
            time.sleep(0.03 * child)
            process = os.fork()
            if process == 0:
                signal.alarm(120)
                pipeline_of("wds-parquet", source, f"{out}/child").run()
                sys.exit(0)
            status = os.waitpid(process, 0)[1]
            assert status == 0, status
        is_done.set()
        thread.join()
        """,
        shards["wds"],
        tmp_path,
        examples(8, 3),
    )
    assert contents(tmp_path / "child") == references["wds-parquet"]
    assert contents(tmp_path / "parent") == references["wds-wds"]


def _run(kind: str, source: str, out: str) -> int:
    return pipeline_of(kind, source, out).run().counts("output")["samples"]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_multiprocessing_children_finish_their_runs(method, shards, references, tmp_path) -> None:
    source = str(shards["wds"])
    assert _run("wds-parquet", source, str(tmp_path / "parent")) == 240
    with multiprocessing.get_context(method).Pool(2) as pool:
        jobs = [
            pool.apply_async(_run, ("wds-parquet", source, str(tmp_path / str(number))))
            for number in range(3)
        ]
        assert [job.get(HANGS_S) for job in jobs] == [240] * 3
    assert all(contents(tmp_path / str(number)) == references["wds-parquet"] for number in range(3))


def test_two_threads_run_two_pipelines_at_once(shards, references, tmp_path) -> None:
    failures = []

    def run(kind: str) -> None:
        try:
            for _ in range(examples(3, 1)):
                pipeline_of(kind, str(shards[kind.split("-")[0]]), str(tmp_path / kind)).run()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(kind,)) for kind in KINDS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANGS_S)
        assert not thread.is_alive(), "a run hangs"
    assert failures == []
    assert {kind: contents(tmp_path / kind) for kind in KINDS} == {
        kind: references[kind] for kind in KINDS
    }


def test_many_runs_leave_no_thread_and_no_file_open(shards, tmp_path) -> None:
    counts = script(
        """
        import os, sys
        from job import pipeline_of
        source, out, runs = sys.argv[1:]
        def counts():
            return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))
        first = None
        for number in range(int(runs)):
            for kind in ("wds-parquet", "wds-wds"):
                pipeline_of(kind, f"{source}/shard0.tar", f"{out}/{kind}").run(threads=2)
            if number < 5:
                pipeline_of("wds-parquet", source, f"{out}/all").run(threads=2)
            if number == 5:
                first = counts()
        print(*first, *counts())
        """,
        shards["wds"],
        tmp_path,
        examples(30, 20),
    )
    threads_before, files_before, threads_after, files_after = map(int, counts.split())
    assert files_after == files_before
    # Two workers have two lanes each; lanes of runs before may not have come to rest when the next
    # one starts. If each run leaked one, there would be 40 at least.
    assert max(threads_before, threads_after) <= 24


def test_failed_runs_leave_no_thread_and_no_file_open(shards, tmp_path) -> None:
    counts = script(
        """
        import os, sys
        from job import pipeline_of
        from shardmill.curate import Map, ParquetSink, Pipeline, WebDatasetSource
        source, out = sys.argv[1:]
        def counts():
            return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))
        def bad(table):
            raise RuntimeError("bad")
        for number in range(20):
            try:
                Pipeline(
                    source=WebDatasetSource(source), stages=[Map(bad)], sink=ParquetSink(out)
                ).run(threads=2)
            except RuntimeError:
                pass
            if number == 9:
                first = counts()
        print(*first, *counts())
        """,
        shards["wds"],
        tmp_path / "out",
    )
    threads_before, files_before, threads_after, files_after = map(int, counts.split())
    assert files_after == files_before
    # Ten runs; a busy machine needs a thread more now and then.
    assert threads_after - threads_before < 5


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_peak_memory_of_two_workers_on_raw_shards(kind, raw_shards, tmp_path) -> None:
    assert all(path.stat().st_size > 100_000_000 for path in raw_shards["wds"].iterdir())
    outcome = run_job(kind, raw_shards[kind.split("-")[0]], tmp_path, workers=2)
    for path in tmp_path.iterdir():
        path.unlink()
    assert outcome["peak"] <= 400_000_000


def test_signals_other_than_ctrl_c_do_not_disturb_a_run(shards, references, tmp_path) -> None:
    script(
        """
        import signal, sys
        from job import pipeline_of
        seen = []
        signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
        signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
        for _ in range(3):
            pipeline_of("wds-parquet", *sys.argv[1:]).run()
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert seen
        """,
        shards["wds"],
        tmp_path,
    )
    assert contents(tmp_path) == references["wds-parquet"]
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL


def test_forked_child_leaves_the_lease_of_a_job_to_its_parent(tmp_path) -> None:
    script(
        """
        import os, signal, sys
        import pyarrow as pa, pyarrow.parquet as pq
        from shardmill.curate import ParquetSink, Pipeline, TableSource
        from shardmill.curate._resumption import Resumption
        from shardmill.errors import CheckpointBusyError
        rows, out, state = (f"{sys.argv[1]}/{name}" for name in ("rows.parquet", "out", "state"))
        pq.write_table(pa.table({"id": [1, 2]}), rows)
        def job():
            pipeline = Pipeline(
                source=TableSource(rows), stages=[], sink=ParquetSink(out), checkpoint=state
            )
            return Resumption(pipeline, progress=False)
        held = job()
        with held:
            child = os.fork()
            if child == 0:
                signal.alarm(60)
                held.__exit__()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            try:
                with job():
                    raise SystemExit("the lease is free")
            except CheckpointBusyError:
                pass
        with job():
            pass
        """,
        tmp_path,
    )


def test_process_that_ends_while_threads_run_a_function_of_the_user_ends_well(tmp_path) -> None:
    rows = write_files(tmp_path / "rows", [4000], row_group=10)
    script(
        """
        import sys, time
        import shardmill as sm
        def tokens(batch):
            # Takes the interpreter again and again.
            for _ in range(100):
                time.sleep(0.0001)
            return {"tokens": [[1]] * batch.num_rows}
        tokenize = sm.Tokenize("text", function=sm.TokenFunction(tokens, "1"))
        data = sm.Dataset(sys.argv[1], tokenize=tokenize)
        rows = iter(data)
        next(rows)
        """,
        rows,
    )
