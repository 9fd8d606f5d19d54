"""Counters at one point in time."""

from __future__ import annotations

from dataclasses import Field, dataclass, field, fields
from operator import sub
from typing import Any, Self

#: Fields that hold a state rather than a sum. A difference keeps the later value.
_STATE = "state"


def state(default: Any) -> Any:
    """Return a field that holds a state rather than a sum."""
    return field(default=default, metadata={_STATE: True})


def is_state(item: Field[Any]) -> bool:
    """Return whether a field holds a state rather than a sum."""
    return _STATE in item.metadata


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Counters at one point in time.

    ``later - earlier`` returns the counters of the time between.
    """

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, with nested dicts for groups of counters."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {
            name: value.to_dict() if isinstance(value, Snapshot) else value
            for name, value in values.items()
        }

    def __sub__(self, earlier: Self) -> Self:
        if type(earlier) is not type(self):
            return NotImplemented
        values: dict[str, Any] = {}
        for item in fields(self):
            value, before = getattr(self, item.name), getattr(earlier, item.name)
            if isinstance(value, tuple):
                values[item.name] = tuple(map(sub, value, before))
            else:
                values[item.name] = value if is_state(item) else value - before
        return type(self)(**values)


@dataclass(frozen=True, kw_only=True)
class StageSeconds(Snapshot):
    """Seconds of threads by stage. Each moment of a thread counts toward one stage at most.

    Attributes:
        plan: deciding which rows come next; for packs this includes counting tokens.
        fetch: waiting for reads from a disk or a store.
        decode: decoding and decompressing blocks.
        tokenize: computing tokens of texts.
        assemble: putting rows into their order, and tokens into packs.
        render: decoding and resizing images.
        convert: converting rows to the output type.
        transform: the user's function, in this process and in workers.
    """

    plan: float = 0.0
    fetch: float = 0.0
    decode: float = 0.0
    tokenize: float = 0.0
    assemble: float = 0.0
    render: float = 0.0
    convert: float = 0.0
    transform: float = 0.0


@dataclass(frozen=True, kw_only=True)
class StorageMetrics(Snapshot):
    """Requests of this process to stores over a network.

    ``one + other`` returns those of two processes.

    Attributes:
        requests: requests to all stores, including retries and hedged requests.
        hedged: requests that were sent a second time because the first answer was late.
        retries: requests that were sent again after a temporary failure.
        bytes: bytes received from stores.
        cache_hits: ranges that were read from the local cache.
        cache_misses: ranges that the local cache did not have.
    """

    requests: int = 0
    hedged: int = 0
    retries: int = 0
    bytes: int = 0
    cache_hits: int = 0
    cache_misses: int = 0

    def __add__(self, other: StorageMetrics) -> StorageMetrics:
        if not isinstance(other, StorageMetrics):
            return NotImplemented
        return StorageMetrics(
            **{
                item.name: getattr(self, item.name) + getattr(other, item.name)
                for item in fields(self)
            }
        )
