"""Runs a function over splits as Ray tasks.

Used by the Ray executor of `shardmill.curate`; independent of the content of a split.

One split is one task that requests one CPU, and no actor is started, so a cluster with a single CPU
makes progress. These are Ray Core tasks rather than Ray Data, whose scheduler checks for finished
tasks ten times a second and starts two actors first; a split often takes less time than that.
Invariant: when ``run_splits`` ends, in any way, none of its tasks is still running.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from shardmill.errors import EngineError

try:
    import ray
    from ray import cloudpickle
    from ray.exceptions import RayError
except ImportError as missing:
    raise ImportError("executor=\"ray\" needs Ray\nhint: pip install 'shardmill[ray]'") from missing

S = TypeVar("S")
T = TypeVar("T")

# Maximum delay of Ctrl-C: `ray.wait` itself checks for signals once a second.
_SIGNAL_POLL_S = 0.2
# A cluster may grow during a run.
_CLUSTER_POLL_S = 5.0
# An autoscaling cluster takes minutes to start its first node.
_NO_CPU_PATIENCE_S = 600.0
# A cancelled split stops at its next chunk.
_CANCEL_PATIENCE_S = 10.0
# Retries of a task whose worker dies (out of memory, lost machine). Errors raised by shardmill are
# not retried, because they would recur.
_MAX_RETRIES = 3


@contextmanager
def connected(cores: int) -> Iterator[None]:
    """Connect to Ray for the duration of a with-block.

    An existing connection is used: the Ray that this process has initialized, else the cluster at
    ``RAY_ADDRESS``. Otherwise a local cluster is started, and stopped at the end; no other cluster
    is ever stopped.

    Args:
        cores: number of CPUs of a cluster that is started here.
    """
    if ray.is_initialized():
        yield
        return
    if address := os.environ.get("RAY_ADDRESS"):
        ray.init(address=address, logging_level=logging.ERROR)
    else:
        # "local" keeps Ray from joining another user's cluster on this machine.
        ray.init(
            address="local", num_cpus=cores, include_dashboard=False, logging_level=logging.ERROR
        )
    try:
        yield
    finally:
        # Stops a cluster only if this process started it.
        ray.shutdown()


def run_splits(
    function: Callable[[S], T], splits: Sequence[S], workers: int | None
) -> Generator[tuple[int, T]]:
    """Call ``function(split)`` in one task per split.

    Args:
        function: sent to the workers with cloudpickle, once per process.
        splits: one argument per task.
        workers: maximum number of concurrent tasks; as many as the cluster has room for by default.

    Yields:
        The index of a split and its result, in order of completion. Closing the generator cancels
        unfinished tasks.

    Raises:
        EngineError: If a task raised, or was lost after all of its retries, or the cluster had no
            CPU for ten minutes.
    """
    # Inside a list, the reference itself is the argument, so a worker fetches the object once.
    shared = [ray.put(function)]
    waiting = deque(enumerate(splits))
    running: dict[Any, int] = {}
    window, measured_at, had_cpu_at = 0, -math.inf, time.monotonic()
    try:
        while waiting or running:
            if (now := time.monotonic()) - measured_at > _CLUSTER_POLL_S:
                cpus, measured_at = int(ray.cluster_resources().get("CPU", 0)), now
                # Without a limit, one task waits for each running one, so that CPUs never wait for
                # the driver.
                window = workers or 2 * max(1, cpus)
                if cpus:
                    had_cpu_at = now
                elif now - had_cpu_at > _NO_CPU_PATIENCE_S:
                    raise EngineError(
                        f"No node of the Ray cluster has had a CPU for {_NO_CPU_PATIENCE_S:.0f} s\n"
                        "hint: `ray status` shows the nodes; "
                        "run the job again when some of them have CPUs"
                    )
            while waiting and len(running) < window:
                index, split = waiting.popleft()
                running[_run_split.remote(shared, split)] = index
            finished, _unfinished = ray.wait(list(running), timeout=_SIGNAL_POLL_S)
            for reference in finished:
                yield running.pop(reference), _result(reference)
    finally:
        _cancel(list(running))


@ray.remote(num_cpus=1, max_retries=_MAX_RETRIES)
def _run_split(shared: list[Any], split: Any) -> Any:
    return _function(shared[0])(split)


#: The function of the latest run, by its reference.
_functions: dict[Any, Callable[[Any], Any]] = {}


def _function(reference: Any) -> Callable[[Any], Any]:
    """Return the function of a run, unpickled once per process because it may hold a model."""
    if reference not in _functions:
        _functions.clear()
        _functions[reference] = ray.get(reference)
    return _functions[reference]


def _result(reference: Any) -> Any:
    try:
        return ray.get(reference)
    except RayError as error:
        cause = getattr(error, "cause", None)
        problem = str(error) if cause is None else f"{type(cause).__name__}: {cause}"
        hint = (
            "workers need the same packages and modules as the driver, "
            "and memory for one split each"
        )
        raise EngineError(f"Ray could not run a split: {problem}\nhint: {hint}") from error


def _cancel(references: list[Any]) -> None:
    for reference in references:
        ray.cancel(reference)
    if references:
        # Without the wait, a split could still publish its file after the run has ended.
        ray.wait(references, num_returns=len(references), timeout=_CANCEL_PATIENCE_S)


def pickled(value: Any) -> bytes:
    """Pickle ``value`` with cloudpickle.

    It includes classes and functions that the reader cannot import.
    """
    # Public, by its documentation.
    return cloudpickle.dumps(value)  # pyright: ignore[reportPrivateImportUsage]
