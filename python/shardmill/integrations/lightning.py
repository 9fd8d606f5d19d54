"""Batches of a ``Loader`` in a Lightning ``Trainer`` that fetches batches ahead."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from typing import Any

from shardmill._extras import missing_module

try:
    from lightning.pytorch import Callback
except ModuleNotFoundError as missing:
    raise missing_module(__name__, name=missing.name, install="lightning") from missing

from shardmill.errors import OptionError
from shardmill.integrations.torch import MeshLoader
from shardmill.integrations.torch._loader_state import check_ranks
from shardmill.load._loader import Loader


class LoaderCallback(Callback):
    """Batches of all epochs of a loader, and their state in the checkpoints of a trainer.

    Lightning needs no adapter for a ``Loader``, which has a length. If Lightning does not know the
    lengths of all loaders, it fetches a batch ahead, and the state that it saves already includes
    that batch. The state of this callback is that of the last batch that was trained on. Pass the
    callback to ``fit`` in place of the loader, and to the trainer as the first of its callbacks.
    Set ``max_steps``, after which the trainer ends.

    Args:
        loader: the loader of this rank.
        name: name of the state in checkpoints, if there are several loaders.
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
        """Continue after the last batch that was trained on."""
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
        """Record that the trainer has the callback."""
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
        """Return the position after the last batch that was trained on."""
        return self._trained

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue after the last batch of a state; see ``Loader.load_state_dict``."""
        self.loader.load_state_dict(state_dict)
        self._trained = self.loader.state_dict()
