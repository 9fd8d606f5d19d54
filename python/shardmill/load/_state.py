"""The position of a loader: small, the same on every rank, validated when it is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shardmill._warnings import warn_caller
from shardmill.errors import CheckpointMismatchError
from shardmill.load._checks import MOST_LANES
from shardmill.load._differences import difference
from shardmill.load._ledger import Ledger

STATE_VERSION = 1

#: Settings that a state lacks if they are ``None``.
_OPTIONAL = ("packing", "mixture", "tokenize", "images")


@dataclass(frozen=True, kw_only=True)
class OrderSettings:
    """Everything that decides the order of rows, except the epoch."""

    order_version: int
    rows: int
    filter: str | None
    seed: int
    shuffle: bool
    shuffle_window_bytes: int | None
    lanes: int
    files: int
    dataset: str
    file_digests: list[str] | None
    #: Settings that decide which tokens are packed together, if rows are packed.
    packing: dict[str, Any] | None
    #: For several data sets; see ``shardmill.load._mixture_state``.
    mixture: dict[str, Any] | None = None
    #: Fingerprints of the tokenizations of all sources, if tokens are computed.
    tokenize: str | None = None
    #: The version of random crops and flips, and the options of ``sm.Images`` or, for a mixture,
    #: their digest, if pixels are computed.
    images: dict[str, Any] | None = None

    def state(self, epoch: int, consumed: int) -> dict[str, Any]:
        """Return the state at a position."""
        settings = {
            name: value
            for name, value in vars(self).items()
            if value is not None or name not in _OPTIONAL
        }
        position = {"epoch": epoch, "consumed": consumed}
        return {
            "version": STATE_VERSION,
            "order_version": self.order_version,
            **position,
            **settings,
        }

    def check(self, state: dict[str, Any], names: list[str]) -> None:
        """Reject a state of another data set or order.

        Raises:
            ValueError: If a setting differs. The message names it and shows both values.
        """
        # The seed orders shuffled rows, the sources of a mixture, balanced packs and batches by
        # length, and it draws crops and flips.
        is_seeded = self.shuffle or state["shuffle"] or self.mixture is not None or self._has_draws
        packing = self.packing or {}
        is_seeded |= "balance" in packing or packing.get("strategy") == "token_batches"
        seed = ("seed",) if is_seeded else ()
        for name in (*seed, "shuffle", "shuffle_window_bytes", "lanes", "filter"):
            saved, current = state[name], getattr(self, name)
            if saved != current:
                raise CheckpointMismatchError(difference(name, saved, current))
        self._check_tokenize(state.get("tokenize"))
        self._check_images(state.get("images"))
        self._check_packing(state.get("packing"))
        if state["files"] != self.files:
            raise CheckpointMismatchError(
                f"the data set has changed: {state['files']} files in the state, {self.files} now"
            )
        if state["dataset"] != self.dataset:
            raise CheckpointMismatchError(
                f"the data set has changed: {self._changed_file(state, names)}"
            )
        if state["rows"] != self.rows:
            raise CheckpointMismatchError(
                f"the data set has changed: {state['rows']} rows in the state, {self.rows} now"
            )
        saved = state.get("packing")
        if (
            saved
            and self.packing
            and saved.get("lengths_digest") != self.packing.get("lengths_digest")
        ):
            raise CheckpointMismatchError(
                "the lengths of rows have changed since the state was saved: "
                f"lengths_digest={saved.get('lengths_digest')!r} in the state, "
                f"{self.packing.get('lengths_digest')!r} now"
            )

    @property
    def _has_draws(self) -> bool:
        """Whether images may be cropped or flipped at random."""
        if self.images is None or "columns" not in self.images:
            return self.images is not None
        return any(
            column["fit"] == "random_crop" or column["flip"] > 0
            for column in self.images["columns"]
        )

    def _check_tokenize(self, saved: Any) -> None:
        if saved == self.tokenize:
            return
        message = (
            f"the state was saved with tokenize={saved!r}, "
            f"this loader has tokenize={self.tokenize!r}"
        )
        if self.packing is not None:
            raise CheckpointMismatchError(message)
        # The rows are the same.
        warn_caller(f"{message}: the same rows may have other tokens or labels")

    def _check_images(self, saved: Any) -> None:
        if saved == self.images:
            return
        if saved is None or self.images is None:
            sides = (
                "without images, and this loader has them"
                if saved is None
                else "with images, and this loader has none"
            )
            message = f"the state was saved {sides}: the same rows have other columns"
        else:
            message = (
                f"the state was saved with {_changed_images(saved, self.images)}: "
                "the same rows may have other pixels, or other images may be bad"
            )
        hint = (
            "pass the options of sm.Images with which the state was saved, "
            "or ignore this if the change is intended"
        )
        warn_caller(f"{message}\nhint: {hint}")

    def _check_packing(self, saved: Any) -> None:
        if (saved is None) != (self.packing is None):
            sides = ("packing=None", "packing") if saved is None else ("packing", "packing=None")
            raise CheckpointMismatchError(
                f"the state was saved with {sides[0]}, this loader has {sides[1]}"
            )
        if self.packing is not None:
            # A state that names no plan has that of an epoch.
            plans = saved.get("plan", "epoch"), self.packing.get("plan", "epoch")
            if plans[0] != plans[1]:
                raise CheckpointMismatchError(
                    f"the state was saved with packing plan={plans[0]!r}, "
                    f"but this loader has plan={plans[1]!r}; their packs differ"
                )
        # Options that are not set are in neither.
        own, saved = self.packing or {}, saved or {}
        for name in own | saved:
            # Lengths are compared only after the data is known to be the same.
            if name != "lengths_digest" and saved.get(name) != own.get(name):
                raise CheckpointMismatchError(
                    difference(name, saved.get(name), own.get(name), of="packing ")
                )

    def _changed_file(self, state: dict[str, Any], names: list[str]) -> str:
        saved, current = state["file_digests"], self.file_digests
        if not isinstance(saved, list) or current is None or len(saved) != len(current):
            return "names, sizes, row groups or footers of its files differ from those in the state"
        changed = [name for name, old, new in zip(names, saved, current, strict=True) if old != new]
        if not changed:
            return (
                f"its fingerprint is {self.dataset!r}, but the state has {state['dataset']!r}, "
                "although the files are the same"
            )
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        return (
            f"`{changed[0]}`{more} differs from the file in the state "
            "(name, size, row groups or footer differ)"
        )


def parsed(state: Any) -> dict[str, Any]:
    """Return ``state`` if this version can read it.

    Raises:
        ValueError: If it is not a valid state.
    """
    if not isinstance(state, dict) or "version" not in state:
        raise CheckpointMismatchError(
            "this is not the state of a Loader\n"
            "hint: pass the dict that loader.state_dict() returned, "
            "not a checkpoint that contains it"
        )
    if state["version"] != STATE_VERSION:
        raise CheckpointMismatchError(
            f"the state has version {state['version']}, "
            f"but this version of shardmill reads version {STATE_VERSION}"
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
    # A state must not exhaust memory.
    if not 1 <= state["lanes"] <= MOST_LANES:
        raise CheckpointMismatchError(
            f"the state is damaged: it has {state['lanes']} lanes, "
            f"but a state has 1 to {MOST_LANES:,}\n"
            "hint: load the state exactly as state_dict() returned it"
        )
    if not isinstance(state.get("packing"), dict | None):
        raise CheckpointMismatchError(f"the state is damaged: packing is {state['packing']!r}")
    if not Ledger.is_state(state.get("bad_rows")):
        raise CheckpointMismatchError(f"the state is damaged: bad_rows is {state['bad_rows']!r}")
    # The number of packs is checked by the loader.
    most = 2**63 - 1 if state.get("packing") else state["rows"]
    if not 0 <= state["consumed"] <= most or not 0 <= state["epoch"] < 2**63:
        raise CheckpointMismatchError(
            f"the state is damaged: row {state['consumed']} is not in epoch {state['epoch']}, "
            f"which has {state['rows']} rows"
        )
    return state


def _changed_images(saved: Any, current: dict[str, Any]) -> str:
    """Name the first difference of two settings of images."""
    saved = saved if isinstance(saved, dict) else {}
    version = saved.get("augment_version")
    if version != current["augment_version"]:
        return (
            f"augment_version={version!r}, "
            f"and this version of shardmill has {current['augment_version']}"
        )
    for before, now in zip(saved.get("columns", ()), current.get("columns", ()), strict=False):
        for name, value in now.items():
            if before.get(name) != value:
                return (
                    f"sm.Images({before.get('column')!r}, {name}={before.get(name)!r}), "
                    f"and this loader has {name}={value!r}"
                )
    return "other options of sm.Images"
