"""Agreement of worker processes on the epoch of a pass.

Worker processes of a ``DataLoader`` each start a pass on their own, at any time, without asking the
process of the trainer. Yet all workers of one pass must deliver the same epoch. So the first worker
that starts a pass records its epoch, and the others read it. The record is a shared file that
belongs to the process of the trainer. Invariant: the record of a pass never changes, even if
``Passes.move`` is called while its workers start, and is whole even if a worker is killed.
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

#: Identifies a pass in all its workers: the seed that torch draws for an iterator,
#: and the number of passes its workers have started.
PassKey = tuple[int, int]

#: At the start of the file: where the content begins after it, and its length.
#: Zeros if there is no content yet.
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
        """Set the start of the next pass, and the lanes if they change.

        Called in the process of the trainer.
        """
        self._moves += 1
        with self._content() as moves:
            lanes = lanes or moves.get(str(self._moves - 1), {}).get("lanes")
            moves[str(self._moves)] = {"next": [epoch, consumed], "passes": {}, "lanes": lanes}
            _forget(moves, _REMEMBERED_MOVES)

    def begin(
        self, key: PassKey, worker: int, first: tuple[int, int], lanes: int | None = None
    ) -> tuple[int, int, int | None]:
        """Return the epoch and position of a pass: the recorded ones, else the next ones.

        Called in workers. The lanes come last, if they are not those with which the loader
        was created.

        Args:
            key: key of the pass.
            worker: number of the worker.
            first: start of the first pass, if ``move`` was not called; with ``lanes``, start of
                this pass.
            lanes: lanes of a saved state from which the workers restored the pass. Later passes
                keep them.
        """
        with self._content() as moves:
            # A worker that starts its first pass late still belongs to the move of its creation.
            number = self._moves if key[1] == 1 else max(map(int, moves), default=self._moves)
            move = moves.setdefault(str(number), {"next": None, "passes": {}, "lanes": None})
            move["lanes"] = lanes or move["lanes"]
            name = " ".join(map(str, key))
            epoch, consumed, workers = move["passes"].pop(name, (0, 0, [worker]))
            # A worker begins a pass once: if it has begun the recorded one, this is a later pass,
            # for which torch drew the same seed again.
            if worker in workers:
                epoch, consumed = first if lanes else move["next"] or first
                move["next"], workers = [epoch + 1, 0], []
            move["passes"][name] = [epoch, consumed, [*workers, worker]]
            _forget(move["passes"], _REMEMBERED_PASSES)
            return epoch, consumed, move["lanes"]

    def have_begun(self) -> bool:
        """Return whether workers have started a pass since the last move.

        Called in the process of the trainer.
        """
        with self._content() as moves:
            return bool(moves.get(str(self._moves), {}).get("passes"))

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
            # A worker may be killed during a write of several pages, but not during that of the
            # place. So the old content stays until then.
            free = 0 if len(text) <= start else start + length
            os.pwrite(file, text, _PLACE.size + free)
            os.pwrite(file, _PLACE.pack(free, len(text)), 0)
        finally:
            os.close(file)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # A copy within the process, one that outlived it, or one on another machine starts again.
        if self._file.is_own or self._file.location() is None:
            self.__init__()

    def __del__(self) -> None:
        file = self.__dict__.get("_file")
        if file is not None and file.is_own:
            file.close()


def _forget(entries: dict[str, Any], kept: int) -> None:
    """Remove all but the latest entries."""
    for old in list(entries)[:-kept]:
        del entries[old]
