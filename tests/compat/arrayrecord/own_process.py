"""Python code in a process of its own, where a crash is an exit code and a hang has an end, that of its children too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path


def run_python(code: str, *arguments: object, timeout: float = 60, cwd: Path | None = None, **environment: str) -> str:
    """What the code printed. Its imports find what ours find."""
    path = [str(Path(__file__).parent), *filter(None, sys.path)]
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path)} | environment,
        cwd=cwd,
        start_new_session=True,
    )
    try:
        out, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, errors = process.communicate()
        raise AssertionError(f"hangs after: {out[-2000:]}\n{errors[-2000:]}") from None
    assert process.returncode == 0, f"exit code {process.returncode}\n{out[-2000:]}\n{errors[-6000:]}"
    return out
