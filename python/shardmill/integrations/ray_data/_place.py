"""Where the files of a write stay until they are visible, and the record that makes them visible.

A hidden directory in the output belongs to one write at a time. On a disk, a lock ensures this. A
store has no locks: there, the record also names the write that it belongs to, and is replaced only
if nothing else has changed it. A write that another one has taken over can therefore no longer be
recorded, and a recorded write cannot be taken over before it is complete.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from shardmill._native import storage
from shardmill._native.write import publish_bytes
from shardmill.errors import OutputExistsError, StorageError
from shardmill.integrations._landmark import Landmark
from shardmill.storage._paths import is_remote

_NAME, _RECORD = ".shardmill-ray", "manifest.json"


def joined(directory: str, name: str) -> str:
    """Return the path of a name in a directory, local or remote."""
    return f"{directory.rstrip('/')}/{name}" if is_remote(directory) else str(Path(directory, name))


def names_in(directory: str) -> set[str]:
    """Return the names in a directory, local or remote."""
    if is_remote(directory):
        return set(storage.names(directory))
    return {path.name for path in Path(directory).iterdir()}


class LocalPlace:
    """The hidden directory of an output on a disk.

    Args:
        out: the output.
    """

    def __init__(self, out: str) -> None:
        self._out = Path(out)
        self.root = str(self._out / _NAME)
        #: Where tasks write. Its name is unique, so tasks of an earlier write do not find it.
        self.run = str(Path(self.root, uuid.uuid4().hex))
        self._record = Path(self.root, _RECORD)
        self._is_made = not self._out.exists()
        self._lock: int | None = None

    def take(self) -> bytes | None:
        """Begin a write, and return the record of an earlier one that is not complete.

        Raises:
            shardmill.OutputExistsError: If another write to the output is running.
        """
        if self._lock is None:
            self._lock = self._locked()
        return self._record.read_bytes() if self._record.exists() else None

    def clean(self) -> None:
        """Remove what earlier writes have left."""
        for path in Path(self.root).iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)

    def begin(self) -> Landmark:
        """Make the directory of the tasks, and return what tasks check before they write."""
        Path(self.run).mkdir()
        return Landmark(self.run, "output directory")

    def record(self, manifest: bytes) -> None:
        """Record the write. From then on, it will be completed."""
        publish_bytes(str(self._record), manifest, True)

    def holds(self, manifest: bytes) -> bool:
        """Return whether the write is recorded and not complete."""
        return self._record.read_bytes() == manifest

    def complete(self) -> None:
        """Remove the record."""
        self._record.unlink(missing_ok=True)

    def end(self) -> None:
        """Remove what was staged, unless the write is recorded and not yet complete."""
        if self._lock is None:
            return
        if not self._record.exists():
            shutil.rmtree(self.root, ignore_errors=True)
        os.close(self._lock)
        self._lock = None
        if self._is_made:
            with suppress(OSError):
                self._out.rmdir()

    def _locked(self) -> int:
        """Return the descriptor of the lock, which ends with this process."""
        path = Path(self.root, "lock")
        while True:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                os.close(descriptor)
                raise OutputExistsError(
                    f"another write to {str(self._out)!r} is running\nhint: wait until it has ended"
                ) from error
            except OSError:
                # The file system has no locks.
                return descriptor
            # The write that ended before this one may have removed the file in the meantime.
            if path.exists() and path.stat().st_ino == os.fstat(descriptor).st_ino:
                return descriptor
            os.close(descriptor)


@dataclass(frozen=True)
class Claim:
    """The record of a write that is running, in a store; it is sent to the workers.

    Attributes:
        path: the object.
        content: its content, which names the write.
    """

    path: str
    content: bytes

    def require(self) -> None:
        """Check that no other write has taken over the output.

        Raises:
            shardmill.StorageError: If another write has taken it over.
        """
        if storage.read(self.path) != self.content:
            self.refuse()

    def refuse(self) -> None:
        """Raise the error of a write that was taken over."""
        out = self.path.removesuffix(f"/{_NAME}/{_RECORD}")
        raise StorageError(
            f"another write to {out!r} has begun, so this one was discarded\n"
            "hint: run one write at a time to a path in a store"
        )


class StorePlace:
    """As ``LocalPlace``, for an output in a store.

    Args:
        out: the output.
    """

    def __init__(self, out: str) -> None:
        self._out = out
        self.root = joined(out, _NAME)
        name = uuid.uuid4().hex
        self.run = joined(self.root, name)
        self._claim = Claim(joined(self.root, _RECORD), json.dumps({"run": name}).encode())
        #: The content of the record as this write knows it.
        self._known: bytes | None = None

    def take(self) -> bytes | None:
        """Begin a write, and return the record of an earlier one that is not complete.

        A write that is not recorded is taken over, because nothing tells whether it is running.
        """
        while True:
            self._known = storage.read(self._claim.path)
            if self._is_recorded:
                return self._known
            if self._replaced(self._claim.content):
                return None

    def clean(self) -> None:
        """Remove what earlier writes have left."""
        for name in storage.names(self.root):
            if name != _RECORD:
                storage.remove_directory(joined(self.root, name))

    def begin(self) -> Claim:
        """Return what tasks check before and after they write."""
        return self._claim

    def record(self, manifest: bytes) -> None:
        """Record the write. From then on, it will be completed.

        Raises:
            shardmill.StorageError: If another write has taken it over.
        """
        if not self._replaced(manifest):
            self._claim.refuse()

    def holds(self, manifest: bytes) -> bool:
        """Return whether the write is recorded and not complete. Another one may complete it."""
        return storage.read(self._claim.path) == manifest

    def complete(self) -> None:
        """Remove the record."""
        if not self._replaced(self._claim.content):
            # Another write has completed this one, and has begun.
            self._known = None

    def end(self) -> None:
        """Remove what was staged, unless the write is recorded and not yet complete."""
        if self._known is None or self._is_recorded:
            return
        storage.remove_directory(self.run)
        # Objects are removed without a condition; a write that begins between the two steps fails.
        if self._replaced(b"{}"):
            storage.remove(self._claim.path)
        self._known = None

    @property
    def _is_recorded(self) -> bool:
        return self._known is not None and "files" in json.loads(self._known)

    def _replaced(self, content: bytes) -> bool:
        """Replace the record unless it has changed, and return whether it was replaced."""
        is_done = storage.replace_object(self._claim.path, self._known, content)
        if is_done:
            self._known = content
        return is_done


Place = LocalPlace | StorePlace


def place_of(out: str) -> Place:
    """Return where the files of writes to an output stay until they are visible."""
    return StorePlace(out) if is_remote(out) else LocalPlace(out)
