"""Jobs with a checkpoint: what is done again, what is not, and what is refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq
import shardmill as sm
from checkpoint_jobs import Job
from shardmill.curate import Map, ParquetSink, Pipeline, TableSource
from shardmill.errors import (
    CheckpointBusyError,
    CheckpointDamagedError,
    CheckpointMismatchError,
    OptionError,
)
from shardmill.resume import Checkpoint


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Indexes of a test are its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path)


@pytest.mark.parametrize("state", ["missing", "empty", "foreign"])
def test_first_run_does_everything(job, state):
    expected = job.write_numbers()
    if state != "missing":
        job.state.mkdir()
    if state == "foreign":
        (job.state / "notes.txt").write_text("a foreign file")
        pq.write_table(pa.table({"other": [1]}), job.state / "other.parquet")
        (job.state / "broken.parquet").write_bytes(b"PAR1")
    report = job.run()

    job.assert_ids(expected)
    assert report.committed_before == 0
    assert state != "foreign" or (job.state / "notes.txt").exists()


def test_run_after_the_last_one_does_nothing_and_writes_nothing(job):
    expected = job.write_numbers()
    job.run()
    before = {path: path.stat().st_mtime_ns for path in job.out.iterdir()}
    report = job.run()

    assert (report.splits, report.committed_before, job.work.calls) == ([], 5, 0)
    assert {path: path.stat().st_mtime_ns for path in job.out.iterdir()} == before
    job.assert_ids(expected)


@pytest.mark.parametrize("at", range(1, 6))
def test_stopped_run_is_resumed_and_does_no_split_again(job, at):
    expected = job.write_numbers()
    job.stop(at)
    done = set(job.ids())
    report = job.run()

    job.assert_ids(expected)
    assert report.committed_before == len(done) // 10
    assert not {(id,) for id in job.work.seen} & done


def test_rows_that_were_dropped_are_not_processed_again(job):
    expected = job.write_numbers(files=10)
    seen = Counter()

    def expensive(table, stop_at):
        seen.update(table["id"].to_pylist())
        if len(seen) > stop_at:
            raise ZeroDivisionError
        return table.filter(pa.array([int(id) % 2 == 0 for id in table["id"].to_pylist()]))

    def stages(stop_at):
        return [Map(lambda table: expensive(table, stop_at), name="expensive")]

    with pytest.raises(sm.CurateError):
        job.run(stages=stages(90))
    job.run(stages=stages(1000))

    job.assert_ids(Counter(id for id in expected if int(id) % 2 == 0))
    assert set(seen) == set(expected)
    again = [id for id, count in seen.items() if count > 1]
    assert len(again) <= 30, "only splits that were not committed are done again"


def test_rows_of_a_done_list_are_left_out(job):
    job.write("a", list(range(10)))
    job.state.mkdir()
    pq.write_table(pa.table({"id": [1, 3, 7]}), job.state / "done.parquet")
    report = job.run()

    job.assert_ids(Counter([0, 2, 4, 5, 6, 8, 9]))
    assert report.rows_dropped == {"done": 3}


@pytest.mark.parametrize(
    "kind", ["file", "directory", "list", "glob-like directory", "path is a file", "csv"]
)
def test_done_list_may_be_a_file_or_a_directory(job, tmp_path, kind):
    job.write("a", [str(number) for number in range(10)])
    done = tmp_path / "done"
    done.mkdir()
    pq.write_table(pa.table({"id": ["1", "3"]}), done / "a.parquet")
    pq.write_table(pa.table({"id": ["7"]}), done / "b.parquet")
    options: dict = {}
    if kind == "file":
        pq.write_table(pa.table({"id": ["1", "3", "7"]}), tmp_path / "all.parquet")
        options = {"done": tmp_path / "all.parquet"}
    elif kind == "directory":
        options = {"done": str(done)}
    elif kind == "list":
        options = {"done": [done / "a.parquet", done / "b.parquet"]}
    elif kind == "glob-like directory":
        (done / "deep[1]").mkdir()
        (done / "b.parquet").rename(done / "deep[1]" / "b.parquet")
        options = {"done": done}
    elif kind == "path is a file":
        pq.write_table(pa.table({"id": ["1", "3", "7"]}), tmp_path / "all.parquet")
        options = {"path": tmp_path / "all.parquet"}
    else:
        (tmp_path / "all.jsonl").write_text('{"id": "1"}\n{"id": "3"}\n{"id": "7"}\n')
        options = {"done": tmp_path / "all.jsonl"}
    job.run(**options)
    job.assert_ids(Counter("024568") + Counter(["9"]))
    assert job.run(**options).splits == []
    if kind == "path is a file":
        assert (tmp_path / "all.parquet.resume" / "checkpoint.json").exists()


@pytest.mark.parametrize("kind", [pa.null(), pa.float64(), pa.int64(), pa.string()])
@pytest.mark.parametrize("others", [[], ["1", "3"]])
def test_list_of_done_ids_without_rows_may_have_any_type(job, tmp_path, kind, others):
    expected = job.write_numbers(files=2)
    done = tmp_path / "done"
    done.mkdir()
    pq.write_table(pa.table({"id": pa.array([], kind)}), done / "0.parquet")
    if others:
        pq.write_table(pa.table({"id": others}), done / "1.parquet")
    job.run(done=done)

    job.assert_ids(expected - Counter(others))
    assert job.run(done=done).splits == []


def test_checkpoint_of_ray_data_counts_but_not_what_it_did_not_commit(job):
    job.write("a", [str(number) for number in range(10)])
    job.state.mkdir()
    pq.write_table(pa.table({"id": ["1", "3"]}), job.state / "0123_abc_000001.parquet")
    pq.write_table(pa.table({"id": ["7"]}), job.state / "0123_abc_000002.pending.parquet")
    job.run()

    job.assert_ids(Counter("0245678") + Counter(["9"]))


def test_done_list_that_is_missing_or_unreadable_or_of_another_type_is_told(job, tmp_path, caplog):
    expected = job.write_numbers()
    with pytest.raises(OptionError, match="nowhere`, which does not exist"):
        job.run(done=tmp_path / "nowhere")
    pq.write_table(pa.table({"id": [1, 3, 7]}), tmp_path / "numbers.parquet")
    with pytest.raises(sm.Error, match=r"(?s)int.*string|string.*int|int64.*string|string.*int64"):
        job.run(done=tmp_path / "numbers.parquet", path=tmp_path / "state1")
    assert job.ids() == Counter()
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 nothing PAR1")
    job.run(done=tmp_path / "broken.parquet", path=tmp_path / "state2")
    assert "broken.parquet" in caplog.text
    job.assert_ids(expected)


@pytest.mark.parametrize("mode", ["error", "overwrite", "resume"])
def test_matching_checkpoint_continues_whatever_the_mode(job, mode):
    expected = job.write_numbers()
    job.stop(3)
    before = {path: path.stat().st_mtime_ns for path in job.out.glob("*.parquet")}
    job.run(sink={"mode": mode})
    job.assert_ids(expected)
    assert (
        before
        and before.items()
        <= {path: path.stat().st_mtime_ns for path in job.out.glob("*.parquet")}.items()
    )
    job.run(sink={"mode": mode})
    job.assert_ids(expected)


def test_overwriting_is_refused_if_ids_are_done_from_elsewhere(tmp_path):
    other = Job(tmp_path / "other")
    other.write("a", ["1", "2"])
    other.state.mkdir()
    pq.write_table(pa.table({"id": ["1"]}), other.state / "done.parquet")
    other.out.mkdir()
    (other.out / "kept.parquet").touch()
    with pytest.raises(CheckpointMismatchError, match='mode="overwrite"'):
        other.run(sink={"mode": "overwrite"})
    assert (other.out / "kept.parquet").exists()


@pytest.mark.parametrize("mode", ["error", "overwrite"])
def test_mode_holds_for_the_first_run(job, mode):
    expected = job.write_numbers()
    job.out.mkdir()
    (job.out / "old.parquet").touch()
    if mode == "error":
        with pytest.raises(sm.Error, match="out"):
            job.run(sink={"mode": mode})
        # A rejected run does not start the job.
        with pytest.raises(sm.Error, match="out"):
            job.run(sink={"mode": mode})
        assert list(job.out.iterdir()) == [job.out / "old.parquet"]
        return
    job.run(sink={"mode": mode})
    job.assert_ids(expected)


def test_output_that_exists_because_of_an_earlier_run_is_no_error(job):
    expected = job.write_numbers()
    job.stop(3, sink={"mode": "error"})
    job.run(sink={"mode": "error"})
    job.assert_ids(expected)


def test_other_process_at_work_is_named(job):
    job.write_numbers()
    other = Job(job.source.parent)

    def meddle(table):
        with pytest.raises(CheckpointBusyError, match=f"(?s)process {os.getpid()} on .*hint: "):
            other.run(stages=[Map(meddle, name="work")])
        return table

    job.run(stages=[Map(meddle, name="work")])
    assert sum(job.ids().values()) == 50


def test_checkpoint_is_removed_at_the_end_and_not_before(job):
    expected = job.write_numbers()
    job.stop(3, delete_on_success=True)
    assert (job.state / "checkpoint.json").exists()
    job.run(delete_on_success=True)
    job.assert_ids(expected)
    assert not (job.state / "checkpoint.json").exists()
    assert list(job.state.rglob("*")) == []


def test_checkpoint_that_cannot_be_removed_does_not_fail_the_job(job, caplog):
    if os.geteuid() == 0 and shutil.which("chattr") is None:
        pytest.skip("root may remove everything")
    expected = job.write_numbers()
    job.stop(3)
    plan = next(job.directory().glob("plan/*"))
    refused = subprocess.run(
        ["chattr", "+i", str(plan)], capture_output=True, text=True, check=False
    )
    if refused.returncode:
        pytest.skip(f"chattr: {refused.stderr.strip()}")
    try:
        job.run(delete_on_success=True)
    finally:
        subprocess.run(["chattr", "-i", str(plan)], check=True)
    assert "not removed" in caplog.text
    job.assert_ids(expected)
    job.run(sink={"mode": "resume"})
    job.assert_ids(expected)


def test_done_rows_are_not_read_beyond_their_ids(job, tmp_path):
    script = tmp_path / "script.py"
    rows, blob = 40, 1 << 20
    for number in range(2):
        blobs = pa.array([os.urandom(blob) for _ in range(rows // 2)], pa.binary())
        ids = [f"{number}-{row}" for row in range(rows // 2)]
        pq.write_table(
            pa.table({"id": ids, "blob": blobs}),
            job.source / f"{number}.parquet",
            compression="none",
        )
    job.state.mkdir()
    pq.write_table(
        pa.table({"id": [f"{number}-{row}" for number in range(2) for row in range(rows // 2)]}),
        job.state / "done.parquet",
    )
    script.write_text(
        "import sys\n"
        "from shardmill.curate import ParquetSink, Pipeline, TableSource\n"
        "read = lambda: int(open('/proc/self/io').readline().split()[1])\n"
        "job = lambda: Pipeline(source=TableSource(sys.argv[1]), sink=ParquetSink(sys.argv[2]), "
        "checkpoint={'path': sys.argv[3], 'id_column': 'id'})\n"
        "before = read()\n"
        "report = job().run(progress=False)\n"
        "print(read() - before, report.rows_dropped['done'])\n"
    )
    told = subprocess.run(
        [sys.executable, str(script), str(job.source), str(job.out), str(job.state)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()

    assert int(told[1]) == rows
    assert int(told[0]) < rows * blob / 10, "of 40 MB, with what Python reads of itself"
    assert list(job.out.glob("*.parquet")) == []


def test_count_and_schema_do_not_know_of_checkpoints(job):
    job.write_numbers()
    job.stop(3)
    assert sm.Dataset(job.source).num_rows == 50
    assert sm.Dataset(job.source).schema.names == ["id"]


def test_fifty_resumes_leave_few_files(job):
    expected = job.write_numbers(files=25, rows=2)
    for _ in range(24):
        job.stop(2)
    for _ in range(26):
        job.run()

    job.assert_ids(expected)
    files = Counter(
        path.parent.name.split("-")[0] for path in job.directory().rglob("*") if path.is_file()
    )
    assert files.pop("ids") == 25
    assert files.pop("lease") <= 2 * 51
    assert sum(files.values()) < 25, files
    assert len([path for path in job.directory().iterdir() if path.name.startswith("units-")]) <= 1


def test_names_that_begin_with_one_another_are_splits_of_their_own(tmp_path):
    job = Job(tmp_path)
    names = ["1" * length for length in range(1, 60)] + [
        f"{number}" for number in range(2000, 2060)
    ]
    for name in names:
        (job.source / f"{name}.jsonl").write_text(json.dumps({"id": name}) + "\n")
    job.stop(60)
    some = sum(job.ids().values())
    assert 0 < some < len(names)
    job.run()
    job.assert_ids(Counter(names))


@pytest.mark.slow
def test_splits_beyond_a_million_lose_nothing(tmp_path):
    """Names as they were padded to six digits by another system.

    One of them is the beginning of ten others.
    """
    job = Job(tmp_path)
    numbers = [*range(99_990, 100_010), *range(999_990, 1_000_110), *range(9_999_990, 10_000_010)]
    for number in numbers:
        (job.source / f"part_{number:06}.jsonl").write_text(json.dumps({"id": str(number)}) + "\n")
    for _ in range(10):
        job.stop(len(numbers) // 10)
    job.run()
    job.assert_ids(Counter(map(str, numbers)))


def test_output_that_was_committed_and_is_gone_or_changed_is_named(job):
    job.write_numbers()
    job.stop(3)
    first = min(job.out.iterdir())
    content = first.read_bytes()
    first.unlink()
    with pytest.raises(CheckpointDamagedError, match=first.name):
        job.run()
    first.write_bytes(content[:-1])
    with pytest.raises(CheckpointDamagedError, match=first.name):
        job.run()


def test_output_that_is_gone_some_runs_later_is_named(job):
    job.write_numbers()
    job.run()
    job.run()
    first = min(job.out.iterdir())
    first.unlink()
    with pytest.raises(CheckpointDamagedError, match=first.name):
        job.run()


def test_urls_of_files_are_paths(job, tmp_path, monkeypatch):
    expected = job.write_numbers()
    urls = {"source": f"file://{job.source}", "out": f"file://{job.out}"}

    def run(stop_at=None):
        pipeline = job.pipeline(
            stop_at=stop_at, sink={"path": urls["out"]}, id_column=None, path=f"file://{job.state}"
        )
        pipeline.source = TableSource(urls["source"], files_per_partition=1)
        return pipeline.run(threads=1, progress=False)

    with pytest.raises(sm.CurateError):
        run(3)
    (job.out / f".shardmill-job-{job.directory().name}-0123-unit-attempt-1.attempt").touch()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    report = run()

    assert report.committed_before == 2
    job.assert_ids(expected)
    with pytest.raises(OptionError, match="is inside the"):
        job.run(sink={"path": urls["out"]}, path=job.out / "state")


def test_url_of_an_output_directory_is_its_path(job, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    job.write_numbers()
    job.out.mkdir()
    (job.out / "old.parquet").touch()
    job.run(sink={"path": f"file://{job.out}", "mode": "overwrite"})

    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert not (job.out / "old.parquet").exists()


def test_path_that_is_named_twice_is_read_as_often_as_without_a_checkpoint(job, tmp_path):
    job.write_numbers(files=2)
    source = TableSource([job.source, job.source / "000.parquet"], files_per_partition=1)
    Pipeline(source=source, sink=ParquetSink(tmp_path / "reference")).run(progress=False)
    expected = Counter(
        id
        for path in (tmp_path / "reference").iterdir()
        for id in pq.read_table(path)["id"].to_pylist()
    )
    pipeline = Pipeline(source=source, sink=ParquetSink(job.out), checkpoint=Checkpoint(job.state))
    pipeline.run(progress=False)

    job.assert_ids(expected)


def test_checkpoint_is_kept_when_an_earlier_run_has_quarantined_something(tmp_path):
    pytest.importorskip("PIL")
    from documents import write_tar
    from shardmill.curate import WebDatasetSource

    for shard in range(3):
        broken = {"broken.json": b"{"} if shard == 0 else {}
        write_tar(
            tmp_path / "in" / f"{shard}.tar",
            broken | {"fine.json": b'{"texts": ["x"], "images": []}'},
        )

    def run(stop_at):
        def work(table):
            if stop_at and "2.tar" in str(
                table["source_ref"].to_pylist() + table["sample_id"].to_pylist()
            ):
                raise ZeroDivisionError
            return table

        return Pipeline(
            source=WebDatasetSource(tmp_path / "in", files_per_partition=1),
            stages=[Map(work, name="work")],
            sink=ParquetSink(tmp_path / "out"),
            checkpoint=Checkpoint(tmp_path / "state", delete_on_success=True),
        ).run(threads=1, progress=False)

    first = run(None)
    assert len(first.quarantined) == 1
    assert (tmp_path / "state" / "checkpoint.json").exists()
    again = run(None)
    assert [Path(split["files"][0]).name for split in again.splits] == ["0.tar"], (
        "what was left out stays open"
    )
    assert len(again.quarantined) == 1
    assert (tmp_path / "state" / "checkpoint.json").exists()


def test_files_whose_outputs_would_have_one_name_lose_no_row(job, tmp_path, monkeypatch):
    """Found by search among thirty million relative paths.

    With a checkpoint paths are absolute, and other pairs meet.
    """
    monkeypatch.chdir(tmp_path)
    job.write("633453", ["a"])
    job.write("9689972", ["b"])
    Pipeline(source=TableSource("in", files_per_partition=1), sink=ParquetSink("out")).run(
        progress=False
    )

    job.assert_ids(Counter("ab"))
