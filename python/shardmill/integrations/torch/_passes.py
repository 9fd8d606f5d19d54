"""Agreement of worker processes on the epoch of a pass.

Worker processes of a ``DataLoader`` each start a pass on their own, at any time, without asking the
process of the trainer. Yet all workers of one pass must deliver the same epoch. So the first worker that starts a pass records
its epoch, and the others read it. The record is a shared file that belongs to the process of the trainer. Invariant: the record of a
pass never changes, even if ``Passes.move`` is called while its workers start, and is whole even if a worker is killed.
"""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.utils.data import get_worker_info

from shardmill.errors import EngineError
from shardmill.integrations.torch._shared_file import SharedFile

#: Identifies a pass in all its workers: the seed that torch draws for an iterator, and the number of passes its workers have started.
PassKey = tuple[int, int]

#: At the start of the file: where the content begins after it, and its length. Zeros if there is no content yet.
_PLACE = struct.Struct("<QQ")

_REMEMBERED_MOVES = 8
_REMEMBERED_PASSES = 64


class Passes:
    """Epochs and positions of passes, shared by a process and its workers."""

    def __init__(self) -> None:
        self._file = SharedFile.create()
        #: Calls of ``move`` known to this process.
        self._moves = 0

    def move(self, epoch: int, consumed: int, lanes: int | None = None) -> None:
        """Set the start of the next pass, and the lanes if they change. Called in the process of the trainer."""
        self._moves += 1
        with self._content() as moves:
            lanes = lanes or moves.get(str(self._moves - 1), {}).get("lanes")
            moves[str(self._moves)] = {"next": [epoch, consumed], "passes": [], "lanes": lanes}
            for old in sorted(map(int, moves))[:-_REMEMBERED_MOVES]:
                del moves[str(old)]

    def begin(self, key: PassKey, worker: int, first: tuple[int, int]) -> tuple[int, int, int | None]:
        """Return the epoch and position of a pass: the recorded ones, else the next ones. Called in workers.

        The lanes come last, if they are not those with which the loader was created.

        Args:
            key: key of the pass.
            worker: number of the worker.
            first: start of the first pass, if ``move`` was not called.
        """
        with self._content() as moves:
            move = self._move_of(moves, key)
            joined = self._joined(move, key, worker)
            if joined is not None:
                return *joined, move["lanes"]
            epoch, consumed = move["next"] or first
            self._given(move, key, worker, epoch, consumed)
            return epoch, consumed, move["lanes"]

    def resumed(self, key: PassKey, worker: int, epoch: int, consumed: int, lanes: int) -> None:
        """Record a pass that its workers restored from a saved state, whose lanes later passes keep. Called in workers."""
        with self._content() as moves:
            move = self._move_of(moves, key)
            move["lanes"] = lanes
            if self._joined(move, key, worker) is None:
                self._given(move, key, worker, epoch, consumed)

    def have_begun(self) -> bool:
        """Return whether workers have started a pass since the last move. Called in the process of the trainer."""
        with self._content() as moves:
            return bool(moves.get(str(self._moves), {}).get("passes"))

    def _move_of(self, moves: dict[str, Any], key: PassKey) -> dict[str, Any]:
        # A worker that starts its first pass late still belongs to the move under which it was created.
        number = self._moves if key[1] == 1 else max(map(int, moves), default=self._moves)
        return moves.setdefault(str(number), {"next": None, "passes": [], "lanes": None})

    @staticmethod
    def _joined(move: dict[str, Any], key: PassKey, worker: int) -> tuple[int, int] | None:
        """Return the recorded start of a pass that another worker has begun, and note that ``worker`` has begun it too.

        A worker begins a pass once: if it has begun the recorded one, this is a later pass, for which torch drew the same seed again.
        """
        for seed, number, epoch, consumed, workers in reversed(move["passes"]):
            if (seed, number) == key:
                if worker in workers:
                    return None
                workers.append(worker)
                return epoch, consumed
        return None

    @staticmethod
    def _given(move: dict[str, Any], key: PassKey, worker: int, epoch: int, consumed: int) -> None:
        move["passes"] = [*move["passes"], [*key, epoch, consumed, [worker]]][-_REMEMBERED_PASSES:]
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
            start, length = _PLACE.unpack(os.pread(file, _PLACE.size, 0).ljust(_PLACE.size, b"\0"))
            content = json.loads(os.pread(file, length, _PLACE.size + start) or b"{}")
            yield content.setdefault(str(trainer), {})
            text = json.dumps(content).encode()
            # A worker may be killed during a write of several pages, but not during that of the place. So the old content stays until then.
            free = 0 if len(text) <= start else start + length
            os.pwrite(file, text, _PLACE.size + free)
            os.pwrite(file, _PLACE.pack(free, len(text)), 0)
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
