"""Full disks and directories that refuse.

The outcome is a clear error that names the file, and no partial file under a final name.
"""

import os
import random
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import shardmill as sm
from breadth import covering
from job import KINDS, READERS, WRITERS, pipeline_of
from job_process import JOB, Job, assert_whole, contents, run_job, staging
from promptness import HANGS_S


def fails(kind: str, source: Path, out: Path, **options: object) -> dict:
    code, outcome = Job(kind, source, out, **options).finish()
    assert code == 1, outcome
    return outcome


@covering(1, reader=READERS, writer=WRITERS)
def test_full_disk_is_an_error_that_names_the_file(reader, writer, shards, small_disk) -> None:
    outcome = fails(f"{reader}-{writer}", shards[reader], small_disk / "out")
    assert outcome["error"] == "StorageError"
    assert str(small_disk / "out") in outcome["message"]
    assert "No space left" in outcome["message"]
    assert "hint: the disk is full" in outcome["message"]
    assert staging(small_disk / "out") == []
    assert_whole(small_disk / "out")


@pytest.mark.parametrize("format", ["parquet", "mds", "webdataset", "jsonl"])
def test_full_disk_of_a_writer_is_an_error_of_the_disk_in_every_format(format, small_disk) -> None:
    text = random.Random(1).randbytes(1 << 20).hex()
    with (
        pytest.raises(
            sm.StorageError, match=r"^Failed to write `.*`: No space left.*\nhint: the disk is full"
        ) as raised,
        sm.Writer(small_disk / "out", format=format) as writer,
    ):
        writer.write_rows({"txt": text[number:]} for number in range(40))
    assert str(small_disk / "out") in str(raised.value)
    assert not (small_disk / "out").exists()


def test_disk_that_is_full_from_the_start_takes_no_file(shards, small_disk) -> None:
    (small_disk / "ballast").write_bytes(
        bytes(os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_bsize)
    )
    outcome = fails("wds-parquet", shards["wds"], small_disk / "out")
    assert (outcome["error"], "No space left" in outcome["message"]) == ("StorageError", True)
    assert not (small_disk / "out").exists() or list((small_disk / "out").iterdir()) == []


@pytest.mark.parametrize("kind", ["wds-parquet", "parquet-wds"])
def test_file_size_limit_of_the_user_is_an_error_that_names_the_file(
    kind, shards, tmp_path
) -> None:
    limit = 3_000_000
    run = subprocess.run(
        [sys.executable, str(JOB), kind, str(shards[kind.split("-")[0]]), str(tmp_path / "out")],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_S,
    )
    assert run.returncode == 1
    assert f"StorageError: Failed to write `{tmp_path / 'out'}/" in run.stderr
    assert "File too large" in run.stderr
    assert list((tmp_path / "out").iterdir()) == []


def test_output_directory_that_is_not_writable(shards, immutable) -> None:
    with pytest.raises(
        sm.StorageError, match=f"`{immutable}/[^/]+-[0-9a-f]+.parquet`.*Operation not permitted"
    ) as caught:
        pipeline_of("wds-parquet", str(shards["wds"]), str(immutable)).run()
    assert isinstance(caught.value, PermissionError)
    with pytest.raises(PermissionError, match=f"`{immutable}/below`"):
        pipeline_of("wds-parquet", str(shards["wds"]), str(immutable / "below")).run()
    assert list(immutable.iterdir()) == []


def test_read_only_file_system(shards, read_only_disk) -> None:
    with pytest.raises(sm.StorageError, match=f"`{read_only_disk}/out`.*Read-only file system"):
        pipeline_of("wds-wds", str(shards["wds"]), str(read_only_disk / "out")).run()


@pytest.mark.parametrize("mode", ["resume", "overwrite", "error"])
def test_output_below_a_file(mode, shards, tmp_path) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    with pytest.raises(sm.StorageError, match=f"`{tmp_path}/file/out`: not a directory"):
        pipeline_of(
            "wds-parquet", str(shards["wds"]), str(tmp_path / "file" / "out"), mode=mode
        ).run()
    assert (tmp_path / "file").read_bytes() == b"mine"


@pytest.mark.parametrize("mode", ["resume", "overwrite"])
def test_output_that_is_a_file(mode, shards, tmp_path) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    with pytest.raises(OSError, match=f"`{tmp_path}/file`"):
        pipeline_of("wds-parquet", str(shards["wds"]), str(tmp_path / "file"), mode=mode).run()
    assert (tmp_path / "file").read_bytes() == b"mine"


@pytest.mark.parametrize("kind", KINDS)
def test_missing_input_leaves_the_output_untouched(kind, tmp_path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine").write_bytes(b"x")
    with pytest.raises(FileNotFoundError, match=f"No file at `{tmp_path}/none`"):
        pipeline_of(kind, str(tmp_path / "none"), str(out), mode="overwrite").run()
    (tmp_path / "empty").mkdir()
    with pytest.raises(sm.NotFoundError, match="empty"):
        pipeline_of(kind, str(tmp_path / "empty"), str(out), mode="overwrite").run()
    assert contents(out) == {"mine": b"x"}


def test_named_pipe_among_the_inputs_is_not_waited_for(shards, tmp_path) -> None:
    shared = tmp_path / "in"
    shared.mkdir()
    os.mkfifo(shared / "pipe.tar")
    (shared / "shard0.tar").symlink_to(shards["wds"] / "shard0.tar")
    assert len(run_job("wds-parquet", shared, tmp_path / "out")["outputs"]) == 1
    with pytest.raises(sm.StorageError, match=r"pipe.tar.*pipes and devices"):
        pipeline_of("wds-parquet", str(shared / "pipe.tar"), str(tmp_path / "out")).run()
