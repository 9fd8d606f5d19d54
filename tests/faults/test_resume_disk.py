"""Jobs with a checkpoint on full disks, and files and deletions that a lost run left."""

import json
import os
import re
import subprocess
from pathlib import Path

from breadth import covering
from mounts import mounted
from resume_job import pipeline_of
from resume_process import Case
from shardmill.curate._report import Report
from shardmill.curate._resumption import Resumption
from shardmill.curate._spec import native_pipeline


def grow(directory: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=64m", str(directory)], check=True)


@covering(1, size=["32k", "80k"], what=["checkpoint", "out"])
def test_job_that_filled_a_disk_is_resumed_when_there_is_room(what, size, tmp_path) -> None:
    case = Case(tmp_path, "explode", files=20)
    disk = tmp_path / "small"
    mounting = mounted(disk, f"size={size}")
    next(mounting)
    try:
        setattr(case, what, disk / "directory")
        code, outcome = case.start().finish()
        assert (code, "No space left" in outcome["stderr"]) in ((1, True), (0, False)), outcome
        case.assert_nothing_twice()
        grow(disk)
        case.finish_here()
        case.assert_exact()
    finally:
        mounting.close()


def test_job_that_may_not_write_its_checkpoint_does_nothing(immutable, tmp_path) -> None:
    case = Case(tmp_path, "explode")
    case.checkpoint = immutable / "state"
    code, outcome = case.start().finish()

    assert code == 1
    assert str(immutable) in outcome["message"]
    assert case.visible() == {}


def test_job_that_died_right_after_its_checkpoint_was_deleted_repeats_no_row(tmp_path) -> None:
    """As kill -9 leaves it: the job is done, but nothing tells so any more."""
    case = Case(tmp_path, "double")
    later = sorted(case.source.iterdir())[4:]
    for file in later:
        file.rename(file.with_suffix(".aside"))
    case.finish_here()
    for file in later:
        file.with_suffix(".aside").rename(file)
    case.finish_here()
    os.unlink(case.checkpoint / "checkpoint.json")
    case.finish_here(delete="1")
    case.assert_exact()


def test_files_of_a_worker_that_was_lost_after_its_record_have_their_names_when_the_run_ends(
    tmp_path: Path,
) -> None:
    case = Case(tmp_path, "double", files=2)
    job = pipeline_of("double", str(case.source), str(case.out), checkpoint=str(case.checkpoint))
    with Resumption(job, progress=False) as resumption:
        splits = native_pipeline(
            job,
            may_replace=False,
            checkpoint=resumption.plan.options(),
            schema=resumption.schema,
        )
        splits.run(resumption.splits, 1, lambda _report: None)
        [output] = json.loads(case.units()[0].read_text().splitlines()[0])["outputs"]
        # As it is between the record and the names; and the file of a worker that was lost before
        # its record.
        sealed = output["sealed"]
        (case.out / output["name"]).rename(case.out / sealed)
        (case.out / re.sub(r"-\d+\.attempt", "-9.attempt", sealed)).write_bytes(b"half")
        assert case.visible() != case.expected
        resumption.finish(Report(params={}), had_workers=True)

    case.assert_exact()
