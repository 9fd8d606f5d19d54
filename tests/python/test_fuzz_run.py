"""`fuzz/run.sh` with a `cargo` that only tells what it was called with, and the nightly job."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
TARGETS = sorted(path.stem for path in (REPOSITORY / "fuzz/fuzz_targets").glob("*.rs"))
#: Minutes that the build takes, by docs/fuzzing.md.
BUILD = 60


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = ["fuzz/run.sh", *arguments]
    variables = {**os.environ, **environment}
    return subprocess.run(
        command, cwd=REPOSITORY, env=variables, capture_output=True, text=True, check=False
    )


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "cargo").write_text("#!/bin/sh\n")
    (tmp_path / "mkdir").write_text("#!/bin/sh\n")
    for program in tmp_path.iterdir():
        program.chmod(0o755)
    return f"{tmp_path}:{os.environ['PATH']}"


def ran(run: subprocess.CompletedProcess[str]) -> list[str]:
    assert run.returncode == 0, run.stderr
    return [
        line.split()[1].removesuffix(",")
        for line in run.stdout.splitlines()
        if line.startswith("== ")
    ]


def test_parts_have_each_target_once(path: str) -> None:
    parts = [ran(run("1", PATH=path, PART=f"{number}/3")) for number in (1, 2, 3)]
    assert sorted(target for part in parts for target in part) == TARGETS
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_run_without_a_part_has_all_targets(path: str) -> None:
    assert ran(run("1", PATH=path)) == TARGETS
    assert ran(run("1", "exif", PATH=path)) == ["exif"]


@pytest.mark.parametrize("part", ["3", "0/3", "1/0"])
def test_part_that_names_no_targets_is_refused(path: str, part: str) -> None:
    refused = run("1", PATH=path, PART=part)
    assert (refused.returncode, part in refused.stderr) == (2, True)


def test_call_without_seconds_shows_the_usage() -> None:
    shown = run()
    assert shown.returncode == 2
    assert shown.stderr.startswith("usage: fuzz/run.sh SECONDS")


def test_nightly_targets_fit_into_the_time_of_their_job() -> None:
    job = yaml.safe_load((REPOSITORY / ".github/workflows/nightly.yml").read_text())["jobs"]["fuzz"]
    parts = job.get("strategy", {}).get("matrix", {}).get("part", [1])
    assert -(-len(TARGETS) // len(parts)) * 20 + BUILD <= job["timeout-minutes"] <= 360
