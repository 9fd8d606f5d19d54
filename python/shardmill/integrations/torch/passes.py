"""Which epoch a pass through worker processes belongs to.

Worker processes of a ``DataLoader`` begin a pass each on their own, at any time, and the trainer's process is not
asked. Yet all of one pass must deliver the same epoch. So the first worker that begins a pass writes its epoch down,
and the others find it there. The place is a file in memory that belongs to the trainer's process; workers open it
through ``/proc``, whether they were forked or spawned. The invariant: what a pass was given is never changed, also
when :meth:`Passes.move` is called while its workers start.
"""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch.utils.data import get_worker_info

from shardmill.errors import EngineError

#: A pass, as all of its workers know it: the seed that torch draws for an iterator, and how often its workers were told to begin.
PassKey = tuple[int, int]

_REMEMBERED_MOVES = 8
_REMEMBERED_PASSES = 64


class Passes:
    """Epochs and positions of passes, shared by a process and its workers."""

    def __init__(self) -> None:
        self._token = f"shardmill-{uuid.uuid4().hex}"
        self._owner = os.getpid()
        self._file = os.memfd_create(self._token)
        #: Calls of :meth:`move` that this process knows of.
        self._moves = 0

    def move(self, epoch: int, consumed: int) -> None:
        """The next pass starts there. For the process of the trainer."""
        self._moves += 1
        with self._content() as moves:
            moves[str(self._moves)] = {"next": [epoch, consumed], "passes": []}
            for old in sorted(map(int, moves))[:-_REMEMBERED_MOVES]:
                del moves[str(old)]

    def begin(self, key: PassKey, first: tuple[int, int]) -> tuple[int, int]:
        """Epoch and position of a pass: those that it was given already, else the next ones. For workers.

        Args:
            key: of the pass.
            first: where the first of all passes starts, when nobody has moved.
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
        """A pass that its workers got out of a saved state. For workers."""
        with self._content() as moves:
            move = self._move_of(moves, key)
            if all((seed, number) != key for seed, number, *_ in move["passes"]):
                self._given(move, key, epoch, consumed)

    def have_begun(self) -> bool:
        """Whether workers have begun a pass since the last move. For the process of the trainer."""
        with self._content() as moves:
            return bool(moves.get(str(self._moves), {}).get("passes"))

    def _move_of(self, moves: dict[str, Any], key: PassKey) -> dict[str, Any]:
        # A worker that begins its first pass late still belongs to the move under which it was made.
        number = self._moves if key[1] == 1 else max(map(int, moves), default=self._moves)
        return moves.setdefault(str(number), {"next": None, "passes": []})

    @staticmethod
    def _given(move: dict[str, Any], key: PassKey, epoch: int, consumed: int) -> None:
        move["passes"] = [*move["passes"], [*key, epoch, consumed]][-_REMEMBERED_PASSES:]
        move["next"] = [epoch + 1, 0]

    @contextmanager
    def _content(self) -> Iterator[dict[str, Any]]:
        """Moves of the trainer's process, by their numbers, while nobody else changes them."""
        # Ranks that were started with copies of one data set share the file, and nothing in it.
        parent = multiprocessing.parent_process()
        trainer = os.getpid() if get_worker_info() is None or parent is None else parent.pid
        place = self._place()
        if place is None and trainer == os.getpid():
            # The process that gave this one its copy has forgotten it. Workers are still to come.
            self.__init__()
            place = self._place()
        if place is None:
            raise EngineError("the process that started this worker no longer has the data set")
        # A descriptor of one's own: locks belong to it.
        file = os.open(place, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            content = json.loads(os.pread(file, os.fstat(file).st_size, 0) or b"{}")
            yield content.setdefault(str(trainer), {})
            text = json.dumps(content).encode()
            os.pwrite(file, text, 0)
            os.ftruncate(file, len(text))
        finally:
            os.close(file)

    def _place(self) -> Path | None:
        """Where the file is opened: forked processes have it, others find it where it was made."""
        for process in ("self", self._owner):
            place = Path(f"/proc/{process}/fd/{self._file}")
            try:
                if self._token in str(place.readlink()):
                    return place
            except OSError:
                continue
        return None

    def __getstate__(self) -> dict[str, Any]:
        return {"_token": self._token, "_owner": self._owner, "_file": self._file, "_moves": self._moves}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # A copy within the process, or one that outlived it, or came to another machine, starts anew.
        if self._owner == os.getpid() or self._place() is None:
            self.__init__()

    def __del__(self) -> None:
        if self.__dict__.get("_owner") == os.getpid():
            os.close(self._file)
