"""Starts Ray before the clock of an entry.

Called by the entries that run on Ray. Invariant: when ``start_ray`` returns, so many workers have run a task.
"""

from __future__ import annotations

import time


def start_ray(cores: int) -> float:
    """Starts a cluster on this machine and returns the seconds that it took."""
    import ray

    start = time.perf_counter()
    ray.init(num_cpus=cores, include_dashboard=False, log_to_driver=False)
    # Ray has started when its workers have, which it only does for a first task.
    nap = ray.remote(lambda: time.sleep(0.2))
    ray.get([nap.remote() for _ in range(cores)])
    return time.perf_counter() - start
