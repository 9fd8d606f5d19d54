"""The number of threads a process should use, and a lock for them."""

from __future__ import annotations

import os
import threading
from typing import Any

from shardmill._option_values import whole

#: Far more than any machine has cores. A typo must not start an absurd number of threads.
_MOST = 1024


class OwnLock:
    """A lock of this process.

    After a fork, a thread that the child does not have may hold the lock of the parent.
    """

    def __init__(self) -> None:
        self._process, self._lock = os.getpid(), threading.RLock()

    def __call__(self) -> threading.RLock:
        """Return the lock, for a with-block."""
        if self._process != os.getpid():
            self.__init__()
        return self._lock


def available_cores() -> int:
    """Return the number of cores available to this process.

    It may be lower than that of the machine.
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_threads() -> int:
    """Return the number of cores available to this process, divided among the ranks.

    The ranks are those on this machine. The result is at least 1.
    """
    try:
        ranks = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    except ValueError:
        ranks = 1
    return max(1, available_cores() // max(1, ranks))


def checked_threads(threads: Any) -> int:
    """Return the validated ``threads`` option: the default for ``None``.

    0 means that only the calling thread is used.

    Raises:
        ValueError: If it is not a valid number of threads.
    """
    if threads is None:
        return default_threads()
    return whole("threads", threads, 0, _MOST)


def thread_count(threads: Any) -> int:
    """Return ``threads``, or the number of available cores for ``None``.

    Raises:
        ValueError: If it is not positive.
    """
    return available_cores() if threads is None else whole("threads", threads, 1, _MOST)
