"""A small file that a process shares with its workers, whether they were forked or spawned."""

from __future__ import annotations

import os
import sys
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SharedFile:
    """A file in memory that other processes open through ``/proc``.

    Where the system has no ``/proc``, it is a temporary file. A file in memory ends with its owner,
    however it ends. A temporary file stays if the owner is killed.

    Attributes:
        token: part of the name, which no other file has.
        owner: process that created the file, and closes it.
        descriptor: descriptor of a file in memory, in the owner and in processes forked from it.
        path: path of a temporary file.
    """

    token: str
    owner: int
    descriptor: int | None = None
    path: Path | None = None

    @classmethod
    def create(cls, *, in_memory: bool = sys.platform == "linux") -> SharedFile:
        """Create an empty file that belongs to this process."""
        token = f"shardmill-{uuid.uuid4().hex}"
        if in_memory:
            return cls(token, os.getpid(), descriptor=os.memfd_create(token))
        path = Path(tempfile.gettempdir()) / token
        path.touch(mode=0o600, exist_ok=False)
        return cls(token, os.getpid(), path=path)

    @property
    def is_own(self) -> bool:
        """Whether this process created the file."""
        return self.owner == os.getpid()

    def location(self) -> Path | None:
        """Return where to open the file; None if it no longer exists."""
        if self.path is not None:
            return self.path if self.path.exists() else None
        # Forked processes have the descriptor, others find it in the process that created it.
        for process in ("self", self.owner):
            location = Path(f"/proc/{process}/fd/{self.descriptor}")
            try:
                if self.token in str(location.readlink()):
                    return location
            except OSError:
                continue
        return None

    def close(self) -> None:
        """Remove the file. Called by its owner."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
        elif self.descriptor is not None:
            os.close(self.descriptor)
