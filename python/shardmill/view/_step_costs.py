"""The work of ranks at each step, in the order of packing and with a balance."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from shardmill._native import packing as _native
from shardmill.load._cost import unit_of, units_of

if TYPE_CHECKING:
    from shardmill import Dataset, Loader, Packing

_MOST_STEPS = 200


class StepCosts:
    """Costs of the first steps, in which each rank takes one pack of its lane.

    Args:
        dataset: a data set whose rows have the columns of the packing.
        packing: how the rows are packed, with a balance.
        world_size: number of ranks, and of lanes.
    """

    def __init__(self, dataset: Dataset, packing: Packing, world_size: int) -> None:
        self._dataset, self._packing, self._ranks = dataset, packing, world_size

    @cached_property
    def content(self) -> dict[str, Any]:
        """What the page draws: for both orders, the largest and the mean cost of each step."""
        loaders = {
            "as_packed": self._loader(replace(self._packing, balance=None)),
            "balanced": self._loader(self._packing),
        }
        explained = loaders["balanced"].explain(epoch=0)
        # The rest is less equal, and not on ranks of the same lanes.
        steps = explained["steps"] - explained["steps_after_first_end"]
        costs = {
            name: list(self._costs(loader, min(steps, _MOST_STEPS)))
            for name, loader in loaders.items()
        }
        return {
            "ranks": self._ranks,
            "total": steps,
            "most": max((max(step) for steps in costs.values() for step in steps), default=0),
            "imbalance": {
                name: explained["cost_imbalance"][name]["before_first_end"] for name in loaders
            },
            "steps": {
                name: [(max(step), sum(step) / len(step)) for step in steps]
                for name, steps in costs.items()
            },
        }

    def _loader(self, packing: Packing) -> Loader:
        from shardmill import Loader

        with warnings.catch_warnings():
            # The memory of windows is for batches, and there are none.
            warnings.simplefilter("ignore")
            return Loader(
                self._dataset,
                packing=packing,
                batch_size=1,
                lanes=self._ranks,
                rank=0,
                world_size=self._ranks,
                output="numpy",
            )

    def _costs(self, loader: Loader, steps: int) -> Iterable[tuple[float, ...]]:
        """Return the cost of each rank at each of the first steps."""
        if not steps:
            return ()
        # One batch has the packs of all ranks, lane by lane.
        pieces = loader.explain_table(world_size=1, rank=0, batch_size=steps * self._ranks, epoch=0)
        balance = self._packing.balance
        assert balance is not None
        documents: list[list[int]] = [[] for _ in range(steps * self._ranks)]
        columns = (pieces[name].to_pylist() for name in ("pack", "tokens"))
        for pack, tokens in zip(*columns, strict=True):
            documents[pack].append(tokens)
        units = _native.pack_costs(
            documents,
            units_of(balance.cost),
            length=self._packing.length,
            multiple_of=self._packing.multiple_of,
        )
        unit = unit_of(balance.cost)
        costs = [cost * unit for cost in units]
        lanes = [costs[start : start + steps] for start in range(0, len(costs), steps)]
        return zip(*lanes, strict=True)
