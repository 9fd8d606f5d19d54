"""Micro-batches of a loader for Megatron-LM and Megatron-Bridge, as an external data loader.

Megatron writes one file for each data rank. All of them have the same content, so any of them can
be loaded on any number of ranks.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shardmill._extras import missing_module

try:
    import torch
    from torch import distributed
except ModuleNotFoundError as missing:
    raise missing_module(__name__, name="torch", install="torch") from missing

from shardmill.errors import CheckpointMismatchError, OptionError
from shardmill.integrations.torch import MeshLoader
from shardmill.integrations.torch._loader_state import check_ranks
from shardmill.load._loader import Loader


class ExternalLoader:
    """Micro-batches of all epochs, for ``--dataloader-type external``.

    Args:
        loader: the loader of this data rank, with the micro-batch size as ``batch_size``.
        group: the process group of the data ranks, ``mpu.get_data_parallel_group()``.

    Raises:
        ValueError: If ``rank`` and ``world_size`` of the loader are not those of the group.
    """

    def __init__(self, loader: Loader | MeshLoader, group: distributed.ProcessGroup) -> None:
        own = loader.rank, loader.world_size
        of_group = distributed.get_rank(group), distributed.get_world_size(group)
        if own != of_group:
            raise OptionError(
                f"the loader has rank={own[0]} and world_size={own[1]}, but this is rank "
                f"{of_group[0]} of {of_group[1]} data ranks\nhint: create the Loader with "
                "rank=mpu.get_data_parallel_rank() and "
                "world_size=mpu.get_data_parallel_world_size()"
            )
        self._loader, self._group = loader, group
        self._batches: Iterator[Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._batches is None:
            self._batches = self._loader.steps(sys.maxsize)
        return next(self._batches)

    def save_state(self) -> dict[str, Any]:
        """Return the state. Megatron calls it for each checkpoint, on all ranks of the group.

        Raises:
            EngineError: If the ranks are at different steps.
        """
        check_ranks(self._loader, self._group)
        return self._loader.state_dict()

    def restore_state(self, state: dict[str, Any]) -> None:
        """Continue after the last micro-batch recorded in ``state``. Megatron-Bridge calls it."""
        self._loader.load_state_dict(state)
        self._batches = None

    def load(self, directory: str | Path, iteration: int) -> None:
        """Continue after an iteration that Megatron-LM saved.

        Args:
            directory: that of ``--dataloader-save``.
            iteration: ``args.iteration``.

        Raises:
            CheckpointMismatchError: If the directory does not have a state of the iteration, or it
                was saved with different data or a different order. It is a ``ValueError``.
        """
        saved = f"iter_{iteration:07d}/**/train_dataloader_dprank*.pt"
        path = next(Path(directory).glob(saved), None)
        if path is None:
            raise CheckpointMismatchError(
                f"{directory} has no state of a data loader for iteration {iteration}\n"
                "hint: pass the directory of --dataloader-save, and args.iteration"
            )
        self.restore_state(torch.load(path, weights_only=True)["dataloader_state_dict"])
