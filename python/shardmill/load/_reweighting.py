"""New weights of a mixture during a run, with the same effect on all ranks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from numbers import Integral
from typing import Any

from shardmill.data._dataset import Dataset
from shardmill.errors import EngineError, OptionError
from shardmill.load._conversion import Conversion
from shardmill.load._mixture import reweighted
from shardmill.load._packing_checks import check_sources
from shardmill.load._plan import LoaderPlan
from shardmill.load._position import Cursor
from shardmill.load._ranks import backends_of, distributed_of_torch
from shardmill.load._set_weights import Mark, SetWeights

#: A lane, a position before its packs of the epoch, and the first pass that it has not begun.
_Begun = tuple[int, Mark, int]

_HINT = "hint: call set_weights with equal weights on all ranks, after the same step"


def set_weights(cursor: Cursor, conversion: Conversion, weights: Any, group: Any) -> int:
    """Change the weights from the next epoch or pass on; see ``Loader.set_weights``."""
    cursor.check_here()
    plan = cursor.plan
    compares = _compares(plan, group)
    begun: list[_Begun] = []
    numbers: tuple[float, ...] = ()
    try:
        numbers = _checked(plan, conversion, weights)
        if plan.is_endless:
            begun = _begun(cursor)
    except Exception:
        if compares:
            _maxima(group, [*[0] * 6, 1, *[-1] * (5 * _num_lanes(plan))])
        raise
    place = cursor.position.epoch, cursor.position.consumed
    if compares:
        begun = _of_all_ranks(plan, begun, [_digest(numbers), *place], group)
    if plan.is_endless:
        start = max(at for _, _, at in begun)
        marks = tuple(mark for _, mark, _ in sorted(begun))
        first = min(at for _, at, _, _ in marks)
    else:
        epoch, consumed = place
        start, marks = epoch + (consumed > 0), ()
        # A trainer may still ask for the audit of the epoch before.
        first = max(cursor.start[0] - 1, 0)
    before = plan.set_weights
    stages = [stage for stage in before.stages if stage[0] < start] if before else []
    stages.append((start, numbers))
    known_from = before.known_from if before else 0
    while len(stages) > 1 and stages[1][0] <= first:
        del stages[0]
        known_from = stages[0][0]
    cursor.plan = plan.reweighted(
        SetWeights(
            stages=tuple(stages),
            drawn=tuple(plan.rows.counts_before(stages[0][0])),
            known_from=known_from,
            marks=marks,
        )
    )
    return start * plan.rows.num_rows


def _checked(plan: LoaderPlan, conversion: Conversion, weights: Any) -> tuple[float, ...]:
    """Return the weights in the order of the sources, as in a state."""
    mixture = plan.dataset
    if isinstance(mixture, Dataset):
        raise OptionError(
            "set_weights requires a mixture, but this loader has a single data set\n"
            "hint: create the Loader over a sm.Mixture with weights="
        )
    shares, is_filtered = reweighted(mixture, weights)
    if plan.packed is not None:
        check_sources(mixture, plan.packed.packing.columns, shares)
    else:
        conversion.check(is_filtered=is_filtered)
    values = (weights[name] for name in mixture.sources)
    return tuple(int(one) if isinstance(one, Integral) else float(one) for one in values)


def _begun(cursor: Cursor) -> list[_Begun]:
    plan, position = cursor.plan, cursor.position
    # After a peek, the next pass begins before the last batch.
    epoch, consumed = cursor.start[0], position.consumed
    packs = plan.of_epoch(epoch)
    return packs.begun(packs.num_places if epoch < position.epoch else consumed, plan.share())


def _num_lanes(plan: LoaderPlan) -> int:
    return plan.lanes if plan.is_endless else 0


def _compares(plan: LoaderPlan, group: Any) -> bool:
    """Return whether the ranks compare their calls.

    Raises:
        ValueError: If they must, but have no process group.
    """
    if group is None and (not plan.is_endless or plan.world_size == 1):
        return False
    distributed = distributed_of_torch()
    if group is not None and not (distributed and isinstance(group, distributed.ProcessGroup)):
        raise OptionError(f"group must be a process group of torch.distributed, not {group!r}")
    if not (distributed and distributed.is_initialized()):
        raise OptionError(
            f'set_weights with plan="ahead" on {plan.world_size} ranks requires a process group, '
            "because lanes of other ranks may be in later passes\n"
            "hint: call torch.distributed.init_process_group() on all ranks, or use plan='epoch'"
        )
    size = distributed.get_world_size(group)
    if size != plan.world_size:
        raise OptionError(
            f"{'the process group' if group is None else 'group'} has {size} ranks, "
            f"and the loader has world_size={plan.world_size}\n"
            "hint: pass group=, a process group of the ranks that share the rows"
        )
    return size > 1


def _of_all_ranks(
    plan: LoaderPlan, begun: Sequence[_Begun], call: Sequence[int], group: Any
) -> list[_Begun]:
    """Return the lanes of all ranks, with one all-reduce.

    Args:
        plan: the plan.
        begun: the lanes of this rank.
        call: three numbers that must be the same on all ranks.
        group: the process group.

    Raises:
        ValueError: If ranks pass different weights, or are at different positions.
        EngineError: If the call failed on another rank.
    """
    own = [(-1,) * 5] * _num_lanes(plan)
    for lane, mark, start in begun:
        own[lane] = *mark, start
    numbers = [number for lane in own for number in lane]
    signs = [sign * number for number in call for sign in (1, -1)]
    found = _maxima(group, [*signs, 0, *numbers])
    if found[6]:
        raise EngineError(f"set_weights has failed on another rank, with an error there\n{_HINT}")
    for at, what in enumerate(("other weights", "another epoch", "another position")):
        if found[2 * at] != -found[2 * at + 1]:
            raise OptionError(f"ranks have called set_weights with {what}\n{_HINT}")
    lanes = [found[at : at + 5] for at in range(7, len(found), 5)]
    return [(lane, (one[0], one[1], one[2], one[3]), one[4]) for lane, one in enumerate(lanes)]


def _maxima(group: Any, numbers: list[int]) -> list[int]:
    """Return the maximum of each number over the ranks."""
    import torch
    from torch import distributed

    devices = list(backends_of(group))
    values = torch.tensor(numbers, device="cpu" if "cpu" in devices else devices[0])
    distributed.all_reduce(values, distributed.ReduceOp.MAX, group=group)
    return values.tolist()


def _digest(numbers: Sequence[float]) -> int:
    digest = hashlib.sha256(json.dumps(numbers).encode()).digest()
    return int.from_bytes(digest[:7])
