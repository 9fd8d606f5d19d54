"""Python code in a process of its own.

A crash is an exit code and a hang has an end, that of its children too.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from promptness import HANGS_S


class ProcessError(AssertionError):
    """It crashed, failed or hung. ``out`` is what it had printed."""

    def __init__(self, what: str, out: str, errors: str) -> None:
        super().__init__(f"{what}\n{out[-2000:]}\n{errors[-6000:]}")
        self.out = out


def run_python(
    code: str | Path,
    *arguments: object,
    timeout: float = HANGS_S,
    cwd: Path | None = None,
    **environment: str,
) -> str:
    """What the code, or the script, printed. Its imports find what ours find."""
    path = [str(Path(__file__).parent), *filter(None, sys.path)]
    what = ["-c", code] if isinstance(code, str) else [str(code)]
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore::DeprecationWarning", *what, *map(str, arguments)],
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
        raise ProcessError("hangs", *process.communicate()) from None
    if process.returncode:
        raise ProcessError(f"exit code {process.returncode}", out, errors)
    return out
