"""The programs are built once; if that fails, it is reported."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]


def run(code: str, cache: Path, **environment: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, *code.split(" ", 1)],
        cwd=TESTS,
        env={**os.environ, "XDG_CACHE_HOME": str(cache), **environment},
        stderr=subprocess.PIPE,
        text=True,
    )


def test_without_go_and_node_one_line_each_says_so(tmp_path):
    with run("-m remote.binary", tmp_path, PATH=str(tmp_path)) as process:
        _, told = process.communicate()
    assert (process.returncode, told.count("\n")) == (0, 2)
    assert "install Go" in told and "install Node.js" in told


def test_build_that_breaks_fails_and_leaves_nothing_to_run(tmp_path):
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho 'no space left on device' >&2; exit 1\n")
    go.chmod(0o755)
    with run("-m remote.binary", tmp_path, PATH=f"{tmp_path}:/usr/bin:/bin") as process:
        _, told = process.communicate()
    assert process.returncode == 1
    assert "no space left on device" in told
    assert [
        path for path in (tmp_path / "shardmill/tools").iterdir() if not path.name.startswith(".")
    ] == []


def test_server_that_cannot_be_fetched_is_told_and_fails_nothing(tmp_path):
    for name, text in (("node", "exit 0"), ("npm", "echo 'network is unreachable' >&2; exit 1")):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    with run("-m remote.binary", tmp_path, PATH=str(tmp_path)) as process:
        _, told = process.communicate()
    assert process.returncode == 0
    assert "the Azure server cannot be installed" in told and "network is unreachable" in told
    assert [
        path for path in (tmp_path / "shardmill/tools").iterdir() if not path.name.startswith(".")
    ] == []


@pytest.mark.skipif(shutil.which("go") is None, reason="no Go here")
def test_two_at_once_build_one_time(tmp_path):
    code = "-c import remote.binary as binary; binary.BUILDS = True; binary.proxy_path()"
    # Go's own cache, so that its library is not compiled again.
    gocache = subprocess.run(
        ["go", "env", "GOCACHE"], capture_output=True, text=True, check=True
    ).stdout.strip()
    processes = [run(code, tmp_path, GOCACHE=gocache) for _ in range(2)]
    told = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert sum("building" in each for each in told) == 1
