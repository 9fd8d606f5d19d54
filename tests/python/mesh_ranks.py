"""Ranks of a job, forked from one process that has imported torch, and joined by gloo.

``python mesh_ranks.py MODULE`` imports a module, and forks the ranks of each line of its input, a
directory and a number. They connect to a socket in that directory, and run the functions that they
are asked for, of ``mesh_scenes`` or of a module that is named with a dot.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import traceback
from functools import cache
from importlib import import_module
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from types import TracebackType
from typing import Any

from promptness import HANGS_S


class Ranks:
    """Ranks that run, seen from a test."""

    def __init__(self, size: int, python: str = sys.executable, imports: str = "torch") -> None:
        """Forks ranks of a Python that has imported a module."""
        self._directory = tempfile.TemporaryDirectory()
        path = Path(self._directory.name)
        with Listener(str(path / "socket")) as listener:
            server = _server(os.getpid(), python, imports)
            assert server.stdin is not None
            server.stdin.write(json.dumps([str(path), size]) + "\n")
            server.stdin.flush()
            connections = [listener.accept() for _ in range(size)]
        self._ranks: dict[int, tuple[int, Connection]] = {}
        for connection in connections:
            rank, process = connection.recv()
            self._ranks[rank] = process, connection

    def run(self, scene: str, *arguments: Any, **options: Any) -> list[Any]:
        """What a function returns on each rank."""
        self.start(scene, *arguments, **options)
        end = time.monotonic() + HANGS_S
        answers = [self._answer(rank, end) for rank in range(len(self._ranks))]
        failures = [
            f"rank {rank}: {answer}" for rank, (done, answer) in enumerate(answers) if not done
        ]
        assert not failures, "\n".join(failures)
        return [answer for _, answer in answers]

    def start(self, scene: str, *arguments: Any, **options: Any) -> None:
        """Begin a function that does not end."""
        for _, connection in self._ranks.values():
            connection.send((scene, arguments, options))

    def _answer(self, rank: int, end: float) -> tuple[bool, Any]:
        connection = self._ranks[rank][1]
        is_there = connection.poll(max(0, end - time.monotonic()))
        return connection.recv() if is_there else (False, "hangs")

    def __enter__(self) -> Ranks:
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._directory.cleanup()

    def kill(self) -> None:
        """Kill all ranks at once."""
        for process, connection in self._ranks.values():
            os.kill(process, 9)
            connection.close()
        self._ranks.clear()


@cache
def _server(_process: int, python: str, imports: str) -> subprocess.Popen[str]:
    """One for each process of tests. It ends when its input is closed."""
    # Another Python has its own packages.
    packages = tuple(map(sysconfig.get_path, ("stdlib", "purelib", "platlib")))
    paths = os.pathsep.join(path for path in sys.path if path and not path.startswith(packages))
    return subprocess.Popen(
        [python, __file__, imports],
        stdin=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": paths},
    )


def _serve() -> None:
    import mesh_scenes  # noqa: F401
    import torch
    import trainer_scenes  # noqa: F401

    import_module(sys.argv[1])
    torch.set_num_threads(1)
    # Ranks that were killed leave nothing.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # A collection in a rank would copy the memory that all share.
    gc.freeze()
    for line in sys.stdin:
        directory, size = json.loads(line)
        for rank in range(size):
            if os.fork() == 0:
                os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), LOCAL_WORLD_SIZE=str(size))
                _become(directory, rank, size)


def _become(directory: str, rank: int, size: int) -> None:
    from torch import distributed

    with Client(f"{directory}/socket") as connection:
        connection.send((rank, os.getpid()))
        method = f"file://{directory}/rendezvous"
        distributed.init_process_group("gloo", init_method=method, rank=rank, world_size=size)
        while True:
            try:
                scene, arguments, options = connection.recv()
            except EOFError:
                os._exit(0)
            try:
                module, _, name = scene.rpartition(".")
                scenes = import_module(module or "mesh_scenes")
                answer = True, getattr(scenes, name)(*arguments, **options)
            except BaseException:
                answer = False, traceback.format_exc()
            connection.send(answer)


if __name__ == "__main__":
    _serve()
