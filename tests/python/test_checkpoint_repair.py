"""Outputs and parts of a checkpoint that were lost.

They are found, made again, or refused with the command that repairs them.
"""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest
from breadth import examples

pa = pytest.importorskip("pyarrow")

import shardmill as sm
from checkpoint_jobs import Job, stopped_twice
from command import shardmill
from shardmill.curate import _resumption as resumption

SOURCE = {"files_per_partition": 2}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def job(tmp_path):
    return stopped_twice(Job(tmp_path), ids_of, source=SOURCE)


EXPECTED = Counter(
    id for number in (0, 1, 2, 3, 5, 7, 9, 11) for id in (f"{number}-a", f"{number}-b")
)


def ids_of(number: int) -> list[str]:
    return [f"{number}-a", f"{number}-b"]


def damage(path: Path, random_: random.Random) -> str:
    content = path.read_bytes()
    kind = random_.choice(["flip", "cut", "delete"] if content else ["delete"])
    if kind == "delete":
        path.unlink()
    elif kind == "cut":
        path.write_bytes(content[: random_.randrange(len(content))])
    else:
        at = random_.randrange(len(content))
        path.write_bytes(
            content[:at] + bytes([content[at] ^ (1 << random_.randrange(8))]) + content[at + 1 :]
        )
    return f"{kind} {path.name}"


def follow(job: Job, hint: str) -> None:
    """Does what a hint says, literally."""
    command = hint.split("`")[1].split()
    assert command[:3] == ["shardmill", "checkpoint", "repair"], hint
    result = shardmill(*command[1:])
    assert result.returncode == 0, result.stdout + result.stderr


def resume(job: Job, **options) -> bool:
    """Runs the job to its end; whether it had to be repaired for that."""
    resumption._index.cache_clear()
    try:
        job.run(source=SOURCE, **options)
    except sm.CheckpointDamagedError as error:
        follow(job, str(error).split("hint: ")[1])
        resumption._index.cache_clear()
        job.run(source=SOURCE, **options)
        return True
    return False


@pytest.mark.parametrize("id_column", ["id", None])
def test_any_damage_to_a_checkpoint_ends_exact_or_is_repaired_by_the_command_of_its_hint(
    tmp_path, id_column
):
    job = stopped_twice(Job(tmp_path), ids_of, source=SOURCE, id_column=id_column)
    for directory in (job.state, job.out):
        shutil.copytree(directory, tmp_path / "saved" / directory.name)
    files = sorted(path.relative_to(tmp_path) for path in job.state.rglob("*") if path.is_file())
    random_ = random.Random(13)
    for file in files * examples(3, 1):
        story = damage(tmp_path / file, random_)
        resume(job, id_column=id_column)
        found = job.ids()
        assert found == Counter({(id,): count for id, count in EXPECTED.items()}), story
        for directory in (job.state, job.out):
            shutil.rmtree(directory)
            shutil.copytree(tmp_path / "saved" / directory.name, directory)


@pytest.mark.parametrize("kind", ["missing", "longer", "changed", "empty"])
def test_lost_outputs_are_made_again_after_a_repair(job, kind):
    job.run(source=SOURCE)
    outputs = sorted(job.out.iterdir())
    for path in outputs[:2]:
        content = path.read_bytes()
        if kind == "missing":
            path.unlink()
        else:
            path.write_bytes(
                {
                    "longer": content + b"x",
                    "changed": content[:50] + b"?" + content[51:],
                    "empty": b"",
                }[kind]
            )
    result = shardmill("checkpoint", "repair", job.state, "--json")
    told = json.loads(result.stdout)

    assert (result.returncode, len(told["reopened"])) == (0, 2)
    assert {problem["path"] for problem in told["problems"]} == {str(path) for path in outputs[:2]}
    report = job.run(source=SOURCE)
    assert (report.committed_before, len(report.splits)) == (2, 2)
    assert sorted(job.out.iterdir()) == outputs
    job.assert_ids(EXPECTED)
    again = shardmill("checkpoint", "repair", job.state)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "no problems\n")


def test_only_outputs_that_are_named_are_looked_at(job):
    job.run(source=SOURCE)
    first, second = sorted(job.out.iterdir())[:2]
    first.unlink()
    second.unlink()
    told = json.loads(shardmill("checkpoint", "repair", job.state, first, "--json").stdout)
    assert [problem["path"] for problem in told["problems"]] == [str(first)]
    assert resume(job)
    job.assert_ids(EXPECTED)


@pytest.mark.parametrize("what", ["out", "ids"])
def test_rows_of_lost_files_come_from_an_input_that_was_laid_out_anew(job, what):
    for file in job.source.iterdir():
        file.unlink()
    ids = sorted(EXPECTED)
    for start in range(0, len(ids), 3):
        job.write(f"anew-{start:03}", ids[start : start + 3])
    path = min(job.out.iterdir() if what == "out" else job.directory().glob("ids/*.parquet"))
    path.unlink()
    assert resume(job)
    job.assert_ids(EXPECTED)


def test_ids_that_overlap_are_not_done_twice_when_they_were_lost(tmp_path):
    """Rows of a later file are known by ids that are gone.

    They wait until the split of those has run again.
    """
    job = Job(tmp_path)
    job.write("000", ["a", "b"])
    job.run()
    job.write("001", ["b", "c"])
    job.write("002", ["c", "d"])
    job.stop(1)
    next(job.directory().glob("ids/*.parquet")).unlink()
    assert resume(job)
    assert sum(job.ids().values()) == 5
    assert set(job.ids()) == {("a",), ("b",), ("c",), ("d",)}


def test_both_copies_of_a_plan_are_beyond_repair_and_the_message_says_so(job):
    for path in job.directory().glob("plan/000000*"):
        path.write_bytes(b"")
    with pytest.raises(sm.CheckpointDamagedError, match="checkpoint repair"):
        job.run(source=SOURCE)
    result = shardmill("checkpoint", "repair", job.state)
    assert result.returncode == 1
    assert "start over with another checkpoint path" in result.stderr


def test_repair_refuses_a_job_that_runs(job):
    told = []
    job.run(
        source=SOURCE, on_call=lambda: told.append(shardmill("checkpoint", "repair", job.state))
    )
    assert {result.returncode for result in told} == {1}
    assert all("is held by process" in result.stderr for result in told)
