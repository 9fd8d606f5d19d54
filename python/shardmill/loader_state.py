"""The position of a loader: small, the same on every rank, checked when it is loaded."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from shardmill.errors import CheckpointMismatchError
from shardmill.loader_options import MOST_LANES

STATE_VERSION = 1

_FILES_NAMED = 100
_FILTER_SHOWN = 500


@dataclass(frozen=True, kw_only=True)
class OrderSettings:
    """Everything that decides the order of rows, apart from the epoch."""

    order_version: int
    rows: int
    filter: str | None
    seed: int
    shuffle: bool
    shuffle_window_bytes: int | None
    lanes: int
    #: What decides which tokens stand together, where rows are packed.
    packing: dict[str, Any] | None
    files: int
    dataset: str
    file_digests: list[str] | None
    #: Of several data sets: see :mod:`shardmill.mixture_state`.
    mixture: dict[str, Any] | None = None

    @staticmethod
    def filter_text(filter: Any) -> str | None:
        """A filter as states show it: cut short for people, and a digest of all of it."""
        if filter is None:
            return None
        text = repr(filter)
        shown = text if len(text) <= _FILTER_SHOWN else f"{text[:_FILTER_SHOWN]}…"
        digest = hashlib.sha256(json.dumps(filter.tree, sort_keys=True).encode()).hexdigest()
        return f"{shown} (sha256 {digest[:32]})"

    @staticmethod
    def digests_shown(digests: list[str]) -> list[str] | None:
        """Digests of single files, where the state stays small with them."""
        return digests if len(digests) <= _FILES_NAMED else None

    def state(self, epoch: int, consumed: int) -> dict[str, Any]:
        """The state at a position."""
        packing = {} if self.packing is None else {"packing": self.packing}
        return {
            "version": STATE_VERSION,
            "order_version": self.order_version,
            "epoch": epoch,
            "consumed": consumed,
            "rows": self.rows,
            "filter": self.filter,
            "seed": self.seed,
            "shuffle": self.shuffle,
            "shuffle_window_bytes": self.shuffle_window_bytes,
            "lanes": self.lanes,
            "files": self.files,
            "dataset": self.dataset,
            "file_digests": self.file_digests,
            **packing,
            **({} if self.mixture is None else {"mixture": self.mixture}),
        }

    def check(self, state: dict[str, Any], names: list[str]) -> None:
        """Refuses a state of another data set or order.

        Raises:
            ValueError: naming what differs, with both values.
        """
        for name in ("seed", "shuffle", "shuffle_window_bytes", "lanes", "filter"):
            saved, current = state[name], getattr(self, name)
            if saved != current:
                raise CheckpointMismatchError(
                    f"the state was saved with {name}={saved!r}, this loader has {name}={current!r}"
                )
        self._check_packing(state.get("packing"))
        if state["files"] != self.files:
            raise CheckpointMismatchError(
                f"the data set has changed: {state['files']} files in the state, {self.files} now"
            )
        if state["dataset"] != self.dataset:
            raise CheckpointMismatchError(f"the data set has changed: {self._changed_file(state, names)}")
        if state["rows"] != self.rows:
            raise CheckpointMismatchError(
                f"the data set has changed: {state['rows']} rows in the state, {self.rows} now"
            )
        saved = state.get("packing")
        if saved and self.packing and saved.get("lengths_digest") != self.packing["lengths_digest"]:
            raise CheckpointMismatchError(
                f"rows have other lengths than when the state was saved: lengths_digest={saved.get('lengths_digest')!r} "
                f"in the state, {self.packing['lengths_digest']!r} now"
            )

    def _check_packing(self, saved: Any) -> None:
        if (saved is None) != (self.packing is None):
            raise CheckpointMismatchError(
                f"the state was saved with packing={saved!r}, this loader has packing={self.packing!r}"
            )
        for name, current in (self.packing or {}).items():
            # Lengths are compared when it is known that the data is the same.
            if name != "lengths_digest" and saved.get(name) != current:
                raise CheckpointMismatchError(
                    f"the state was saved with packing {name}={saved.get(name)!r}, this loader has {name}={current!r}"
                )

    def _changed_file(self, state: dict[str, Any], names: list[str]) -> str:
        saved, current = state["file_digests"], self.file_digests
        if not isinstance(saved, list) or current is None or len(saved) != len(current):
            return "names, sizes, row groups or footers of its files differ from those in the state"
        changed = [name for name, old, new in zip(names, saved, current, strict=True) if old != new]
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        return f"`{changed[0]}`{more} is not the file that the state knows (name, size, row groups or footer differ)"


def parsed(state: Any, *, lanes: int | None = None) -> dict[str, Any]:
    """``state`` when it is one that this version can read, by a loader that was told of ``lanes``.

    Raises:
        ValueError: for anything else.
    """
    if not isinstance(state, dict) or "version" not in state:
        raise CheckpointMismatchError("this is no state of a Loader")
    if state["version"] != STATE_VERSION:
        raise CheckpointMismatchError(
            f"the state has version {state['version']}, this shardmill reads version {STATE_VERSION}"
        )
    kinds = {
        "epoch": int,
        "consumed": int,
        "rows": int,
        "seed": int,
        "shuffle": bool,
        "lanes": int,
        "files": int,
        "dataset": str,
    }
    for name, kind in kinds.items():
        if type(state.get(name)) is not kind:
            raise CheckpointMismatchError(f"the state is damaged: {name} is {state.get(name)!r}")
    for name in ("filter", "shuffle_window_bytes", "order_version", "file_digests"):
        if name not in state:
            raise CheckpointMismatchError(f"the state is damaged: {name} is missing")
    # Who asks for more lanes than that gets them; a state alone must not fill the memory.
    most = MOST_LANES if lanes is None else 2**63 - 1
    if not 1 <= state["lanes"] <= most:
        raise CheckpointMismatchError(
            f"the state is damaged: it has {state['lanes']} lanes, and a state has from 1 to {most:,}\n"
            "hint: load the state that state_dict() gave, as it was; a run that was told of more lanes goes on with the same lanes="
        )
    if not isinstance(state.get("packing"), dict | None):
        raise CheckpointMismatchError(f"the state is damaged: packing is {state['packing']!r}")
    # How many packs the rows make is for the loader to know.
    most = 2**63 - 1 if state.get("packing") else state["rows"]
    if not 0 <= state["consumed"] <= most or not 0 <= state["epoch"] < 2**63:
        raise CheckpointMismatchError(
            f"the state is damaged: row {state['consumed']} of {state['rows']} in epoch {state['epoch']}"
        )
    return state
