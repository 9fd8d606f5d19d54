"""Checkpoints that were renamed, copied, or whose input and output were.

They go on, and never lead back to the original.
"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq
from checkpoint_jobs import Job
from command import shardmill
from shardmill.errors import CheckpointDamagedError, CheckpointMismatchError, OptionError
from shardmill.resume import Checkpoint


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def content(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("id_column", ["id", None])
def test_copied_tree_goes_on_and_leaves_the_original_alone(tmp_path, id_column):
    job = Job(tmp_path / "old")
    expected = job.write_numbers()
    job.stop(3, id_column=id_column)
    shutil.copytree(tmp_path / "old", tmp_path / "far" / "copy")
    before = content(tmp_path / "old")
    copy = Job(tmp_path / "far" / "copy")
    report = copy.run(id_column=id_column)

    assert report.committed_before == 2
    copy.assert_ids(expected)
    assert content(tmp_path / "old") == before
    shutil.rmtree(tmp_path / "old")
    assert copy.run(id_column=id_column).splits == []
    assert shardmill("checkpoint", "verify", copy.state).returncode == 0


def test_altered_original_does_not_reach_the_copy(tmp_path):
    job = Job(tmp_path / "old")
    expected = job.write_numbers()
    job.stop(3)
    shutil.copytree(tmp_path / "old", tmp_path / "copy")
    for path in (tmp_path / "old").rglob("*.parquet"):
        path.write_bytes(b"altered")
    copy = Job(tmp_path / "copy")
    assert shardmill("checkpoint", "verify", copy.state).returncode == 0
    copy.run()
    copy.assert_ids(expected)


@pytest.mark.parametrize("lost", ["units-*/*", "packs*/*"])
@pytest.mark.parametrize("id_column", ["id", None])
@pytest.mark.parametrize("way", ["copy", "rename", "relocate"])
def test_moved_job_that_lost_records_writes_no_row_twice(tmp_path, way, id_column, lost):
    job = Job(tmp_path / "old")
    expected = job.write_numbers()
    job.stop(3, id_column=id_column)
    if way == "relocate":
        moved = Job(tmp_path / "old")
        moved.source, moved.out = tmp_path / "data" / "raw", tmp_path / "result"
        moved.source.parent.mkdir()
        job.source.rename(moved.source)
        job.out.rename(moved.out)
        Checkpoint(job.state).relocate(input=moved.source, output=moved.out)
    else:
        (shutil.copytree if way == "copy" else shutil.move)(tmp_path / "old", tmp_path / "new")
        moved = Job(tmp_path / "new")
    for record in moved.state.glob(f"*/{lost}"):
        record.unlink()
    try:
        moved.run(id_column=id_column)
    except CheckpointDamagedError:
        assert shardmill("checkpoint", "repair", moved.state).returncode == 0
        moved.run(id_column=id_column)
    moved.assert_ids(expected)
    assert shardmill("checkpoint", "verify", moved.state).returncode == 0


def test_moved_file_that_is_cut_writes_no_row_twice_when_records_were_lost(tmp_path):
    options = {"id_column": None, "source": {"files_per_partition": None, "partition_bytes": 64}}
    job = Job(tmp_path / "old")
    job.source /= "big.parquet"
    pq.write_table(pa.table({"id": range(40)}), job.source, row_group_size=10)
    job.stop(3, **options)
    shutil.move(tmp_path / "old", tmp_path / "new")
    moved = Job(tmp_path / "new")
    moved.source /= "big.parquet"
    for record in moved.state.glob("*/units-*/*"):
        record.unlink()
    moved.run(**options)
    moved.assert_ids(Counter(range(40)))


def test_job_whose_checkpoint_is_a_file_of_ids_is_relocated(tmp_path):
    job = Job(tmp_path / "old")
    expected = job.write_numbers()
    done = tmp_path / "done.parquet"
    pq.write_table(pa.table({"id": ["0"]}), done)
    job.stop(3, path=done)
    job.out = job.out.rename(tmp_path / "result")
    Checkpoint(done, "id").relocate(output=job.out)
    assert job.run(path=done).committed_before == 2
    job.assert_ids(expected - Counter(["0"]))


def test_copy_without_its_output_does_not_read_that_of_the_original(tmp_path):
    job = Job(tmp_path / "old")
    expected = job.write_numbers()
    job.stop(3)
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    copy = Job(tmp_path / "new")
    shutil.rmtree(copy.out)
    assert shardmill("checkpoint", "verify", copy.state).returncode == 1
    assert shardmill("checkpoint", "repair", copy.state).returncode == 0
    copy.run()
    copy.assert_ids(expected)


def test_checkpoint_alone_may_be_renamed(tmp_path):
    job = Job(tmp_path)
    expected = job.write_numbers()
    job.stop(3)
    job.state.rename(tmp_path / "elsewhere")
    job.state = tmp_path / "elsewhere"
    assert shardmill("checkpoint", "verify", job.state).returncode == 0
    assert job.run().committed_before == 2
    job.assert_ids(expected)


@pytest.mark.parametrize("by_command", [True, False])
@pytest.mark.parametrize("id_column", ["id", None])
def test_input_and_output_that_were_moved_apart_are_found_after_relocate(
    tmp_path, by_command, id_column
):
    job = Job(tmp_path / "old")
    expected = job.write_numbers()
    job.stop(3, id_column=id_column)
    moved = Job(tmp_path / "old")
    moved.source, moved.out = tmp_path / "data" / "raw", tmp_path / "result"
    moved.source.parent.mkdir()
    shutil.copytree(job.source, moved.source)
    shutil.copytree(job.out, moved.out)
    shutil.rmtree(job.source)
    shutil.rmtree(job.out)
    with pytest.raises(CheckpointMismatchError, match="hint: .*shardmill checkpoint relocate"):
        moved.run(id_column=id_column)
    if by_command:
        result = shardmill(
            "checkpoint", "relocate", job.state, "--input", moved.source, "--output", moved.out
        )
        assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    else:
        Checkpoint(job.state).relocate(input=moved.source, output=moved.out)
    report = moved.run(id_column=id_column)

    assert report.committed_before == 2
    moved.assert_ids(expected)
    assert not job.source.exists()
    assert not job.out.exists()


@pytest.mark.parametrize(
    "names", [("in[1]", "moved"), ("in", "x?y"), ("a*b", "c[2]")], ids=" to ".join
)
def test_moved_input_whose_name_looks_like_a_pattern_is_not_read_again(tmp_path, names):
    job = Job(tmp_path)
    job.source = tmp_path / names[0]
    job.source.mkdir(exist_ok=True)
    expected = job.write_numbers()
    job.run(id_column=None)
    job.source = job.source.rename(tmp_path / names[1])
    Checkpoint(job.state).relocate(input=job.source)

    assert job.run(id_column=None).splits == []
    job.assert_ids(expected)


def test_place_that_does_not_exist_and_input_as_output_are_refused(tmp_path):
    job = Job(tmp_path)
    job.write_numbers()
    job.stop(3)
    before = content(job.state)
    for options in (
        {"input": tmp_path / "none"},
        {"input": f"{tmp_path}/none/*.parquet"},
        {"output": tmp_path / "none"},
    ):
        with pytest.raises(FileNotFoundError, match="none"):
            Checkpoint(job.state).relocate(**options)
    with pytest.raises(OptionError, match="is the input"):
        Checkpoint(job.state).relocate(input=job.source, output=job.source)
    assert content(job.state) == before


def test_another_number_of_inputs_is_refused_and_names_those_of_the_job(tmp_path):
    job = Job(tmp_path)
    job.write_numbers()
    job.stop(3)
    with pytest.raises(OptionError, match=r"has 1 inputs, 2 were given; its inputs are .*/in"):
        Checkpoint(job.state).relocate(input=[job.source, tmp_path])


def test_no_object_of_a_checkpoint_but_the_first_names_a_place(tmp_path):
    job = Job(tmp_path)
    job.write_numbers()
    job.stop(3)
    job.stop(1)
    for path in job.directory().rglob("*"):
        if path.is_file() and path.name != "checkpoint.json" and path.suffix != ".parquet":
            assert str(tmp_path).encode() not in path.read_bytes(), path
