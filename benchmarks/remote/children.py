"""Python processes that are told what to do by lines, and begin at a word.

Enters: a module and a job for each process. Leaves: what each has answered. Called by ``alone`` and ``ceiling``. Invariant: no process
is left when the call returns; all have read their job, and done what comes before their clock, when the word comes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]


def run_children(module: str, jobs: Sequence[dict[str, Any]]) -> list[Any]:
    """One process a job: it reads the job, prints that it is ready, reads the word, prints its answer.

    Raises:
        RuntimeError: If one of them ends before.
    """
    with ExitStack() as stack:
        children = [stack.enter_context(_started(module)) for _ in jobs]
        try:
            for child, job in zip(children, jobs, strict=True):
                _tell(child, json.dumps(job))
            for child in children:
                _hear(child)
            for child in children:
                _tell(child, "go")
            return [json.loads(_hear(child)) for child in children]
        finally:
            for child in children:
                child.kill()


def _started(module: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_ROOT
    )


def _tell(child: subprocess.Popen[str], line: str) -> None:
    assert child.stdin is not None
    child.stdin.write(line + "\n")
    child.stdin.flush()


def _hear(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    line = child.stdout.readline()
    if not line:
        msg = f"a process of the benchmark ended with code {child.wait()}\nhint: its message is in the log of the entry"
        raise RuntimeError(msg)
    return line


def job_of_child() -> dict[str, Any]:
    """What this process is to do."""
    return json.loads(sys.stdin.readline())


def ready() -> None:
    """Says so, and returns at the word."""
    print("ready", flush=True)
    sys.stdin.readline()


def answer(found: Any) -> None:
    """Ends the work of this process."""
    print(json.dumps(found), flush=True)
