"""What a mixture puts into a state of a loader, and what a state must agree with."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from shardmill.dataset import Dataset
from shardmill.errors import CheckpointMismatchError
from shardmill.loader_state import OrderSettings
from shardmill.mixture import Mixture

#: Of one list, as JSON. Longer ones become a digest, so that a state stays small.
_SHOWN_BYTES = 500


def settings_of(mixture: Mixture) -> dict[str, Any]:
    """For :class:`OrderSettings`: everything about the sources and their parts that decides the order."""
    blend = mixture._blend
    sources = mixture.sources.values()
    if blend.counts is not None:
        parts: list[Any] = list(blend.counts)
    else:
        parts = [[row, [round(float(part), 12) for part in of_stage]] for row, of_stage in blend.stages]
    mixed = {
        "mode": blend.mode,
        "sources": _shown(list(mixture.sources)),
        "epoch_rows": blend.rows,
        # Repeats and choices are known by the counts that they come to.
        blend.mode: _shown(parts),
        "interpolate": blend.interpolate,
        "rows": _shown([source.num_rows for source in sources]),
        "fingerprints": _shown([source._native.fingerprint[:16] for source in sources]),
        "filters": _shown([_digest(OrderSettings.filter_text(source.filter)) for source in sources]),
    }
    return {"filter": None, "file_digests": None, "mixture": mixed}


def check(saved: Any, current: dict[str, Any] | None) -> None:
    """Refuses a state of another mixture.

    Raises:
        ValueError: naming what differs, with both values.
    """
    if (saved is None) != (current is None):
        kinds = {True: "one data set", False: "a mixture"}
        raise CheckpointMismatchError(
            f"the state was saved with {kinds[saved is None]}, this loader has {kinds[current is None]}"
        )
    if saved is None or current is None:
        return
    if not isinstance(saved, dict):
        raise CheckpointMismatchError(f"the state is damaged: mixture is {saved!r}")
    for name, value in current.items():
        if saved.get(name) != value:
            raise CheckpointMismatchError(
                f"the state was saved with a mixture of {name}={saved.get(name)!r}, this loader has {name}={value!r}"
                + _named(name, saved, current)
            )


def with_consumed(state: dict[str, Any], plan: Any) -> dict[str, Any]:
    """The state, and in that of a mixture the rows of each source that the epoch has delivered."""
    if "mixture" not in state:
        return state
    return {**state, "mixture": {**state["mixture"], "consumed": _consumed(state, plan)}}


def check_consumed(state: dict[str, Any], plan: Any) -> None:
    """Refuses counters that are not those of the position.

    Raises:
        ValueError: with both values.
    """
    if "mixture" not in state:
        return
    saved, current = state["mixture"].get("consumed"), _consumed(state, plan)
    if saved != current:
        raise CheckpointMismatchError(
            f"the state is damaged: rows of each source are {saved!r} at a position that has {current!r}"
        )


def by_name(explanation: dict[str, Any], dataset: Dataset | Mixture) -> dict[str, Any]:
    """What a plan tells of its sources, by their names."""
    if not isinstance(dataset, Mixture):
        return explanation
    counts = {
        name: dict(zip(dataset.sources, explanation[name], strict=False))
        for name in ("sources", "sources_of_epoch")
        # Packs hold rows of several sources.
        if name in explanation
    }
    return {**explanation, **counts}


def _consumed(state: dict[str, Any], plan: Any) -> Any:
    return _shown(plan.consumed(state["epoch"], state["consumed"]))


def _named(name: str, saved: dict[str, Any], current: dict[str, Any]) -> str:
    """Which source it is, where that is known."""
    old, new, names = saved.get(name), current[name], current["sources"]
    if not (isinstance(old, list) and isinstance(new, list) and isinstance(names, list)):
        return ""
    if not len(old) == len(new) == len(names):
        return ""
    changed = [source for source, before, after in zip(names, old, new, strict=True) if before != after]
    return f" (source {', '.join(map(repr, changed))})" if name in ("rows", "fingerprints", "filters") else ""


def _shown(values: list[Any]) -> Any:
    text = json.dumps(values)
    return values if len(text) <= _SHOWN_BYTES else f"sha256 {_digest(text)}"


def _digest(text: str | None) -> str | None:
    return None if text is None else hashlib.sha256(text.encode()).hexdigest()[:16]
