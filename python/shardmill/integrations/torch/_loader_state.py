"""The state of a loader in the checkpoint of a job with several ranks."""

from __future__ import annotations

import json
from typing import Any

from torch import distributed

from shardmill.errors import CheckpointMismatchError, EngineError
from shardmill.integrations.torch._mesh import MeshLoader
from shardmill.load._loader import Loader


class LoaderState:
    """The position of a loader for a checkpoint that all ranks save together.

    It is a ``Stateful`` of ``torch.distributed.checkpoint``, which stores each entry of a state
    separately: it ignores entries that only the checkpoint has, and fails on entries that only the
    loader has. ``LoaderState`` therefore stores the whole state as one JSON string, and
    ``load_state_dict`` compares all of it. The state can be loaded on another number of ranks.

    Args:
        loader: the loader of this rank.

    Examples:
        >>> import pyarrow as pa, pyarrow.parquet as pq, shardmill as sm
        >>> pq.write_table(pa.table({"x": list(range(10))}), "ten.parquet")
        >>> from shardmill.integrations.torch import LoaderState
        >>> import torch.distributed.checkpoint as dcp
        >>> loader = sm.Loader("ten.parquet", batch_size=4)
        >>> batches = loader.steps(3)
        >>> _ = next(batches)
        >>> _ = dcp.save({"loader": LoaderState(loader)}, checkpoint_id="saved", no_dist=True)
        >>> resumed = sm.Loader("ten.parquet", batch_size=4)
        >>> dcp.load({"loader": LoaderState(resumed)}, checkpoint_id="saved", no_dist=True)
        >>> next(resumed.steps(1))["x"].tolist()
        [4, 5, 6, 7]
    """

    def __init__(self, loader: Loader | MeshLoader) -> None:
        self._loader = loader

    def state_dict(self) -> dict[str, str]:
        """Return the state. All ranks of the job wait for each other.

        Raises:
            EngineError: If the ranks are at different steps or disagree about ``world_size``.
        """
        check_ranks(self._loader)
        return {"state": json.dumps(self._loader.state_dict())}

    def load_state_dict(self, state: dict[str, str]) -> None:
        """Continue after the last batch recorded in ``state``.

        Raises:
            CheckpointMismatchError: If it is not valid, or was saved with other data or another
                order. It is a ``ValueError``.
        """
        try:
            content: Any = json.loads(state["state"])
        except (KeyError, TypeError, ValueError):
            raise CheckpointMismatchError(
                "this is not what LoaderState.state_dict() returned\n"
                "hint: save and load the loader as LoaderState(loader)"
            ) from None
        self._loader.load_state_dict(content)


def check_ranks(loader: Loader | MeshLoader, group: distributed.ProcessGroup | None = None) -> None:
    """Check that the loaders of all ranks of the job, or of a group, are at the same step.

    Raises:
        EngineError: If they are not. All ranks raise the same error.
    """
    if not distributed.is_available() or not distributed.is_initialized():
        return
    state = loader.state_dict()
    own = loader.world_size, f"row {state['consumed']:,} of epoch {state['epoch']}"
    found: list[Any] = [None] * distributed.get_world_size(group)
    distributed.all_gather_object(found, own, group)
    for values, problem, hint in zip(
        zip(*found, strict=True),
        ("disagree about world_size", "are at different steps"),
        (
            "create each Loader after init_process_group, without rank and world_size",
            "save and load at the same step on all ranks",
        ),
        strict=True,
    ):
        others = [rank for rank, value in enumerate(values) if value != values[0]]
        if others:
            raise EngineError(
                f"the loaders of the ranks {problem}: rank 0 has {values[0]}, "
                f"rank {others[0]} has {values[others[0]]}\nhint: {hint}"
            )
