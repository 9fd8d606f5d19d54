"""The broadcast of batches from the rank of a replica that reads to its other ranks.

At each call, all ranks exchange a header of fixed size. It contains the call and, from the reading
rank, its outcome, so every rank detects calls that differ. A note is in the header; if it is too
long, the rest follows the header. Then come the tensors of the next batch, in blocks of bytes. They
arrive while the trainer processes the previous batch.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from math import prod
from typing import Any, NamedTuple
from zlib import crc32

import torch
from torch import distributed

from shardmill.errors import EngineError, OptionError
from shardmill.integrations.torch._replica import Replica
from shardmill.load._nested import Batch, map_leaves
from shardmill.load._ranks import backends_of

#: What comes of a call. Only ``next()`` may have a batch.
NO_BATCH, BATCH, END, ERROR = range(4)

#: A call; what comes of it, the place in the epoch, and the bytes of the note.
_HEADER = struct.Struct("<4q3q")
_HEADER_BYTES = 512
_ROOM = _HEADER_BYTES - _HEADER.size

_ALIGNMENT = 64

#: What the ranks of a replica call together.
_OPERATIONS = ("next", "MeshLoader", "set_epoch", "skip", "load_state_dict", "set_weights")

#: A batch, and the broadcasts after which its tensors have their values.
Arriving = tuple[Any, list[Any]]


class _Call(NamedTuple):
    """A call, which must be the same on all ranks of a replica."""

    operation: int
    #: Number of the pass, and of the batch in it. A pass begins with its first batch.
    passes: int
    step: int
    #: Checksum of the arguments of all calls.
    history: int

    def __str__(self) -> str:
        name, place = _OPERATIONS[self.operation], f"step {self.step} of pass {self.passes}"
        return place if name == "next" else f"{name}() before {place}"


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A tensor of a batch, without its values."""

    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    #: ``"pinned"``, or the type of its device.
    memory: str
    #: Whether the ranks in the middle receive it.
    is_kept: bool

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.torch_dtype.itemsize

    @property
    def torch_dtype(self) -> torch.dtype:
        # The pickle of a dtype searches all modules.
        return getattr(torch, self.dtype)

    def within(self, block: torch.Tensor) -> torch.Tensor:
        """Return the tensor at the start of a block of bytes."""
        values = block[: self.nbytes].view(self.torch_dtype)
        return values.as_strided(self.shape, self.stride)

    def without_values(self) -> torch.Tensor:
        """Return a tensor that has only a type and a shape."""
        return torch.empty_strided(self.shape, self.stride, dtype=self.torch_dtype, device="meta")


class Form:
    """A batch without the values of its tensors.

    Attributes:
        batch: the batch.
        tensors: its tensors, in the order of ``map_leaves``.
        skeleton: the batch with leaves in place of its tensors.

    Args:
        batch: the batch.
        kept: columns that middle ranks receive; ``None`` for all.

    Raises:
        ValueError: If it contains something other than tensors and numbers.
    """

    def __init__(self, batch: Any, kept: frozenset[str] | None) -> None:
        self.batch, self._kept = batch, kept
        self.tensors: list[torch.Tensor] = []
        if isinstance(batch, dict):
            parts = {
                name: map_leaves(part, partial(self._leaf, name)) for name, part in batch.items()
            }
            self.skeleton = Batch(parts) if isinstance(batch, Batch) else parts
        elif kept is None:
            self.skeleton = map_leaves(batch, partial(self._leaf, None))
        else:
            raise OptionError(
                f"columns requires batches that are dicts, not a {type(batch).__name__}\n"
                "hint: return a dict from the transform, or leave out columns"
            )

    def _leaf(self, column: str | None, value: Any) -> Any:
        if type(value) in (int, float, bool, type(None)):
            return value
        if type(value) is not torch.Tensor or value.layout != torch.strided:
            where = "a batch" if column is None else f"column {column!r}"
            raise OptionError(
                f"{where} has a {type(value).__name__}, and other ranks receive only tensors and "
                "numbers\n"
                "hint: leave it out with columns=, or let each rank read for itself with "
                'share="read"'
            )
        self.tensors.append(value)
        return _Leaf(
            str(value.dtype).removeprefix("torch."),
            tuple(value.shape),
            # Those of a copy, which has no gaps.
            torch.empty_like(value, device="meta").stride(),
            "pinned" if value.is_pinned() else value.device.type,
            self._kept is None or column in self._kept,
        )


class Channel:
    """The process groups of a replica, and the calls of its ranks.

    Args:
        replica: the ranks.
        timeout_s: longest time that a rank waits for the others.
    """

    def __init__(self, replica: Replica, timeout_s: float) -> None:
        self._replica, self._timeout_s = replica, timeout_s
        own = distributed.get_rank()
        self.is_reader = replica.members[0] == own
        self._groups: list[Any] = []
        self._group = self._ends = self._joined(replica.members)
        if replica.columns is not None:
            # The ranks that receive all columns. Torch names groups by their number, so all ranks
            # must create the same number, also those in the middle.
            is_end = own in replica.ends
            ends = self._joined(replica.ends if is_end else (own,))
            self._ends = ends if is_end else None
        self._failure: str | None = None
        self._last_form = b""
        self._passes = self._step = self._history = 0

    def _joined(self, ranks: tuple[int, ...]) -> Any:
        # The host reads headers.
        backends = backends_of() | {"cpu": "gloo"}
        group: Any = distributed.new_group(
            list(ranks),
            timeout=timedelta(seconds=self._timeout_s),
            backend=",".join(f"{device}:{backend}" for device, backend in backends.items()),
            use_local_synchronization=True,
        )
        self._groups.append(group)
        return group

    def record(self, operation: str, argument: Any) -> None:
        """Record a call. Its argument must be the same on all ranks."""
        self._history = crc32(repr((operation, argument)).encode(), self._history)

    def begin_pass(self) -> None:
        """Count a pass."""
        self._passes, self._step = self._passes + 1, 0

    def exchange(self, operation: str, outcome: int, place: int, note: Any) -> tuple[int, int, Any]:
        """Return the outcome, place and note of the reading rank, and ignore those of other ranks.

        Raises:
            EngineError: If the ranks make different calls, or one of them does not call in time.
        """
        if self._failure is not None:
            raise EngineError(self._failure)
        call = _Call(_OPERATIONS.index(operation), self._passes, self._step, self._history)
        packed = pickle.dumps(note) if self.is_reader else b""
        header = _HEADER.pack(*call, outcome, place, len(packed)) + packed[:_ROOM]
        own = _bytes_of(header.ljust(_HEADER_BYTES, b"\0"))
        headers = [torch.empty_like(own) for _ in self._replica.members]
        self.wait([distributed.all_gather(headers, own, group=self._group, async_op=True)])
        received = [bytes(header.numpy()) for header in headers]
        self._check([_Call(*_HEADER.unpack_from(header)[:4]) for header in received])
        *_, outcome, place, size = _HEADER.unpack_from(received[0])
        packed = received[0][_HEADER.size :][:size] + self._rest(packed[_ROOM:], size - _ROOM)
        self._step += outcome == BATCH
        return outcome, place, pickle.loads(packed)

    def _rest(self, content: bytes, size: int) -> bytes:
        """Return the rest of a note on all ranks. Only the reading rank passes it."""
        if size <= 0:
            return b""
        rest = _bytes_of(content) if self.is_reader else torch.empty(size, dtype=torch.uint8)
        self.wait(self._broadcast(rest, self._group))
        return bytes(rest.numpy())

    def _check(self, calls: list[_Call]) -> None:
        first = calls[0]
        for rank, call in zip(self._replica.members, calls, strict=True):
            if call == first:
                continue
            more = ", after other arguments" if str(call) == str(first) else ""
            self._failure = (
                "the ranks of a replica call in another order: "
                f"rank {self._replica.members[0]} is at {first}, rank {rank} is at {call}{more}\n"
                "hint: on all ranks of a replica, iterate and call steps(), set_epoch(), skip(), "
                "set_weights() and load_state_dict() in the same order, with the same arguments"
            )
            raise EngineError(self._failure)

    def packed(self, form: Form) -> bytes | None:
        """Return what ``receive`` needs; ``None`` if the last batch had the same form."""
        packed = pickle.dumps(form.skeleton)
        if packed == self._last_form:
            return None
        self._last_form = packed
        return packed

    def send(self, form: Form) -> Arriving:
        """Begin to send a batch."""
        works: list[Any] = []
        for numbers, block, parts, group in self._blocks(_leaves(form.skeleton)):
            for number, part in zip(numbers, parts, strict=True):
                part.copy_(form.tensors[number])
            works += self._broadcast(block, group)
        return form.batch, works

    def receive(self, packed: bytes | None) -> Arriving:
        """Begin to receive a batch."""
        self._last_form = packed or self._last_form
        skeleton = pickle.loads(self._last_form)
        leaves, works = _leaves(skeleton), []
        tensors: dict[int, torch.Tensor] = {}
        for numbers, block, parts, group in self._blocks(leaves):
            tensors.update(zip(numbers, parts, strict=True))
            works += self._broadcast(block, group)
        received = iter(
            tensors[number] if number in tensors else leaf.without_values()
            for number, leaf in enumerate(leaves)
        )
        batch = map_leaves(skeleton, lambda leaf: next(received) if _is_leaf(leaf) else leaf)
        return batch, works

    def _blocks(self, leaves: list[_Leaf]) -> Iterator[tuple[list[int], torch.Tensor, Any, Any]]:
        """Yield the blocks that this rank sends or receives at once.

        Yields:
            The numbers of the leaves, a block of bytes, the tensors in it, and the group.
        """
        kinds = [(leaf.memory, leaf.is_kept) for leaf in leaves]
        for memory, is_kept in sorted(set(kinds)):
            group = self._group if is_kept else self._ends
            if group is not None:
                numbers = [number for number, kind in enumerate(kinds) if kind == (memory, is_kept)]
                yield numbers, *_block([leaves[number] for number in numbers], memory), group

    def _broadcast(self, block: torch.Tensor, group: Any) -> list[Any]:
        if block.numel() == 0:
            return []
        first = self._replica.members[0]
        return [distributed.broadcast(block, src=first, group=group, async_op=True)]

    def wait(self, works: list[Any]) -> None:
        """Wait for collectives.

        Raises:
            EngineError: If they do not end in time, or another rank has failed.
        """
        try:
            for work in works:
                work.wait()
        except RuntimeError as error:
            ranks = ", ".join(map(str, self._replica.members))
            self._failure = (
                f"the ranks {ranks} of a replica did not meet at step {self._step} of pass "
                f"{self._passes}: {error}\n"
                "hint: look for an earlier error of another rank; if one is only late, use a "
                f"timeout of more than {self._timeout_s:g} seconds"
            )
            raise EngineError(self._failure) from error

    def close(self) -> None:
        """Leave the process groups. Ranks that wait for this rank then raise an error."""
        for group in self._groups:
            distributed.destroy_process_group(group)
        # Connections are open as long as a group is held.
        self._groups.clear()
        self._group = self._ends = None


def _bytes_of(content: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)


def _is_leaf(value: Any) -> bool:
    return type(value) is _Leaf


def _leaves(skeleton: Any) -> list[_Leaf]:
    found: list[Any] = []
    map_leaves(skeleton, found.append)
    return list(filter(_is_leaf, found))


def _block(leaves: list[_Leaf], memory: str) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Return a block of bytes with room for tensors, and the tensors in it."""
    sizes = [-(-leaf.nbytes // _ALIGNMENT) * _ALIGNMENT for leaf in leaves]
    # Without a number, a device is the current one of this process.
    place: dict[str, Any] = {"pin_memory": True} if memory == "pinned" else {"device": memory}
    block = torch.empty(sum(sizes), dtype=torch.uint8, **place)
    # Slices share a version counter: writing to one column would make the backward pass of another
    # fail.
    parts = torch.unsafe_split_with_sizes(block, sizes)
    return block, [leaf.within(part) for leaf, part in zip(leaves, parts, strict=True)]
