"""Memory that native threads write pixels into, and that is delivered without a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch

__all__ = ["Allocator", "page_locked"]


class Allocator(Protocol):
    """Allocates the memory of a superbatch. Native threads call it, several at once."""

    def __call__(self, nbytes: int, /) -> torch.Tensor:
        """Return a contiguous uint8 tensor ``[nbytes]`` in memory of the host, which nothing else refers to. Its values do not matter."""
        ...


def page_locked(nbytes: int, /) -> torch.Tensor:
    """Allocate page-locked memory, which a GPU reads without a copy. torch keeps it for later allocations when it is freed."""
    import torch

    return torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)
