"""How many threads a process should use."""

import os
from typing import Any

from shardmill.errors import OptionError

#: Far more than any machine has cores. A typing error must not ask the system for all the threads that it has.
_MOST = 1024


def available_cores() -> int:
    """Cores that this process may use, which is not always the number that the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_threads() -> int:
    """Cores that this process may use, shared with the other ranks of this machine; at least one."""
    try:
        ranks = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    except ValueError:
        ranks = 1
    return max(1, available_cores() // max(1, ranks))


def checked_threads(threads: Any) -> int:
    """``threads`` as an option gives it; the default for ``None``, and 0 for none but the caller's own.

    Raises:
        ValueError: for what is no number of threads.
    """
    if threads is None:
        return default_threads()
    if isinstance(threads, bool) or not isinstance(threads, int) or not 0 <= threads <= _MOST:
        raise OptionError(f"threads is a whole number from 0 to {_MOST}, not {threads!r}")
    return threads
