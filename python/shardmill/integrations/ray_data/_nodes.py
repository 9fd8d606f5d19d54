"""Checks that every node of a cluster has shardmill, and sees the paths of the driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import shardmill
from shardmill.errors import EngineError, StorageError
from shardmill.storage._paths import absolute, is_remote

#: Nodes that are busy starting, or are lost, are not waited for; their tasks fail by themselves.
_PATIENCE_S = 60.0


def check_nodes(paths: Sequence[str], *, is_written: bool = False, **task_options: Any) -> None:
    """Run one task on each node.

    Args:
        paths: paths that must exist there as on the driver; those of stores are not checked.
        is_written: whether the paths are directories to write to.
        **task_options: options of the tasks.

    Raises:
        shardmill.EngineError: If a node lacks shardmill, or has another version.
        shardmill.StorageError: If a path is not visible there.
    """
    if not ray.is_initialized():
        # As Ray Data does.
        ray.init()
    local = [absolute(path) for path in paths if not is_remote(path)]
    asked = [
        ray.remote(_probe())
        .options(
            num_cpus=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=True),
            **task_options,
        )
        .remote(local, is_written)
        for node in ray.nodes()
        if node["Alive"]
    ]
    answered, _ = ray.wait(asked, num_returns=len(asked), timeout=_PATIENCE_S)
    for version, reason, path, where in ray.get(answered):
        if path:
            raise StorageError(
                f"`{path}` of the driver is not visible on {where}: {reason}\n"
                "hint: use a path that all nodes share, "
                "such as one on a network file system or in an object store"
            )
        if version != shardmill.__version__:
            raise EngineError(
                f"shardmill {shardmill.__version__} of the driver is not on {where}: {reason}\n"
                "hint: install it on every node, for example with "
                f"ray.init(runtime_env={{'pip': ['shardmill[ray]=={shardmill.__version__}']}})"
            )


def _probe() -> Callable[[list[str], bool], tuple[str, str, str, str]]:
    """Return a function that is sent by value, because a worker may lack this module."""

    def probe(paths: list[str], is_written: bool) -> tuple[str, str, str, str]:
        """Return the version, what is wrong, with which path, and the node."""
        import os
        from pathlib import Path

        import ray

        context = ray.get_runtime_context()
        where = f"node {ray.util.get_node_ip_address()} (id {context.get_node_id()})"
        try:
            import shardmill
        except ImportError as error:
            return "", f"{type(error).__name__}: {error}", "", where
        for path in paths:
            if not Path(path).exists():
                return shardmill.__version__, "No such file or directory", path, where
            if is_written and not os.access(path, os.W_OK):
                return shardmill.__version__, "Permission denied", path, where
        version = shardmill.__version__
        return version, f"it has shardmill {version}", "", where

    return probe
