"""Memory that native threads write pixels into, and that is delivered without a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

__all__ = ["page_locked"]


def page_locked(nbytes: int, /) -> torch.Tensor:
    """Allocate page-locked memory, which a GPU reads without a copy.

    When it is freed, torch keeps it for later allocations.

    An allocator in its place, for ``TensorMemory``, has the same contract. Native threads call it,
    several at once.

    Returns:
        A contiguous uint8 tensor ``[nbytes]`` to which nothing else refers. Its values do not
        matter.
    """
    import torch

    return torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)
