"""The part of a loader state that identifies the data, and its validation for a mixture."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from shardmill.data._dataset import Dataset, opened_files
from shardmill.errors import CheckpointMismatchError
from shardmill.load._differences import difference
from shardmill.load._mixture import Mixture, blend_of

#: Maximum size of one list, as JSON. Longer lists become a digest, so that a state stays small.
_SHOWN_BYTES = 500

_FILES_NAMED = 100
_FILTER_SHOWN = 500

_WEIGHTS_HINT = (
    "\nhint: create the Mixture with the weights of the saved run, load the state, "
    "and change them with loader.set_weights()"
)


def identity_of(dataset: Dataset | Mixture) -> dict[str, Any]:
    """Return what identifies a data set or a mixture, for ``OrderSettings``."""
    files = opened_files(dataset)
    shared = {
        "files": len(files.native.files),
        "dataset": files.native.fingerprint,
        "tokenize": files.tokenization,
        "images": files.image_settings,
    }
    if isinstance(dataset, Mixture):
        return {**shared, **_settings_of(dataset)}
    digests = files.native.file_digests
    # The state stays small.
    shown = digests if len(digests) <= _FILES_NAMED else None
    return {**shared, "filter": _filter_text(dataset.row_filter), "file_digests": shown}


def _filter_text(filter: Any) -> str | None:
    """Return a filter as shown in a state: abbreviated, then a digest of the whole filter."""
    if filter is None:
        return None
    text = repr(filter)
    shown = text if len(text) <= _FILTER_SHOWN else f"{text[:_FILTER_SHOWN]}…"
    digest = hashlib.sha256(json.dumps(filter.tree, sort_keys=True).encode()).hexdigest()
    return f"{shown} (sha256 {digest[:32]})"


def _settings_of(mixture: Mixture) -> dict[str, Any]:
    """Return everything about the sources and their shares that decides the order."""
    blend = blend_of(mixture)
    sources = mixture.sources.values()
    if blend.counts is not None:
        parts: list[Any] = list(blend.counts)
    else:
        parts = [
            [row, [round(float(part), 12) for part in of_stage]] for row, of_stage in blend.stages
        ]
    mixed = {
        "mode": blend.mode,
        "sources": _shown(list(mixture.sources)),
        "epoch_rows": blend.rows,
        # Repeats and choices are identified by the resulting counts.
        blend.mode: _shown(parts),
        "interpolate": blend.interpolate,
        "rows": _shown([source.num_rows for source in sources]),
        "fingerprints": _shown(
            [opened_files(source).native.fingerprint[:16] for source in sources]
        ),
        "filters": _shown([_digest(_filter_text(source.row_filter)) for source in sources]),
    }
    return {"filter": None, "file_digests": None, "mixture": mixed}


def check(saved: Any, current: dict[str, Any] | None) -> None:
    """Reject a state of another mixture.

    Raises:
        ValueError: If a setting differs. The message names it and shows both values.
    """
    if (saved is None) != (current is None):
        kinds = {True: "one data set", False: "a mixture"}
        raise CheckpointMismatchError(
            f"the state was saved with {kinds[saved is None]}, "
            f"this loader has {kinds[current is None]}"
        )
    if saved is None or current is None:
        return
    if not isinstance(saved, dict):
        raise CheckpointMismatchError(f"the state is damaged: mixture is {saved!r}")
    for name, value in current.items():
        if saved.get(name) != value:
            old, new = saved.get(name), value
            if name == "weights":
                old, new = (_by_source(one, current["sources"]) for one in (old, new))
            raise CheckpointMismatchError(
                difference(name, old, new, of="a mixture of ")
                + _named(name, saved, current)
                + (_WEIGHTS_HINT if name == "weights" else "")
            )


def with_consumed(state: dict[str, Any], plan: Any) -> dict[str, Any]:
    """Return the state; for a mixture, with ``consumed``.

    This is the number of rows of each source that the epoch has delivered.
    """
    if "mixture" not in state:
        return state
    return {**state, "mixture": {**state["mixture"], "consumed": _consumed(state, plan)}}


def check_consumed(state: dict[str, Any], plan: Any) -> None:
    """Reject counters that do not match the position.

    Raises:
        ValueError: If they differ. The message shows both.
    """
    if "mixture" not in state:
        return
    saved, current = state["mixture"].get("consumed"), _consumed(state, plan)
    if saved != current:
        raise CheckpointMismatchError(
            f"the state is damaged: rows of each source are {saved!r} "
            f"at a position that has {current!r}"
        )


def by_name(explanation: dict[str, Any], dataset: Dataset | Mixture) -> dict[str, Any]:
    """Replace source indices in an explanation by names."""
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
    """Return which source differs, if known."""
    old, new, names = saved.get(name), current[name], current["sources"]
    if not (isinstance(old, list) and isinstance(new, list) and isinstance(names, list)):
        return ""
    if not len(old) == len(new) == len(names):
        return ""
    changed = [
        source for source, before, after in zip(names, old, new, strict=True) if before != after
    ]
    return (
        f" (source {', '.join(map(repr, changed))})"
        if name in ("rows", "fingerprints", "filters")
        else ""
    )


def _by_source(stages: Any, names: Any) -> Any:
    """Return the weights of each stage by the name of the source, if names are known."""
    if not (isinstance(stages, list) and isinstance(names, list)):
        return stages
    try:
        named = {start: dict(zip(names, weights, strict=True)) for start, weights in stages}
    except (TypeError, ValueError):
        return stages
    return named[0] if list(named) == [0] else named


def _shown(values: list[Any]) -> Any:
    text = json.dumps(values)
    return values if len(text) <= _SHOWN_BYTES else f"sha256 {_digest(text)}"


def _digest(text: str | None) -> str | None:
    return None if text is None else hashlib.sha256(text.encode()).hexdigest()[:16]
