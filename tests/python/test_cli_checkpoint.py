"""The command ``shardmill checkpoint`` as a user runs it."""

from __future__ import annotations

import json
import os

import pytest

pytest.importorskip("pyarrow")

from checkpoint_jobs import Job
from command import shardmill


@pytest.fixture
def job(tmp_path):
    job = Job(tmp_path)
    job.write_numbers()
    job.stop(3, version="7")
    return job


def test_inspect_tells_the_job_and_changes_nothing(job):
    before = {path: path.stat().st_mtime_ns for path in job.state.rglob("*")}
    result = shardmill("checkpoint", "inspect", job.state)

    assert (result.returncode, result.stderr) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in result.stdout.splitlines())
    assert lines["running"] == "no"
    assert lines["splits"] == "2 of 5 committed"
    assert lines["rows"] == "20 in, 0 done before, 20 out"
    assert lines["ids"] == "20 recorded"
    assert lines["version"] == '"7"'
    assert str(job.out) in lines["outputs"]
    assert {path: path.stat().st_mtime_ns for path in job.state.rglob("*")} == before


def test_inspect_as_json_is_one_object(job):
    result = shardmill("checkpoint", "inspect", job.state, "--json")
    told = json.loads(result.stdout)

    assert (result.returncode, result.stderr) == (0, "")
    assert (told["splits"], told["committed_splits"], told["ids"], told["holder"]) == (
        5,
        2,
        20,
        None,
    )
    assert told["fingerprint"]["input"] == [str(job.source)]


def test_inspect_names_who_is_at_work(job):
    told = []

    def look():
        told.append(
            json.loads(shardmill("checkpoint", "inspect", job.state, "--json").stdout)["holder"]
        )

    job.run(version="7", on_call=look)
    assert {text.split(" on ")[0] for text in told} == {f"process {os.getpid()}"}


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda path: os.truncate(path, path.stat().st_size - 5), "is damaged"),
        (lambda path: path.unlink(), "is missing"),
    ],
    ids=["damaged", "missing"],
)
def test_verify_reports_a_record_that_is_damaged_or_missing(job, damage, problem):
    damage(min(job.directory().glob("units-*/*")))
    result = shardmill("checkpoint", "verify", job.state)

    assert result.returncode == 1
    *problems, counts = result.stdout.splitlines()
    assert [line.split(": ")[1] for line in problems] == [f"the record of its split {problem}"]
    assert counts == "1 split, 1 file: 1 problem"


@pytest.mark.parametrize("command", ["verify", "repair"])
def test_name_with_control_characters_is_shown_escaped(tmp_path, command):
    job = Job(tmp_path / "a\x1b[31m")
    job.write_numbers()
    job.run()
    lost = min(job.out.iterdir())
    lost.unlink()
    told = shardmill("checkpoint", command, job.state).stdout.splitlines()[0]

    assert told == f"{lost}: it is missing".replace("\x1b", r"\u001b")


@pytest.mark.parametrize("command", ["inspect", "verify", "compact", "repair"])
@pytest.mark.parametrize("place", ["nowhere", "in"])
def test_directory_without_a_checkpoint_is_an_error_that_makes_nothing(
    job, tmp_path, command, place
):
    result = shardmill("checkpoint", command, tmp_path / place)

    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("error: There is no checkpoint of a job at")
    assert "hint: " in result.stderr
    assert not (tmp_path / "nowhere").exists()


def test_verify_finds_no_problem_before_and_after_the_end(job):
    for _ in range(2):
        result = shardmill("checkpoint", "verify", job.state)
        assert (result.returncode, result.stderr) == (0, "")
        assert result.stdout.endswith("no problems\n")
        job.run(version="7")


@pytest.mark.parametrize("damage", ["missing", "longer", "changed"])
@pytest.mark.parametrize("is_packed", [False, True])
def test_verify_names_outputs_that_are_not_as_they_were(job, damage, is_packed):
    if is_packed:
        job.run(version="7")
    first = min(job.out.iterdir())
    content = first.read_bytes()
    if damage == "missing":
        first.unlink()
    elif damage == "longer":
        first.write_bytes(content + b"x")
    else:
        first.write_bytes(content[:50] + bytes([content[50] ^ 1]) + content[51:])
    result = shardmill("checkpoint", "verify", job.state, "--json")

    assert result.returncode == 1
    [problem] = json.loads(result.stdout)
    assert problem["path"] == str(first)
    word = {"missing": "missing", "longer": "bytes", "changed": "content"}[damage]
    assert word in problem["problem"]
    assert result.stderr.endswith(": 1 problem\n")
    told = shardmill("checkpoint", "verify", job.state)
    assert told.returncode == 1
    assert str(first) in told.stdout


@pytest.mark.parametrize("name", ["checkpoint.json", "plan/000000"])
def test_damaged_checkpoint_is_told_by_each_command(job, name):
    path = job.state / name if name == "checkpoint.json" else job.directory() / name
    copy = (
        job.directory() / name if name == "checkpoint.json" else path.with_name(f"{path.name}.copy")
    )
    for file in (path, copy):
        file.write_bytes(file.read_bytes()[:-2])
    for command in ("inspect", "verify", "compact"):
        result = shardmill("checkpoint", command, job.state)
        assert result.returncode == 1
        assert path.name in result.stdout + result.stderr
        assert "Traceback" not in result.stderr
    assert json.loads(shardmill("checkpoint", "verify", job.state, "--json").stdout)


def test_compact_leaves_one_file_of_records_and_the_job_goes_on(job):
    for _ in range(2):
        job.stop(2, version="7")
    assert len(list(job.directory().glob("units-*/*"))) > 0
    result = shardmill("checkpoint", "compact", job.state)

    assert (result.returncode, result.stdout) == (0, "")
    assert result.stderr == "4 committed splits in one file\n"
    assert len(list(job.directory().glob("packs/*"))) == 2, "one pack and its copy"
    assert not list(job.directory().glob("units-*/*"))
    report = job.run(version="7")
    assert (report.committed_before, len(report.splits)) == (4, 1)
    assert sum(job.ids().values()) == len(job.ids()) == 50


def test_compact_refuses_a_job_that_runs(job):
    told = []

    def look():
        told.append(shardmill("checkpoint", "compact", job.state))

    job.run(version="7", on_call=look)
    assert {result.returncode for result in told} == {1}
    assert all("is held by process" in result.stderr for result in told)
