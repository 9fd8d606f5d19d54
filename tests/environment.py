"""Environments of processes that tests start."""

import os
import sys
from pathlib import Path

_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
_TRAINERS = Path(os.environ.get("SHARDMILL_TRAINERS") or _CACHE / "shardmill/environments/trainers")


def child_environment(**variables: str) -> dict[str, str]:
    """The environment of a child process that can import what this process can."""
    paths = os.pathsep.join(path for path in sys.path if path)
    return os.environ | {"PYTHONPATH": paths} | variables


def python_of_trainers() -> str:
    """The interpreter of trainers that cannot be installed beside the packages of the tests.

    Without it, the test is skipped.
    """
    # That environment has no pytest.
    import pytest

    python = _TRAINERS / "bin" / "python"
    if not python.exists():
        pytest.skip("the environment of torchtitan and Megatron is missing; run: make trainers")
    return str(python)


def guide_code(heading: str) -> str:
    """The code below a heading of the guide for trainers."""
    page = Path(__file__).parents[1] / "docs/guides/trainers.md"
    section = page.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    blocks = section.split("```python")[1:]
    return "".join(block.partition("\n")[2].partition("```")[0] for block in blocks)
