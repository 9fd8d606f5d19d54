"""Superbatches of rows, cut into the batches that a trainer receives."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from shardmill._extras import pyarrow_for
from shardmill._native.columns import rows_of
from shardmill._native.load import TensorMemory
from shardmill.data._arrow import as_pyarrow
from shardmill.data._decodings import Decoding, decoded
from shardmill.errors import OptionError
from shardmill.load._columns import check_torch, split
from shardmill.load._memory import page_locked
from shardmill.load._nested import Batch, Ragged, Rows, map_tensors
from shardmill.load._packed_images import joined
from shardmill.load._trees import register

if TYPE_CHECKING:
    from shardmill.data._sequences import Sequences

#: A batch, its number of rows, and the number of rows of the epoch that are consumed with it.
Delivery = tuple[Any, int, int]


def cutter_of(
    output: str,
    *,
    decodings: Sequence[Decoding | None],
    bfloat16: Sequence[str],
    pin_memory: bool,
    device: Any,
) -> Cutter:
    """Return the cutter for an output kind.

    Args:
        output: the kind.
        decodings: those of the selected columns.
        bfloat16: columns whose numbers are the bits of this type.
        pin_memory: use page-locked memory.
        device: the device of the batches.

    Raises:
        ValueError: If memory options are given for an output without tensors.
    """
    if output == "torch":
        return TorchCutter(bfloat16=bfloat16, pin_memory=pin_memory, device=device)
    if bfloat16:
        raise OptionError(
            f"column {bfloat16[0]!r} has dtype='bfloat16', "
            f"which requires output='torch', not {output!r}"
        )
    for name, value in (("pin_memory", pin_memory), ("device", device)):
        if value:
            raise OptionError(f"{name} requires output='torch', not {output!r}")
    if output in ("dict", "rows"):
        return DictCutter(decodings) if output == "dict" else RowCutter(decodings)
    return ArrowCutter() if output == "arrow" else Cutter(output)


class Cutter:
    """Cut columns into dicts of views."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.names: list[str] = []
        #: How the documents of packs with images are made.
        self.packed_images: Sequences | None = None

    @property
    def is_pinned(self) -> bool:
        """Whether batches are in page-locked memory, on their way to the trainer or to a GPU."""
        return False

    @property
    def memory(self) -> TensorMemory | None:
        """Where native threads put pixels, or ``None`` for memory of their own."""
        return TensorMemory(page_locked) if self.is_pinned else None

    def check(self, converter: Any) -> None:
        """Check now what would otherwise fail at the first batch."""
        register()
        self.names = converter.names
        if self.kind == "numpy":
            # Imported now instead of before the first batch.
            import numpy  # noqa: F401

    def cut(self, content: Any, sizes: Sequence[int]) -> Iterator[Any]:
        """Yield the batches of a superbatch."""
        batches = split(self.names, content, sizes, self.kind)
        sequences = self.packed_images if self.kind in ("torch", "numpy") else None
        if sequences is None:
            return batches
        return (joined(batch, sequences) for batch in batches)

    def staged(self, batches: Iterator[Delivery]) -> Iterator[Delivery]:
        """Move batches to the memory or device the trainer asked for."""
        return batches


class DictCutter(Cutter):
    """Lists of objects by column."""

    def __init__(self, decodings: Sequence[Decoding | None]) -> None:
        super().__init__("dict")
        self.decodings = list(decodings)

    def check(self, converter: Any) -> None:
        """Check now what would otherwise fail at the first batch."""
        super().check(converter)
        # The columns that mark padded rows come after the data columns.
        self.decodings = [*self.decodings, *[None] * len(self.names)][: len(self.names)]

    def cut(self, content: Any, sizes: Sequence[int]) -> Iterator[Any]:
        """Yield the batches of a superbatch."""
        batches = super().cut(content, sizes)
        return map(self._decoded, batches) if any(self.decodings) else batches

    def _decoded(self, batch: Batch) -> Batch:
        return Batch(
            (name, decoded(values, decoding))
            for (name, values), decoding in zip(batch.items(), self.decodings, strict=True)
        )


class RowCutter(DictCutter):
    """Lists of rows, each row a dict."""

    def cut(self, content: Any, sizes: Sequence[int]) -> Iterator[Any]:
        """Yield the batches of a superbatch."""
        for start, stop in pairwise(accumulate(sizes, initial=0)):
            yield Rows(rows_of(self.names, content, self.decodings, start, stop))


class ArrowCutter(Cutter):
    """Record batches that share the memory of their superbatch."""

    def __init__(self) -> None:
        super().__init__("arrow")

    def check(self, converter: Any) -> None:
        """Check now what would otherwise fail at the first batch."""
        super().check(converter)
        # Without pyarrow, arro3 cuts native batches.
        if find_spec("arro3") is None:
            pyarrow_for("output='arrow'")
        # Import pyarrow now instead of before the first batch.
        as_pyarrow(converter.schema)

    def cut(self, content: Any, sizes: Sequence[int]) -> Iterator[Any]:
        """Yield the batches of a superbatch."""
        if len(content) > 1:
            return map(as_pyarrow, content)
        return map(as_pyarrow(content[0]).slice, accumulate(sizes, initial=0), sizes)


class SuperbatchCutter(Cutter):
    """Arrow rows for a consumer to which the bounds of batches mean nothing.

    A superbatch comes with its first batch, ``None`` with others.
    """

    def __init__(self) -> None:
        super().__init__("stream")

    def cut(self, content: Any, sizes: Sequence[int]) -> Iterator[Any]:
        """Yield the pieces of the superbatch, once."""
        return (None if number else content for number in range(len(sizes)))


class TorchCutter(Cutter):
    """Tensors, optionally in page-locked memory or on a device."""

    def __init__(self, *, bfloat16: Sequence[str] = (), pin_memory: bool, device: Any) -> None:
        super().__init__("torch")
        self.bfloat16, self.pin_memory, self.device = bfloat16, pin_memory, device

    @property
    def is_pinned(self) -> bool:
        """Whether batches are in page-locked memory, on their way to the trainer or to a GPU."""
        return self.pin_memory or self._is_cuda

    @property
    def _is_cuda(self) -> bool:
        return self.device is not None and str(self.device).partition(":")[0] == "cuda"

    def cut(self, content: Any, sizes: Sequence[int]) -> Iterator[Any]:
        """Yield the batches of a superbatch."""
        batches = super().cut(content, sizes)
        return map(self._viewed, batches) if self.bfloat16 else batches

    def _viewed(self, batch: Batch) -> Batch:
        import torch

        view = partial(torch.Tensor.view, dtype=torch.bfloat16)

        def viewed(column: Any) -> Any:
            if isinstance(column, Ragged):
                return Ragged(viewed(column.values), column.offsets, column.valid)
            return view(column)

        batch.update({name: viewed(batch[name]) for name in self.bfloat16})
        return batch

    def check(self, converter: Any) -> None:
        """Check now what would otherwise fail at the first batch."""
        super().check(converter)
        check_torch(converter.wide_unsigned)
        if self.device is None and not self.pin_memory:
            return
        import torch

        if self.device is not None:
            try:
                self.device = torch.device(self.device)
            except (RuntimeError, TypeError) as error:
                raise OptionError(
                    'Runtime.device must be a device of torch, such as "cuda:0", '
                    f"not {self.device!r}"
                ) from error
        if self.is_pinned and not torch.cuda.is_available():
            name = "pin_memory" if self.pin_memory else f"device={str(self.device)!r}"
            raise OptionError(f"{name} requires a GPU, and torch does not find one")

    def staged(self, batches: Iterator[Delivery]) -> Iterator[Delivery]:
        """Move batches to page-locked memory or to the device.

        A batch is copied while the trainer works on the previous one.
        """
        if self.device is None and not self.pin_memory:
            return batches
        return self._copied_ahead(batches) if self._is_cuda else self._moved(batches)

    def _moved(self, batches: Iterator[Delivery]) -> Iterator[Delivery]:
        for batch, rows, consumed in batches:
            # Pixels are in page-locked memory already; pinning those again is a no-op in torch.
            moved = (
                map_tensors(batch, lambda tensor: tensor.pin_memory()) if self.pin_memory else batch
            )
            if self.device is not None:
                moved = map_tensors(moved, lambda tensor: tensor.to(self.device))
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
                # It is enqueued after the current batch.
                failures.append(error)
                return
            if delivery is None:
                return
            batch, rows, consumed = delivery
            pinned = map_tensors(batch, lambda tensor: tensor.pin_memory())
            with torch.cuda.stream(stream):
                copied = map_tensors(
                    pinned, lambda tensor: tensor.to(self.device, non_blocking=True)
                )
            # The pinned batch must outlive its copy.
            waiting.append(((copied, rows, consumed), pinned))

        begin()
        while waiting:
            begin()
            delivery, _pinned = waiting.popleft()
            current = torch.cuda.current_stream(self.device)
            current.wait_stream(stream)
            map_tensors(delivery[0], partial(_in_use_on, current))
            yield delivery
        if failures:
            raise failures[0]


def _in_use_on(stream: Any, tensor: Any) -> Any:
    tensor.record_stream(stream)
    return tensor


def close(batches: Iterator[Any]) -> None:
    """Close an abandoned pass. Iterators that are not generators need no closing."""
    end = getattr(batches, "close", None)
    if end is not None:
        end()
