"""What the ranks of a job do in tests of torchtitan."""

from __future__ import annotations

import os
from typing import Any

import shardmill as sm
import torch
from environment import guide_code
from mesh_scenes import failure
from torch import distributed
from torch.distributed import checkpoint as dcp

PACKS, LENGTH = 12, 64


def run(directory: str, below: str, steps: range) -> list[dict[str, Any]]:
    """Batches between two checkpoints, as the guide makes them and as lists."""
    os.chdir(directory)
    names: dict[str, Any] = {"sm": sm}
    exec(guide_code("torchtitan"), names)
    loader = built(names["dataloader"])
    if steps.start:
        dcp.load({"dataloader": loader}, checkpoint_id=f"{below}/{steps.start}")
    batches = iter(loader)
    found = [next(batches) for _ in steps]
    dcp.save({"dataloader": loader}, checkpoint_id=f"{below}/{steps.stop}")
    assert {value.dtype for inputs, _ in found for value in inputs.values()} == {torch.int64}
    return [
        {name: value.tolist() for name, value in (inputs | {"labels": labels}).items()}
        for inputs, labels in found
    ]


def built(config: Any, seq_len: int = LENGTH) -> Any:
    """The loader that the trainer makes from a configuration."""
    size = distributed.get_world_size()
    return config.build(
        dp_world_size=size,
        dp_rank=distributed.get_rank(),
        tokenizer=None,
        seq_len=seq_len,
        local_batch_size=PACKS // size,
        snapshot_every_n_steps=None,
    )


def others(directory: str) -> dict[str, Any]:
    """Batches without positions, an epoch for a validator, and errors."""
    from dataclasses import replace

    os.chdir(directory)
    names: dict[str, Any] = {"sm": sm}
    exec(guide_code("torchtitan"), names)
    config, new_packs = names["dataloader"], names["new_packs"]

    def without_labels(**share: Any) -> sm.Loader:
        packing = sm.Packing("input_ids", length=LENGTH)
        return sm.Loader("web.parquet", packing=packing, **share)

    def of_another(**share: Any) -> sm.Loader:
        return new_packs(rank=0, world_size=1, batch_size=PACKS)

    validator = built(replace(config, infinite=False, positions=False))
    size = distributed.get_world_size()
    whole = new_packs(rank=0, world_size=size, batch_size=PACKS // size)
    return {
        "epoch": [sorted(inputs) for inputs, _ in validator] == [["input"]] * len(whole),
        "length": failure(lambda: built(config, 2 * LENGTH)),
        "labels": failure(lambda: built(replace(config, loader=without_labels))),
        "rank": failure(lambda: built(replace(config, loader=of_another))),
    }
