"""How many threads a process should use."""

import os


def default_threads() -> int:
    """Cores that this process may use, shared with the other ranks of this machine; at least one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        ranks = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    except ValueError:
        ranks = 1
    return max(1, cores // max(1, ranks))
