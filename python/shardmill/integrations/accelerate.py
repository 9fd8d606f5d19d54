"""Batches of a loader in Accelerate with ``dispatch_batches=True``.

Process 0 then reads, and Accelerate distributes the batches. Without ``dispatch_batches=True``, a
``Loader`` needs no adapter: iterate over it directly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shardmill._extras import missing_module

try:
    from accelerate import Accelerator
    from torch.utils.data import DataLoader
except ModuleNotFoundError as missing:
    raise missing_module(__name__, name=missing.name, install="accelerate") from missing

from shardmill.errors import OptionError
from shardmill.integrations.torch import BatchDataset, unchanged
from shardmill.load._loader import Loader, iteration_of, loader_with


class DispatchedLoader:
    """The batches of a loader, read by process 0 and distributed by Accelerate.

    Each step takes one batch of the loader for each process. Accelerate fetches one step ahead. The
    state is that of the step that was returned last, and is the same on all processes. Pass the
    object to ``accelerator.register_for_checkpointing``, but not to ``prepare``.

    Args:
        accelerator: an ``Accelerator`` with ``DataLoaderConfiguration(dispatch_batches=True)``.
        loader: a new loader with ``rank=0`` and ``world_size=1`` on each process. Only process 0
            reads rows.

    Raises:
        ValueError: If the loader divides its rows over ranks, or Accelerate does not dispatch.
    """

    def __init__(self, accelerator: Accelerator, loader: Loader) -> None:
        if loader.world_size != 1 or not accelerator.dispatch_batches:
            raise OptionError(
                "rows would not be shared out once: the accelerator has dispatch_batches="
                f"{accelerator.dispatch_batches}, and the loader world_size={loader.world_size}\n"
                "hint: with dispatch_batches=True, create the Loader with rank=0 and world_size=1; "
                "otherwise iterate over the Loader, without DispatchedLoader"
            )
        self._loader, self._processes = loader, accelerator.num_processes
        #: Moves by the steps that were returned, and reads nothing.
        self._place = loader_with(loader, iteration_of(loader).of_rank(0, 1, iter))
        #: Steps by which it has to move before its state is read.
        self._steps = 0
        batches = DataLoader(BatchDataset(loader), batch_size=None, collate_fn=unchanged)
        self._batches: Any = accelerator.prepare(batches)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the rest of an epoch, after the step that was returned last."""
        self._loader.load_state_dict(self.state_dict())
        # Accelerate counts passes, and sets the epoch to their number.
        self._batches.set_epoch(self._place.epoch)
        for batch in self._batches:
            if self._batches.end_of_dataloader:
                self._place.set_epoch(self._place.epoch + 1)
                self._steps = 0
            else:
                self._steps += self._processes
            yield batch

    def state_dict(self) -> dict[str, Any]:
        """Return the position after the step that was returned last."""
        self._place.skip(self._steps)
        self._steps = 0
        return self._place.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue after the last step recorded in ``state``; see ``Loader.load_state_dict``."""
        self._place.load_state_dict(state)
        self._steps = 0
