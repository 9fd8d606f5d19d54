"""Stubs say what the compiled module has, and the package passes the type checker."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "python"


def test_stubs_agree_with_the_compiled_module() -> None:
    pytest.importorskip("mypy")
    environment = os.environ | {"MYPYPATH": str(PACKAGE), "PYTHONPATH": str(PACKAGE)}
    command = [sys.executable, "-m", "mypy.stubtest", "shardmill._native"]
    result = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_package_has_no_type_errors() -> None:
    pytest.importorskip("pyright")
    command = [
        sys.executable,
        "-m",
        "pyright",
        "--outputjson",
        "--pythonpath",
        sys.executable,
        str(PACKAGE / "shardmill"),
    ]
    result = subprocess.run(command, capture_output=True, text=True, cwd=PACKAGE.parent, timeout=300, check=False)
    report = json.loads(result.stdout)
    assert report["summary"]["filesAnalyzed"] > 10
    errors = [item for item in report["generalDiagnostics"] if item["severity"] == "error"]
    assert errors == []
