"""Superbatches of rows, cut into what a trainer gets."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

from shardmill._native.columns import rows_of
from shardmill.arrow import as_pyarrow
from shardmill.columns import check_torch, split
from shardmill.decodings import Decoding, decoded
from shardmill.errors import OptionError

OUTPUTS = ("torch", "numpy", "arrow", "dict", "rows")

#: A batch, its rows, and how many rows of the epoch are delivered with it.
Delivery = tuple[Any, int, int]


def cutter_of(output: str, *, decodings: Sequence[Decoding | None], pin_memory: bool, device: Any) -> Cutter:
    """The cutter for an output kind. ``decodings`` are those of the columns that are read.

    Raises:
        ValueError: for another kind, and for memory options that only tensors have.
    """
    if output not in OUTPUTS:
        raise OptionError(f"output is one of {', '.join(OUTPUTS)}, not {output!r}")
    if output == "torch":
        return TorchCutter(pin_memory=pin_memory, device=device)
    for name, value in (("pin_memory", pin_memory), ("device", device)):
        if value:
            raise OptionError(f"{name} is for output='torch', not for {output!r}")
    if output in ("dict", "rows"):
        return DictCutter(decodings) if output == "dict" else RowCutter(decodings)
    return ArrowCutter() if output == "arrow" else Cutter(output)


class Cutter:
    """Cuts columns into dicts of views."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.names: list[str] = []

    def check(self, converter: Any) -> None:
        """Raises what would else fail at the first batch."""
        self.names = converter.names
        if self.kind == "numpy":
            # Not in front of the first batch.
            import numpy  # noqa: F401

    def cut(self, content: Any, sizes: Sequence[int]) -> Iterator[Any]:
        """The batches of a superbatch."""
        return split(self.names, content, sizes, self.kind)

    def staged(self, batches: Iterator[Delivery]) -> Iterator[Delivery]:
        """Batches where the trainer wants them."""
        return batches


class DictCutter(Cutter):
    """Lists of objects by column."""

    def __init__(self, decodings: Sequence[Decoding | None]) -> None:
        super().__init__("dict")
        self.decodings = list(decodings)

    def check(self, converter: Any) -> None:
        """Raises what would else fail at the first batch."""
        super().check(converter)
        # Marks of padded rows come behind the columns.
        self.decodings += [None] * (len(self.names) - len(self.decodings))

    def cut(self, content: Any, sizes: Sequence[int]) -> Iterator[Any]:
        """The batches of a superbatch."""
        batches = super().cut(content, sizes)
        return map(self._decoded, batches) if any(self.decodings) else batches

    def _decoded(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {
            name: decoded(values, decoding)
            for (name, values), decoding in zip(batch.items(), self.decodings, strict=True)
        }


class RowCutter(DictCutter):
    """Lists of rows, each a dict."""

    def cut(self, content: Any, sizes: Sequence[int]) -> Iterator[Any]:
        """The batches of a superbatch."""
        for start, stop in pairwise(accumulate(sizes, initial=0)):
            yield rows_of(self.names, content, self.decodings, start, stop)


class ArrowCutter(Cutter):
    """Record batches that share the memory of their superbatch."""

    def __init__(self) -> None:
        super().__init__("arrow")

    def check(self, converter: Any) -> None:
        """Raises what would else fail at the first batch."""
        super().check(converter)
        # Imports pyarrow now, not in front of the first batch.
        as_pyarrow(converter.schema)

    def cut(self, content: Any, sizes: Sequence[int]) -> Iterator[Any]:
        """The batches of a superbatch."""
        rows, start = as_pyarrow(content), 0
        for size in sizes:
            yield rows.slice(start, size)
            start += size


class TorchCutter(Cutter):
    """Tensors, in page-locked memory or on a device if asked for."""

    def __init__(self, *, pin_memory: bool, device: Any) -> None:
        super().__init__("torch")
        self.pin_memory, self.device = pin_memory, device

    def check(self, converter: Any) -> None:
        """Raises what would else fail at the first batch."""
        super().check(converter)
        check_torch(converter.wide_unsigned)
        if self.device is None and not self.pin_memory:
            return
        import torch

        if self.device is not None:
            self.device = torch.device(self.device)
        needs_cuda = self.pin_memory or (self.device is not None and self.device.type == "cuda")
        if needs_cuda and not torch.cuda.is_available():
            name = "pin_memory" if self.pin_memory else f"device={str(self.device)!r}"
            raise OptionError(f"{name} needs a GPU, and torch finds none here")

    def staged(self, batches: Iterator[Delivery]) -> Iterator[Delivery]:
        """Batches in page-locked memory, or on the device: the copy of one runs while the trainer works on the one before."""
        if self.device is None and not self.pin_memory:
            return batches
        if self.device is None or self.device.type != "cuda":
            return self._moved(batches)
        return self._copied_ahead(batches)

    def _moved(self, batches: Iterator[Delivery]) -> Iterator[Delivery]:
        for batch, rows, consumed in batches:
            moved = _each_tensor(batch, lambda tensor: tensor.pin_memory()) if self.pin_memory else batch
            if self.device is not None:
                moved = _each_tensor(moved, lambda tensor: tensor.to(self.device))
            yield moved, rows, consumed

    def _copied_ahead(self, batches: Iterator[Delivery]) -> Iterator[Delivery]:
        import torch

        stream = torch.cuda.Stream(self.device)
        waiting: deque[tuple[Delivery, Any]] = deque()
        failures: list[Exception] = []

        def begin() -> None:
            try:
                delivery = None if failures else next(batches, None)
            except Exception as error:
                # Its place is behind the batch that is under way.
                failures.append(error)
                return
            if delivery is None:
                return
            batch, rows, consumed = delivery
            pinned = _each_tensor(batch, lambda tensor: tensor.pin_memory())
            with torch.cuda.stream(stream):
                copied = _each_tensor(pinned, lambda tensor: tensor.to(self.device, non_blocking=True))
            # The pinned batch must outlive its copy.
            waiting.append(((copied, rows, consumed), pinned))

        begin()
        while waiting:
            begin()
            delivery, _pinned = waiting.popleft()
            current = torch.cuda.current_stream(self.device)
            current.wait_stream(stream)
            _each_tensor(delivery[0], partial(_in_use_on, current))
            yield delivery
        if failures:
            raise failures[0]


def _in_use_on(stream: Any, tensor: Any) -> Any:
    tensor.record_stream(stream)
    return tensor


def _each_tensor(value: Any, change: Any) -> Any:
    """``value`` with ``change`` done to its tensors, and to those of the dicts in it."""
    if isinstance(value, dict):
        return {name: _each_tensor(part, change) for name, part in value.items()}
    if type(value).__module__.partition(".")[0] == "torch":
        return change(value)
    return value


def close(batches: Iterator[Any]) -> None:
    """Ends a pass that nobody goes on with. Iterators that are no generators have nothing to end."""
    end = getattr(batches, "close", None)
    if end is not None:
        end()
