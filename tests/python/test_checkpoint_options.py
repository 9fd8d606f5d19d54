"""Options of checkpoints, and directories that are kept apart.

Options come in several forms, and are refused when they cannot be.
"""

from __future__ import annotations

import pytest

pa = pytest.importorskip("pyarrow")

from checkpoint_jobs import Job
from shardmill.curate import ParquetSink, Pipeline, TableSource
from shardmill.errors import OptionError
from shardmill.resume import Checkpoint
from shardmill.resume._checkpoint import done_paths, id_columns


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Indexes of a test are its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path)


@pytest.mark.parametrize("form", ["text", "path", "dict", "checkpoint"])
def test_checkpoint_may_be_said_in_several_ways(job, form):
    expected = job.write_numbers()
    forms = {
        "text": str(job.state),
        "path": job.state,
        "dict": {"path": job.state, "id_column": "id", "version": "3"},
        "checkpoint": Checkpoint(job.state, "id"),
    }
    for _ in range(2):
        Pipeline(
            source=TableSource(job.source), sink=ParquetSink(job.out), checkpoint=forms[form]
        ).run(progress=False)
    job.assert_ids(expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": ""}, "must be a directory"),
        ({"path": 7}, "must be a directory"),
        ({"path": "ftp://host/state"}, "No store serves the scheme"),
        ({"path": "x", "id_column": ""}, "`id_column` is ''"),
        ({"path": "x", "id_column": []}, "`id_column` is"),
        ({"path": "x", "id_column": ["a", "a"]}, "twice"),
        ({"path": "x", "id_column": ["a", 3]}, "`id_column` is"),
        (
            {"path": "x", "null_ids": "skip"},
            "null_ids must be one of 'raise', 'always_process', not 'skip'",
        ),
        (
            {"path": "x", "duplicate_ids": "drop"},
            "duplicate_ids must be one of 'count', 'strict', not 'drop'",
        ),
        ({"path": "x", "duplicate_ids": "strict"}, "needs an `id_column`"),
        ({"path": "x", "null_ids": "always_process"}, "needs an `id_column`"),
        (
            {"path": "x", "changed_input": "ignore"},
            "changed_input must be one of 'raise', 'reprocess', not 'ignore'",
        ),
        ({"path": "x", "version": 2}, "must be a string"),
        ({"path": "x", "delete_on_success": "yes"}, "True or False"),
        ({"path": "x", "delete_on_success": 1}, "True or False"),
        ({"path": "x", "memory_bytes": 0}, "positive"),
        ({"path": "x", "memory_bytes": "1 parsec"}, "cannot be understood"),
        ({"path": "x", "done": "list.parquet"}, "needs an `id_column`"),
        ({"path": "x", "id_colum": "id"}, "no option 'id_colum'"),
        ({"id_column": "id"}, "has no `path`"),
        (7, "must be a Checkpoint, a path or a dict"),
    ],
)
def test_options_that_cannot_be_are_refused_when_the_pipeline_is_made(tmp_path, options, message):
    with pytest.raises(OptionError, match=message):
        Pipeline(source=TableSource("in"), sink=ParquetSink(tmp_path / "out"), checkpoint=options)


def test_names_and_paths_that_can_be_read_only_once_are_kept(tmp_path):
    (tmp_path / "done.parquet").touch()
    checkpoint = Checkpoint("state", iter(["a", "b"]), done=tmp_path.glob("*.parquet"))
    for _ in range(2):
        assert id_columns(checkpoint) == ["a", "b"]
        assert done_paths(checkpoint) == [str(tmp_path / "done.parquet")]


@pytest.mark.parametrize("place", ["out", "out/state", "in", "in/deep/state", "link/state"])
def test_checkpoint_within_input_or_output_is_refused(job, tmp_path, place):
    job.write_numbers()
    (tmp_path / "link").symlink_to(job.source, target_is_directory=True)
    with pytest.raises(OptionError, match="is inside the"):
        job.run(path=tmp_path / place)
    assert not job.out.exists()
    assert sorted(path.suffix for path in job.source.rglob("*")) == [".parquet"] * 5


def test_checkpoint_that_a_glob_of_the_input_reaches_is_refused(job, tmp_path):
    job.write_numbers()
    with pytest.raises(OptionError, match="is inside the input"):
        Pipeline(
            source=TableSource(f"{job.source}/**/*.parquet"),
            sink=ParquetSink(job.out),
            checkpoint=Checkpoint(job.source / "state", "id"),
        ).run(progress=False)


def test_file_as_checkpoint_of_splits_is_refused(job, tmp_path):
    job.write_numbers()
    (tmp_path / "state").touch()
    with pytest.raises(OptionError, match="is a file"):
        job.run(id_column=None)
