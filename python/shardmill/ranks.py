"""Which rank of how many this process is."""

from __future__ import annotations

import os
import sys

from shardmill.errors import OptionError


def resolve(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """The rank and the world size of this process.

    What is ``None`` comes from ``torch.distributed``, else from the launcher's environment,
    else it is one process.

    Raises:
        ValueError: when the rank does not lie in ``[0, world_size)``.
    """
    found_rank, found_size = _of_this_process()
    size = found_size if world_size is None else world_size
    own = rank if rank is not None else found_rank if world_size in (None, found_size) else 0
    for name, value in (("rank", own), ("world_size", size)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise OptionError(f"{name} is a whole number, not {value!r}")
    if size < 1:
        raise OptionError(f"world_size must be at least 1, not {size}")
    if not 0 <= own < size:
        raise OptionError(f"rank must lie in [0, {size}), not {own}")
    return own, size


def _of_this_process() -> tuple[int, int]:
    # Who has not imported torch has no process group in it.
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    try:
        return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    except ValueError:
        return 0, 1
