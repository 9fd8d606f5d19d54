"""The environment of trainers that cannot be installed beside the packages of the tests."""

import os
from pathlib import Path

_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
_TRAINERS = Path(os.environ.get("SHARDMILL_TRAINERS") or _CACHE / "shardmill/environments/trainers")


def python_of_trainers() -> str:
    """The interpreter of the environment. Without it, the test is skipped."""
    # The environment itself has none.
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
