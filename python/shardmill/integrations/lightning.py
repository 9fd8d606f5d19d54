"""Batches of a ``Loader`` in a Lightning ``Trainer`` that fetches ahead."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from typing import Any

from shardmill._extras import missing_module

try:
    from lightning.pytorch import Callback
except ModuleNotFoundError as missing:
    raise missing_module(__name__, install="lightning", missing=missing) from missing

from shardmill.errors import OptionError
from shardmill.integrations.torch import MeshLoader
from shardmill.integrations.torch._loader_state import check_ranks
from shardmill.load._loader import Loader


class LoaderCallback(Callback):
    """Batches of all epochs of a loader, and their state in the checkpoints of a trainer.

    Lightning needs no adapter for a ``Loader``, which has a length. If it does not know the length
    of all loaders, it fetches a batch ahead, and the state that it saves is late. The state of this
    callback is that of the batch that was trained last. Pass the callback itself to ``fit``, and as
    the first of the callbacks to the trainer, which ends after ``max_steps``.

    Args:
        loader: the loader of this rank.
        name: names the state in checkpoints, if there are several loaders.
    """

    def __init__(self, loader: Loader | MeshLoader, name: str = "train") -> None:
        self.loader, self.name = loader, name
        self._trained = loader.state_dict()
        #: States after the batches that were fetched and not yet trained.
        self._ahead: deque[dict[str, Any]] = deque()
        self._is_set_up = False

    @property
    def state_key(self) -> str:
        """The place of the state in a checkpoint."""
        return f"shardmill.{self.name}"

    def __iter__(self) -> Iterator[Any]:
        """Continue after the batch that was trained last."""
        if not self._is_set_up:
            raise OptionError(
                "the trainer does not have this LoaderCallback, whose state would not be saved\n"
                "hint: pass it to the trainer too, as the first of its callbacks"
            )
        self._ahead.clear()
        self.loader.load_state_dict(self._trained)
        for batch in self.loader.steps(sys.maxsize):
            self._ahead.append(self.loader.state_dict())
            yield batch

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Note that the trainer has the callback."""
        self._is_set_up = True

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Check that all ranks are at the same step."""
        check_ranks(self.loader)

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        """Check that all ranks are at the same step."""
        check_ranks(self.loader)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Count the batch."""
        self._trained = self._ahead.popleft()

    def state_dict(self) -> dict[str, Any]:
        """Return the position after the batch that was trained last."""
        return self._trained

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue after the last batch of a state; see ``Loader.load_state_dict``."""
        self.loader.load_state_dict(state_dict)
        self._trained = self.loader.state_dict()
