"""Packs of a loader in torchtitan."""

# torchtitan requires another version of datasets than the tests.
# pyright: reportMissingImports=false, reportUntypedBaseClass=false

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from shardmill._extras import missing_module

try:
    import tyro
    from torchtitan.components.dataloader import BaseDataLoader
except ModuleNotFoundError as missing:
    raise missing_module(__name__, name="torchtitan", install="torchtitan") from missing

from shardmill.errors import OptionError
from shardmill.integrations.torch import LoaderState
from shardmill.load._loader import Loader, iteration_of
from shardmill.load._packed_rows import PackedRows


class ShardmillDataLoader(BaseDataLoader):
    """Packs of a loader, with a single state that can be resumed on any number of data ranks.

    torchtitan creates it from a ``ShardmillDataLoader.Config``.

    Raises:
        ValueError: If the ranks or batches of the loader differ from those of torchtitan, or it has
            no labels.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        """The options; ``dataset`` and ``dataset_path`` are not used.

        Attributes:
            loader: a function that takes ``rank``, ``world_size`` and ``batch_size``, and returns
                the loader, with ``Packing(…, next_token=True)`` and ``length=training.seq_len``.
                Tokens are in the first packed column.
            positions: whether the model takes the position of each token in its document.
            infinite: whether epochs follow each other; a validator sets it.
        """

        loader: Annotated[Callable[..., Loader], tyro.conf.Suppress]
        positions: bool = True
        infinite: bool = True

    def __init__(
        self,
        config: Config,
        *,
        dp_world_size: int,
        dp_rank: int,
        seq_len: int,
        local_batch_size: int,
        **given: Any,
    ) -> None:
        share = {"rank": dp_rank, "world_size": dp_world_size, "batch_size": local_batch_size}
        self._loader, self._config = config.loader(**share), config
        self._state = LoaderState(self._loader)
        iteration = iteration_of(self._loader)
        plan, packed = iteration.cursor.plan, iteration.cursor.plan.packed
        if (
            not isinstance(packed, PackedRows)
            or "labels" not in iteration.conversion.converter.names
        ):
            raise OptionError(
                "torchtitan needs packs with labels of the next token\n"
                "hint: create the Loader with packing=sm.Packing(…, next_token=True)"
            )
        wanted = share | {"length": seq_len}
        found = {name: getattr(plan, name) for name in share} | {"length": packed.packing.length}
        if found != wanted:
            raise OptionError(
                f"the loader has {_shown(found)}, but torchtitan expects {_shown(wanted)}\n"
                "hint: pass the arguments of the function on to the Loader, and "
                "length=training.seq_len to the Packing"
            )

    def __iter__(self) -> Iterator[tuple[dict[str, Any], Any]]:
        """Continue after the last batch."""
        loader, has_positions = self._loader, self._config.positions
        for batch in loader.steps(sys.maxsize) if self._config.infinite else loader:
            inputs = {"input": batch[next(iter(batch))].long()}
            if has_positions:
                # As indices of a gather, they must be int64.
                inputs["positions"] = batch["positions"].long()
            yield inputs, batch["labels"].long()

    def state_dict(self) -> dict[str, Any]:
        """Return the state, which is the same on all ranks; see ``LoaderState``."""
        return self._state.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue after the last batch of a state; see ``LoaderState``."""
        self._state.load_state_dict(state_dict)


def _shown(share: dict[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in share.items())
