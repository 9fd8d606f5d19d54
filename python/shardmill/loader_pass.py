"""One iteration over a loader, and the position that it moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from shardmill.batches import close
from shardmill.errors import SupersededError


@dataclass
class Position:
    """The position of a loader."""

    epoch: int = 0
    consumed: int = 0
    #: Of an epoch that a state was loaded into: each pass continues at ``consumed``. In other epochs a pass starts at the first batch.
    is_loaded: bool = False

    def end_epoch(self) -> None:
        """The end of an epoch is the start of the next one."""
        self.epoch, self.consumed, self.is_loaded = self.epoch + 1, 0, False


class Pass(Iterator[Any]):
    """The batches of one ``iter(loader)``.

    The position of a loader counts the batches of one pass. The invariant: a pass that is no longer counted delivers nothing.
    """

    def __init__(self, is_newest: Callable[[], bool], position: Position, batches: Iterator[Any]) -> None:
        self._is_newest, self._position, self._batches = is_newest, position, batches
        self._epoch = position.epoch

    def __next__(self) -> Any:
        # A pass whose last batch was counted in time has nothing left that could be miscounted.
        if not self._is_newest() and self._position.epoch == self._epoch:
            self.close()
            raise SupersededError(
                "this iterator was superseded by a newer iterator of the same loader, or by load_state_dict()"
                "\nhint: use one iterator at a time; two passes at the same time need two loaders"
            )
        return next(self._batches)

    def close(self) -> None:
        """Ends the pass."""
        close(self._batches)
