"""Batches on their way from a worker process to the trainer.

Batches are views of larger pieces of memory. Sent as they are, record batches take the whole piece along, and each
tensor takes a shared memory file and a connection of its own. So a record batch is made small before, and the tensors
of a batch travel in one block; a small block travels in the message itself, where no file has to be opened for it.
"""

from __future__ import annotations

from typing import Any

import torch

_ALIGNMENT = 64

#: Above, a shared memory file is faster than two copies through a pipe.
_MESSAGE_BYTES = 1 << 20


def parcel(batch: Any) -> Any:
    """``batch`` in a form that is cheap to send, and means the same."""
    if isinstance(batch, dict):
        return Parcel(batch)
    if type(batch).__module__.partition(".")[0] == "pyarrow":
        import pyarrow as pa

        # Writes the rows of a slice, not those around it.
        return pa.ipc.read_record_batch(batch.serialize(), batch.schema)
    return batch


class Parcel(dict[str, Any]):
    """A batch whose tensors are packed into one when it is pickled; unpickled it is a plain dict."""

    def __copy__(self) -> Parcel:
        return Parcel(self)

    def __reduce__(self) -> tuple[Any, ...]:
        tensors: list[torch.Tensor] = []
        layout = _laid_out(dict(self), tensors)
        places, size = [], 0
        for tensor in tensors:
            places.append((size, tensor.dtype, tuple(tensor.shape)))
            size += -(-tensor.numel() * tensor.element_size() // _ALIGNMENT) * _ALIGNMENT
        block = torch.empty(size, dtype=torch.uint8)
        for tensor, place in zip(tensors, places, strict=True):
            _part(block, *place).copy_(tensor)
        if size <= _MESSAGE_BYTES:
            return _unpacked_message, (layout, places, bytearray(block.numpy()))
        return _unpacked, (layout, places, block)


class _Place(int):
    """Stands for a tensor, by its number."""


def _laid_out(value: Any, tensors: list[torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor) and value.device.type == "cpu" and value.layout == torch.strided:
        tensors.append(value)
        return _Place(len(tensors) - 1)
    if type(value) is dict:
        return {name: _laid_out(part, tensors) for name, part in value.items()}
    return value


def _unpacked(
    layout: dict[str, Any], places: list[tuple[int, torch.dtype, tuple[int, ...]]], block: torch.Tensor
) -> Any:
    def filled(value: Any) -> Any:
        if isinstance(value, _Place):
            return _part(block, *places[value])
        return {name: filled(part) for name, part in value.items()} if type(value) is dict else value

    return filled(layout)


def _unpacked_message(layout: Any, places: list[tuple[int, torch.dtype, tuple[int, ...]]], message: bytearray) -> Any:
    # Tensors may be written to, and bytearrays too.
    block = torch.frombuffer(message, dtype=torch.uint8) if message else torch.empty(0, dtype=torch.uint8)
    return _unpacked(layout, places, block)


def _part(block: torch.Tensor, start: int, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    size = dtype.itemsize
    for length in shape:
        size *= length
    return block[start : start + size].view(dtype).view(shape)
