"""Functions in children of one process that has imported what they need, so each costs a fork.

``python forking.py MODULE ...``. A line of its input is JSON: module, function, arguments, a file
for what the child prints, and its limit in seconds. It answers with the exit code of the child.
"""

import gc
import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from environment import child_environment


class Forking:
    """The process, seen from the tests. It ends with the block."""

    def __init__(self, *modules: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore::DeprecationWarning", __file__, *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=child_environment(),
        )

    def __enter__(self) -> "Forking":
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.communicate()

    def call(
        self, module: str, function: str, *arguments: object, log: Path, timeout: int = 3600
    ) -> tuple[int, str]:
        """The exit code of a child, and what it printed, its errors among that.

        The code is negative when a signal ended it.
        """
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(
            json.dumps([module, function, arguments, str(log), timeout]) + "\n"
        )
        self.process.stdin.flush()
        code = self.process.stdout.readline()
        assert code, "the process that forks has ended"
        return int(code), log.read_text()


def forking(*modules: str) -> Any:
    """A fixture: the process, for the tests of a module."""

    @pytest.fixture(scope="module")
    def process() -> Iterator[Forking]:
        with Forking(*modules) as running:
            yield running

    return process


def main(*modules: str) -> None:
    for module in modules:
        importlib.import_module(module)
    # A collection in a child would copy the memory that all share.
    gc.freeze()
    for line in sys.stdin:
        module, function, arguments, log, timeout = json.loads(line)
        child = os.fork()
        if child == 0:
            # Errors are merged, so that a panic shows beside what was printed before it.
            for number in (1, 2):
                os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
            signal.alarm(timeout)
            getattr(sys.modules[module], function)(*arguments)
            return
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
