"""Checks that a node sees a directory of the driver.

A path means the same on all nodes only if its file system is shared.

A landmark is a file that the driver knows. A task that does not find it would write to another
directory with the same path, and its output would be lost.
"""

from __future__ import annotations

import fcntl
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import ray

from shardmill.errors import StorageError


@dataclass(frozen=True)
class Landmark:
    """A file or directory of the driver with a unique name; it is sent to the workers.

    Attributes:
        path: path of the file.
        role: role of its directory, for messages.
    """

    path: str
    role: str

    def require(self) -> None:
        """Check that the file is visible on this node.

        Raises:
            shardmill.StorageError: If the file is missing.
        """
        try:
            os.stat(self.path)  # noqa: PTH116 - a str, as it was given
        except OSError as error:
            directory = Path(self.path).parent
            reason = (
                "its path refers to another directory there, or a later run has started"
                if directory.is_dir()
                else error.strerror
            )
            raise StorageError(
                f"The {self.role} `{directory}` of the driver is not visible on {node()}: "
                f"{reason}\n"
                "hint: use a path that all nodes share, "
                "such as one on a network file system or in an object store"
            ) from error


@contextmanager
def planted(directory: str, role: str) -> Iterator[Landmark]:
    """Create a landmark in a local directory for the duration of a with-block.

    It is named and locked like a staging file. If this process is killed, the landmark is removed
    when the next one is planted, or by a run that removes staging files.
    """
    _remove_stale(directory)
    # A str, as it was given.
    path = os.path.join(directory, f".shardmill-{uuid.uuid4().hex}.staging")  # noqa: PTH118
    with open(path, "xb") as file:  # noqa: PTH123
        # File systems without locks support landmarks too; only the cleanup after a kill is lost.
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            yield Landmark(path, role)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(path)  # noqa: PTH108


def _remove_stale(directory: str) -> None:
    for path in Path(directory).glob(".shardmill-*.staging"):
        # A living writer holds the lock.
        with suppress(OSError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


def node() -> str:
    """Describe this node in the terms of ``ray list nodes``."""
    return f"node {ray.util.get_node_ip_address()} (id {ray.get_runtime_context().get_node_id()})"


def located(error: StorageError) -> StorageError:
    """Return the error, with the node on which it occurred."""
    problem, _newline, rest = str(error).partition("\n")
    reason = "" if error.__cause__ is None else f": {error.__cause__}"
    hint = (
        rest
        or "hint: every node must be able to read the inputs "
        "and write the output under the same paths; run the job again when this node can"
    )
    found = type(error)(f"{problem}{reason if reason not in problem else ''}, on {node()}\n{hint}")
    found.__cause__ = error.__cause__
    return found
