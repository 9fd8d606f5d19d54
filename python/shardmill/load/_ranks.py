"""The rank and world size of this process."""

from __future__ import annotations

import os
import sys
from typing import Any

from shardmill._option_values import index_of
from shardmill.errors import OptionError


def resolve(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Return the rank and the world size of this process.

    A value that is ``None`` comes from ``torch.distributed``, else from the environment of the
    launcher, else the process is the only rank.

    Raises:
        ValueError: If the rank is not in ``[0, world_size)``, if it is missing in a job of several
            ranks, or if ``RANK`` or ``WORLD_SIZE`` is not an integer.
    """
    found_rank, found_size = (None, None) if None not in (rank, world_size) else _of_this_process()
    size = (found_size or 1) if world_size is None else world_size
    own = rank if rank is not None else found_rank if world_size in (None, found_size) else None
    if own is None:
        if size != 1:
            raise OptionError(
                f"rank is required if world_size is {size!r}\nhint: pass rank=, or set RANK"
            )
        own = 0
    rank_number, size_number = index_of(own), index_of(size)
    for name, value, number in (("rank", own, rank_number), ("world_size", size, size_number)):
        if number is None:
            raise OptionError(f"{name} must be an integer, not {value!r}")
    own, size = rank_number or 0, size_number or 0
    if size < 1:
        raise OptionError(f"world_size must be at least 1, not {size}")
    if not 0 <= own < size:
        hint = ""
        if (
            rank is None
            and world_size is None
            and "RANK" in os.environ
            and "WORLD_SIZE" not in os.environ
        ):
            hint = (
                "\nhint: RANK is set, but WORLD_SIZE is not; "
                "set both, or pass rank= and world_size="
            )
        elif world_size is None and size == 1:
            hint = "\nhint: pass world_size= as well"
        raise OptionError(f"rank must be in [0, {size}), not {own}{hint}")
    return own, size


def refuse_copies(*, made_in: int, has_share: bool) -> None:
    """Reject iteration in one of several workers of a torch ``DataLoader``.

    Each of them would deliver all batches of the rank.

    Args:
        made_in: process that created the loader.
        has_share: whether its rank and world size were given, so that workers that create loaders
            may each have rows of their own.

    Raises:
        ValueError: If the batches would be delivered more than once.
    """
    # If torch is not imported, this process is not a worker.
    data = sys.modules.get("torch.utils.data")
    worker = None if data is None else data.get_worker_info()
    if worker is None or worker.num_workers == 1 or (has_share and made_in == os.getpid()):
        return
    raise OptionError(
        f"each of the {worker.num_workers} workers of this DataLoader "
        "would deliver all batches of the Loader\n"
        "hint: pass the DataLoader shardmill.integrations.torch.BatchDataset(loader), "
        "with batch_size=None; its workers divide the batches. If each worker has rows of its own, "
        "create its Loader in the worker, with rank= and world_size="
    )


def distributed_of_torch() -> Any:
    """Return ``torch.distributed`` if torch is imported and built with it, else ``None``.

    A process that has not imported torch does not have a process group.
    """
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    return distributed if distributed is not None and distributed.is_available() else None


def backends_of(group: Any = None) -> dict[str, str]:
    """Return the backend of each device of a process group."""
    from torch import distributed

    devices = distributed.get_backend_config(group).split(",")
    return dict(device.split(":", 1) for device in devices)


def _of_this_process() -> tuple[int | None, int | None]:
    distributed = distributed_of_torch()
    if distributed is not None and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return _of_environment("RANK"), _of_environment("WORLD_SIZE")


def _of_environment(name: str) -> int | None:
    value = os.environ.get(name)
    if value is None:
        return None
    try:
        return int(value)
    except ValueError:
        raise OptionError(
            f"the environment variable {name} must be an integer, not {value!r}"
        ) from None
