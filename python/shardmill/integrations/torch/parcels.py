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

#: Of tensors that numpy can look at as they are.
_NUMPY_TYPES = frozenset(
    ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128"]
)


def parcel(batch: Any) -> Any:
    """``batch`` in a form that is cheap to send, and means the same."""
    if isinstance(batch, dict):
        return Parcel(batch)
    if type(batch).__module__.partition(".")[0] == "pyarrow":
        import pyarrow as pa

        # Writes the rows of a slice, not those around it.
        return pa.ipc.read_record_batch(batch.serialize(), batch.schema)
    return batch


#: Where a tensor stands in a batch: the keys that lead to it.
_Path = tuple[Any, ...]


class Parcel(dict[str, Any]):
    """A batch whose tensors are packed together when it is pickled; unpickled it is a plain dict."""

    def __copy__(self) -> Parcel:
        return Parcel(self)

    def __reduce__(self) -> tuple[Any, ...]:
        tensors: list[tuple[_Path, torch.Tensor]] = []
        layout = _laid_out(self, (), tensors)
        if sum(tensor.nbytes for _, tensor in tensors) <= _MESSAGE_BYTES:
            return _unpacked_message, (layout, [(path, *_written(tensor)) for path, tensor in tensors])
        places, size = [], 0
        for path, tensor in tensors:
            places.append((path, size, tensor.dtype, tuple(tensor.shape)))
            size += -(-tensor.nbytes // _ALIGNMENT) * _ALIGNMENT
        block = torch.empty(size, dtype=torch.uint8)
        for (_, tensor), (_, *place) in zip(tensors, places, strict=True):
            _part(block, *place).copy_(tensor)
        return _unpacked_block, (layout, places, block)


def _laid_out(batch: dict[Any, Any], path: _Path, tensors: list[tuple[_Path, torch.Tensor]]) -> dict[Any, Any]:
    """The batch with ``None`` where its tensors are."""
    layout: dict[Any, Any] = {}
    for name, value in batch.items():
        if isinstance(value, torch.Tensor) and value.device.type == "cpu" and value.layout == torch.strided:
            tensors.append(((*path, name), value))
            layout[name] = None
        else:
            layout[name] = _laid_out(value, (*path, name), tensors) if type(value) is dict else value
    return layout


def _filled(layout: dict[Any, Any], path: _Path, tensor: torch.Tensor) -> None:
    *outer, name = path
    for key in outer:
        layout = layout[key]
    layout[name] = tensor


def _written(tensor: torch.Tensor) -> tuple[str, tuple[int, ...], bytes]:
    # What pickles as plain values is cheap: for few bytes, each call into torch costs more than the copy.
    name = str(tensor.dtype).removeprefix("torch.")
    if name in _NUMPY_TYPES and not tensor.requires_grad:
        content = tensor.resolve_conj().numpy() if tensor.is_complex() else tensor.numpy()
    else:
        content = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
    return name, tuple(tensor.shape), content.tobytes()


def _unpacked_message(layout: dict[Any, Any], parts: list[tuple[_Path, str, tuple[int, ...], bytes]]) -> dict[Any, Any]:
    for path, name, shape, content in parts:
        dtype: torch.dtype = getattr(torch, name)
        if content:
            # Tensors may be written to, and bytes may not.
            tensor = torch.frombuffer(bytearray(content), dtype=dtype)
            _filled(layout, path, tensor if len(shape) == 1 else tensor.view(shape))
        else:
            _filled(layout, path, torch.empty(shape, dtype=dtype))
    return layout


def _unpacked_block(
    layout: dict[Any, Any], places: list[tuple[_Path, int, torch.dtype, tuple[int, ...]]], block: torch.Tensor
) -> dict[Any, Any]:
    for path, start, dtype, shape in places:
        _filled(layout, path, _part(block, start, dtype, shape))
    return layout


def _part(block: torch.Tensor, start: int, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    size = dtype.itemsize
    for length in shape:
        size *= length
    return block[start : start + size].view(dtype).view(shape)
