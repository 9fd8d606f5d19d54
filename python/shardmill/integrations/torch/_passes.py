"""Agreement of worker processes on the epoch of a pass.

Worker processes of a ``DataLoader`` each start a pass on their own, at any time, without asking the
process of the trainer. Yet all workers of one pass must deliver the same epoch. So the first worker that starts a pass records
its epoch, and the others read it. The record is a shared file that belongs to the process of the trainer. Invariant: the record of a
pass never changes, even if ``Passes.move`` is called while its workers start.
"""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.utils.data import get_worker_info

from shardmill.errors import EngineError
from shardmill.integrations.torch._shared_file import SharedFile

#: Identifies a pass in all its workers: the seed that torch draws for an iterator, and the number of passes its workers have started.
PassKey = tuple[int, int]

_REMEMBERED_MOVES = 8
_REMEMBERED_PASSES = 64


class Passes:
    """Epochs and positions of passes, shared by a process and its workers."""

    def __init__(self) -> None:
        self._file = SharedFile.create()
        #: Calls of ``move`` known to this process.
        self._moves = 0

    def move(self, epoch: int, consumed: int) -> None:
        """Set the start of the next pass. Called in the process of the trainer."""
        self._moves += 1
        with self._content() as moves:
            moves[str(self._moves)] = {"next": [epoch, consumed], "passes": []}
            for old in sorted(map(int, moves))[:-_REMEMBERED_MOVES]:
                del moves[str(old)]

    def begin(self, key: PassKey, first: tuple[int, int]) -> tuple[int, int]:
        """Return the epoch and position of a pass: the recorded ones, else the next ones. Called in workers.

        Args:
            key: key of the pass.
            first: start of the first pass, if ``move`` was not called.
        """
        with self._content() as moves:
            move = self._move_of(moves, key)
            for seed, number, epoch, consumed in move["passes"]:
                if (seed, number) == key:
                    return epoch, consumed
            epoch, consumed = move["next"] or first
            self._given(move, key, epoch, consumed)
            return epoch, consumed

    def resumed(self, key: PassKey, epoch: int, consumed: int) -> None:
        """Record a pass that its workers restored from a saved state. Called in workers."""
        with self._content() as moves:
            move = self._move_of(moves, key)
            if all((seed, number) != key for seed, number, *_ in move["passes"]):
                self._given(move, key, epoch, consumed)

    def have_begun(self) -> bool:
        """Return whether workers have started a pass since the last move. Called in the process of the trainer."""
        with self._content() as moves:
            return bool(moves.get(str(self._moves), {}).get("passes"))

    def _move_of(self, moves: dict[str, Any], key: PassKey) -> dict[str, Any]:
        # A worker that starts its first pass late still belongs to the move under which it was created.
        number = self._moves if key[1] == 1 else max(map(int, moves), default=self._moves)
        return moves.setdefault(str(number), {"next": None, "passes": []})

    @staticmethod
    def _given(move: dict[str, Any], key: PassKey, epoch: int, consumed: int) -> None:
        move["passes"] = [*move["passes"], [*key, epoch, consumed]][-_REMEMBERED_PASSES:]
        move["next"] = [epoch + 1, 0]

    @contextmanager
    def _content(self) -> Iterator[dict[str, Any]]:
        """Open the moves of the trainer's process, by number, under an exclusive lock."""
        # Ranks that were started with copies of one data set share the file, but no entries.
        parent = multiprocessing.parent_process()
        trainer = os.getpid() if get_worker_info() is None or parent is None else parent.pid
        location = self._file.location()
        if location is None and trainer == os.getpid():
            # The process that made this copy has dropped it. Its workers are yet to come.
            self.__init__()
            location = self._file.location()
        if location is None:
            raise EngineError("the process that started this worker no longer has the data set")
        # A separate descriptor, because locks belong to it.
        file = os.open(location, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            content = json.loads(os.pread(file, os.fstat(file).st_size, 0) or b"{}")
            yield content.setdefault(str(trainer), {})
            text = json.dumps(content).encode()
            os.pwrite(file, text, 0)
            os.ftruncate(file, len(text))
        finally:
            os.close(file)

    def __getstate__(self) -> dict[str, Any]:
        return {"_file": self._file, "_moves": self._moves}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # A copy within the process, one that outlived it, or one on another machine starts again.
        if self._file.is_own or self._file.location() is None:
            self.__init__()

    def __del__(self) -> None:
        file = self.__dict__.get("_file")
        if file is not None and file.is_own:
            file.close()
