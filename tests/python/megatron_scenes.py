"""What the ranks of a job do in tests of Megatron's external data loaders."""

from __future__ import annotations

import os
from argparse import Namespace
from copy import copy
from typing import Any

import shardmill as sm
import torch
from environment import guide_code
from mesh_scenes import failure, mesh_of, taken
from shardmill.integrations.megatron import ExternalLoader
from shardmill.integrations.torch import MeshLoader
from torch import distributed


def run(
    directory: str, groups: tuple[int, int], below: str, steps: range
) -> tuple[int, list[dict[str, Any]]]:
    """The data rank, and the micro-batches between two checkpoints, as the guide makes them.

    Args:
        directory: that of the rows.
        groups: sizes of the tensor- and pipeline-parallel groups.
        below: directory of the checkpoints.
        steps: the steps after the first checkpoint, if it is not 0, up to the second one.
    """
    from megatron.core import mpu
    from megatron.core.rerun_state_machine import RerunDataIterator
    from megatron.training.checkpointing import maybe_save_dataloader_state
    from megatron.training.global_vars import set_args

    os.chdir(directory)
    mpu.initialize_model_parallel(*groups)
    rank, size = mpu.get_data_parallel_rank(), mpu.get_data_parallel_world_size()
    set_args(Namespace(iteration=steps.start, dataloader_save=below, micro_batch_size=12 // size))
    names: dict[str, Any] = {"sm": sm, "torch": torch}
    exec(guide_code("Megatron-LM and Megatron-Bridge"), names)
    train, _, _ = names["train_valid_test_datasets_provider"]([0, 0, 0])
    batches = RerunDataIterator(train)
    found = [next(batches) for _ in steps]
    maybe_save_dataloader_state(batches, steps.stop, below)
    return rank, [{name: value.tolist() for name, value in batch.items()} for batch in found]


def external(path: str, options: dict[str, Any], steps: list[int]) -> list[Any]:
    """States and batches of a loader without Megatron, and the errors of others."""
    group = distributed.group.WORLD
    assert group is not None
    loader = ExternalLoader(sm.Loader(path, **options), group)
    batch = next(loader)
    assert copy(batch).keys() == batch.keys()
    state = loader.save_state()
    expected = taken(loader, 12)
    loader.restore_state(state)
    are_equal = taken(loader, 12) == expected
    for _ in range(steps[distributed.get_rank()]):
        next(loader)
    alone = sm.Loader(path, **options, rank=0, world_size=1)
    return [
        state,
        are_equal,
        failure(loader.save_state),
        failure(lambda: ExternalLoader(alone, group)),
    ]


def of_a_replica(path: str, options: dict[str, Any]) -> list[Any]:
    """Ten batches of one replica, the last five twice."""
    mesh = mesh_of((1, 2), ("dp", "tp"))
    inner = MeshLoader(sm.Loader(path, **options), mesh)
    loader = ExternalLoader(inner, mesh["dp"].get_group())
    before, state, after = taken(loader, 5), loader.save_state(), taken(loader, 5)
    loader.restore_state(state)
    found = [before + after, before + taken(loader, 5)]
    inner.close()
    return found
