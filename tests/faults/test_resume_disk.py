"""Jobs with a checkpoint on disks that are full, and deletions that do not end."""

import os
import subprocess
from pathlib import Path

from breadth import covering
from mounts import mounted
from resume_process import Case


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
