"""Jobs with a checkpoint whose parts or inputs are others than before."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq
from checkpoint_jobs import Job
from shardmill.errors import CheckpointMismatchError, FormatError


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Indexes of a test are its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path)


FINGERPRINT = {
    "output": {"sink": {"path": "other"}},
    "id_column": {"id_column": None},
    "version": {"version": "2"},
    "stages": {"stages": []},
    "source": {"source": {"columns": ["id"]}},
    "done": {"done": "done.parquet"},
    "sink": {"sink": {"on_materialize_error": "warn"}},
}


@pytest.mark.parametrize("part", FINGERPRINT)
def test_another_job_is_refused_and_told_apart_by_name(job, part, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    job.write_numbers()
    pq.write_table(pa.table({"id": ["1"]}), "done.parquet")
    job.stop(3)
    before = job.ids()
    with pytest.raises(CheckpointMismatchError, match=rf"`{part}[^`]*` was .* and is ") as caught:
        job.run(**FINGERPRINT[part])

    assert str(job.state) in str(caught.value)
    assert "hint: " in str(caught.value)
    assert job.ids() == before
    assert not (tmp_path / "other").exists()
    job.run()


def test_another_input_is_refused(job, tmp_path):
    job.write_numbers()
    job.stop(3)
    shutil.copytree(job.source, tmp_path / "copy")
    job.source = tmp_path / "copy"
    with pytest.raises(
        CheckpointMismatchError, match=r"`input\[0\]` was \".*/in\" and is \".*/copy\""
    ):
        job.run()


@pytest.mark.parametrize(
    "id_column",
    [
        "id",
        None,
    ],
)
@pytest.mark.parametrize("is_relative_first", [True, False])
def test_other_spellings_of_the_same_paths_are_the_same_job(
    job, tmp_path, monkeypatch, is_relative_first, id_column
):
    expected = job.write_numbers()
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    runs = [
        lambda run, **options: run(
            path="state", sink={"path": "./out/"}, id_column=id_column, **options
        ),
        lambda run, **options: run(
            path=f"file://{tmp_path}/state/",
            sink={"path": tmp_path / "link" / "out"},
            id_column=id_column,
            **options,
        ),
    ]
    sources = [Path("in"), tmp_path / "link" / "in"]
    if not is_relative_first:
        runs, sources = runs[::-1], sources[::-1]
    job.source = sources[0]
    runs[0](lambda **options: job.stop(3, **options))
    if is_relative_first:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
    job.source = sources[1]
    report = runs[1](job.run)

    assert report.committed_before == 2
    job.assert_ids(expected)


def test_files_that_were_added_are_done_and_files_that_are_gone_are_not(job):
    expected = job.write_numbers()
    job.stop(3)
    (job.source / "004.parquet").unlink()
    job.write("005", ["a", "b"])
    job.write("000-1", ["c"])
    job.run()

    job.assert_ids(Counter(id for id in expected if int(id) < 40) + Counter("abc"))
    assert job.run().splits == []


def test_done_file_that_is_removed_changes_nothing(job):
    expected = job.write_numbers()
    job.stop(3)
    job.done_file().unlink()
    job.run()
    job.assert_ids(expected)


def test_file_that_was_away_for_a_run_is_done_when_it_is_back(job, tmp_path):
    """Two files make a split; one of them cannot be seen while the other is committed."""
    expected = job.write_numbers(files=4)
    job.stop(1, source={"files_per_partition": 2})
    (job.source / "001.parquet").rename(tmp_path / "aside")
    job.run(source={"files_per_partition": 2})
    job.assert_ids(Counter(id for id in expected if not 10 <= int(id) < 20))
    (tmp_path / "aside").rename(job.source / "001.parquet")
    job.run(source={"files_per_partition": 2})
    job.assert_ids(expected)


def test_file_that_was_rewritten_after_it_was_read_stops_the_job(job):
    job.write_numbers()
    job.stop(3)
    before = job.ids()
    name = job.done_file().stem
    job.write(name, ["new"])
    with pytest.raises(
        CheckpointMismatchError, match=rf"{name}\.parquet` changed since.*(?s:.)hint: .*reprocess"
    ):
        job.run()
    assert job.ids() == before


@pytest.mark.parametrize("id_column", ["id", None])
@pytest.mark.parametrize("per_split", [1, 2])
@pytest.mark.parametrize("was_corrupt", [True, False])
def test_file_of_which_nothing_was_committed_may_be_replaced(
    job, id_column, per_split, was_corrupt
):
    """One that could not be read among them.

    The next version may be corrupt too, or the first one again.
    """
    options: dict = {"id_column": id_column, "source": {"files_per_partition": per_split}}
    expected = job.write_numbers(files=6)
    path = job.source / "005.parquet"
    first = path.read_bytes()
    if was_corrupt:
        path.write_bytes(first[: len(first) // 2])
        for _ in range(2):
            with pytest.raises(FormatError, match=r"005\.parquet"):
                job.run(**options)
            path.write_bytes(b"PAR1 and no more")
    else:
        job.stop(2, **options)
    job.write("005", ["new"])
    job.run(**options)
    job.assert_ids(Counter(id for id in expected if int(id) < 50) + Counter(["new"]))
    assert job.run(**options).splits == []


def test_file_that_was_missing_while_its_split_failed_is_read_when_it_is_back(job, tmp_path):
    expected = job.write_numbers()
    job.stop(3)
    (job.source / "004.parquet").rename(tmp_path / "aside")
    job.run()
    job.write("004", [str(number) for number in range(40, 50)])
    job.run()
    job.assert_ids(expected)


@pytest.mark.parametrize("per_split", [1, 2])
def test_rewritten_file_of_a_job_without_ids_is_run_again_and_its_output_replaced(job, per_split):
    """The hint of the refusal, followed without an id column."""
    options: dict = {"id_column": None, "source": {"files_per_partition": per_split}}
    expected = job.write_numbers(files=4)
    job.run(**options)
    job.write("000", ["new"])
    with pytest.raises(CheckpointMismatchError, match='hint: .*changed_input="reprocess"'):
        job.run(**options)
    job.run(**options, changed_input="reprocess")
    job.assert_ids(Counter(id for id in expected if int(id) >= 10) + Counter(["new"]))
    assert job.run(**options).splits == []


def test_rewritten_files_are_read_again_and_done_ids_are_skipped(job):
    expected = job.write_numbers()
    job.stop(3)
    job.write("000", [*(str(number) for number in range(10)), "new"])
    job.write("004", ["newer"])
    job.run(changed_input="reprocess")

    job.assert_ids(Counter(id for id in expected if int(id) < 40) + Counter(["new", "newer"]))
    assert job.run(changed_input="reprocess").splits == []
    # Back to what it was at first: nothing of it is new.
    job.write("000", [*(str(number) for number in range(10))])
    job.run(changed_input="reprocess")
    job.assert_ids(Counter(id for id in expected if int(id) < 40) + Counter(["new", "newer"]))


def test_input_may_be_laid_out_anew_between_runs(job):
    expected = job.write_numbers(files=6)
    for at, rows in ((3, 7), (3, 25), (2, 60)):
        job.stop(at)
        for file in job.source.iterdir():
            file.unlink()
        numbers = sorted(expected, key=lambda id: hash((rows, id)))
        for start in range(0, 60, rows):
            job.write(f"cut-{rows}-{start:03}", numbers[start : start + rows])
    job.run()

    job.assert_ids(expected)
