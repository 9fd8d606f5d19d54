"""Runs a function over splits as Ray tasks. The Ray executor of `shardmill.curate` calls it; nothing here knows what a split holds.

One split is one task that asks for one CPU, and no actor is started: so a cluster with a single CPU makes progress. These are tasks of Ray's
core and not of Ray Data, whose scheduler looks for finished tasks ten times a second and starts two actors first; a split is often done sooner
than that. The invariant: when :func:`run_splits` ends, in whatever way, no task of it is still running.
"""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from shardmill.errors import EngineError

if TYPE_CHECKING:
    from shardmill.integrations.ray_checkpoint import ShardmillCheckpointConfig

try:
    import ray
    from ray import cloudpickle
    from ray.exceptions import RayError
except ImportError as missing:
    raise ImportError("executor=\"ray\" needs Ray\nhint: pip install 'shardmill[ray]'") from missing

T = TypeVar("T")

# How long Ctrl-C may go unnoticed: `ray.wait` itself looks for signals once a second.
_SIGNAL_POLL_S = 0.2
# A cluster may grow while a run goes on.
_CLUSTER_POLL_S = 5.0
# Nodes may be on their way: a cluster that grows on demand takes minutes to start the first.
_NO_CPU_PATIENCE_S = 600.0
# A cancelled split stops at its next chunk.
_CANCEL_PATIENCE_S = 10.0
# A task whose worker dies (out of memory, lost machine) is repeated this often. Errors of ours are not: they would come again.
_MAX_RETRIES = 3


@contextmanager
def connected(cores: int) -> Iterator[None]:
    """A connection to Ray for the time of a with-block.

    What is there is used: the Ray that this process has initialised, else the cluster at ``RAY_ADDRESS``. Else one is started here and stopped
    at the end; no other cluster is ever stopped.

    Args:
        cores: how many CPUs a cluster gets that is started here.
    """
    if ray.is_initialized():
        yield
        return
    if address := os.environ.get("RAY_ADDRESS"):
        ray.init(address=address, logging_level=logging.ERROR)
    else:
        # "local" keeps Ray from joining a cluster of somebody else on this machine.
        ray.init(address="local", num_cpus=cores, include_dashboard=False, logging_level=logging.ERROR)
    try:
        yield
    finally:
        # Ends a cluster only when this process started it.
        ray.shutdown()


def run_splits(function: Callable[[str], T], splits: Sequence[str], workers: int | None) -> Generator[tuple[int, T]]:
    """Calls ``function(split)`` in one task a split.

    Args:
        function: travels to the workers by cloudpickle, once a process.
        splits: one argument a task.
        workers: tasks that run at once; as many as the cluster has room for, when nothing is said.

    Yields:
        The index of a split and its result, as they finish. Closing the generator cancels what has not.

    Raises:
        EngineError: a task raised, or was lost after all of its retries; or the cluster had no CPU for ten minutes.
    """
    token = uuid.uuid4().hex
    # In a list, the reference itself is the argument: the worker fetches what it stands for once.
    shared = [ray.put(function)]
    waiting = deque(enumerate(splits))
    running: dict[Any, int] = {}
    window, measured_at = _window(workers, _cpus()), time.monotonic()
    had_cpu_at = measured_at
    try:
        while waiting or running:
            while waiting and len(running) < window:
                index, split = waiting.popleft()
                running[_run_split.remote(token, shared, split)] = index
            finished, _unfinished = ray.wait(list(running), timeout=_SIGNAL_POLL_S)
            for reference in finished:
                yield running.pop(reference), _result(reference)
            if time.monotonic() - measured_at > _CLUSTER_POLL_S:
                cpus, measured_at = _cpus(), time.monotonic()
                window = _window(workers, cpus)
                if cpus:
                    had_cpu_at = measured_at
                elif measured_at - had_cpu_at > _NO_CPU_PATIENCE_S:
                    raise EngineError(
                        f"No node of the Ray cluster has had a CPU for {_NO_CPU_PATIENCE_S:.0f} s\n"
                        "hint: `ray status` shows the nodes; run the job again when some of them have CPUs"
                    )
    finally:
        _cancel(list(running))


@ray.remote(num_cpus=1, max_retries=_MAX_RETRIES)
def _run_split(token: str, shared: list[Any], split: str) -> Any:
    return _function(token, _Uncompared(shared[0]))(split)


class _Uncompared:
    """Equal to every other of its kind, so that the token alone is the key of a cache."""

    def __init__(self, reference: Any) -> None:
        self.reference = reference

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Uncompared)

    def __hash__(self) -> int:
        return 0


@lru_cache(maxsize=1)
def _function(_token: str, shared: _Uncompared) -> Callable[[str], Any]:
    """The function of a run, unpickled once in this process: it may hold a model."""
    return ray.get(shared.reference)


def _cpus() -> int:
    return int(ray.cluster_resources().get("CPU", 0))


def _window(workers: int | None, cpus: int) -> int:
    """Tasks in flight. Without a limit, one waits behind each that runs, so that no CPU waits for the driver."""
    return workers or 2 * max(1, cpus)


def _result(reference: Any) -> Any:
    try:
        return ray.get(reference)
    except RayError as error:
        cause = getattr(error, "cause", None)
        problem = str(error) if cause is None else f"{type(cause).__name__}: {cause}"
        hint = "workers need the same packages and modules as the driver, and memory for one split each"
        raise EngineError(f"Ray could not run a split: {problem}\nhint: {hint}") from error


def _cancel(references: list[Any]) -> None:
    for reference in references:
        ray.cancel(reference)
    if references:
        # Without the wait, a split could still publish its file after the run has ended.
        ray.wait(references, num_returns=len(references), timeout=_CANCEL_PATIENCE_S)


def pickled(value: Any) -> bytes:
    """``value`` by cloudpickle, which takes classes and functions along that the reader cannot import."""
    return cloudpickle.dumps(value)  # pyright: ignore[reportPrivateImportUsage] - public, by its documentation


def checkpoint_config(**options: Any) -> ShardmillCheckpointConfig:
    """:func:`shardmill.integrations.ray_checkpoint.checkpoint_config`, under the name where one looks for it."""
    # Runs over splits need Ray's core alone.
    from shardmill.integrations.ray_checkpoint import checkpoint_config

    return checkpoint_config(**options)
