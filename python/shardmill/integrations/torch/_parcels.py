"""Transfer of batches from a worker process to the trainer.

Batches are views of larger buffers. If sent as they are, a record batch takes its whole buffer along, and each
tensor uses its own shared memory file and connection. Therefore record batches are compacted first, and the tensors
of a batch are sent in one block. A small block is sent in the message itself, without a file.
"""

from __future__ import annotations

from typing import Any

import torch

from shardmill.load._nested import Batch, Ragged, Struct

_ALIGNMENT = 64

#: Above this size, a shared memory file is faster than two copies through a pipe.
_MESSAGE_BYTES = 1 << 20

#: Types of tensors that NumPy can view without conversion.
_NUMPY_TYPES = frozenset(
    ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128"]
)


def parcel(batch: Any) -> Any:
    """Return ``batch`` in an equivalent form that is cheap to send."""
    # A transform may return anything; what does not come from a loader is sent as it is.
    if type(batch) in (dict, Batch):
        return Parcel(batch, kind=type(batch))
    if type(batch).__module__.partition(".")[0] == "pyarrow":
        import pyarrow as pa

        if not isinstance(batch, pa.RecordBatch):
            return batch
        # Writes only the rows of a slice, not those around it; unlike a message alone, a stream has dictionaries too.
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        return pa.ipc.open_stream(sink.getvalue()).read_next_batch()
    return batch


#: Position of a tensor in a batch: the keys that lead to it, and the attributes of a Ragged.
_Path = tuple[Any, ...]


class Parcel(dict[str, Any]):
    """A batch whose tensors are packed together when pickled; unpickling returns a dict of the class ``kind``."""

    def __init__(self, batch: dict[str, Any], *, kind: type[dict[str, Any]] = dict) -> None:
        super().__init__(batch)
        self.kind = kind

    def __copy__(self) -> Parcel:
        return Parcel(self, kind=self.kind)

    def __reduce__(self) -> tuple[Any, ...]:
        tensors: list[tuple[_Path, torch.Tensor]] = []
        layout = self.kind(_laid_out(self, (), tensors))
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
    """Return the batch with ``None`` in place of its tensors."""

    def laid_out(value: Any, *place: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.device.type == "cpu" and value.layout == torch.strided:
            tensors.append(((*path, *place), value))
            return None
        if isinstance(value, Ragged):
            parts = [laid_out(getattr(value, name), *place, name) for name in ("values", "offsets", "valid")]
            return Ragged(*parts)
        return (
            _laid_out(value, (*path, *place), tensors)
            if isinstance(value, dict) and type(value) in (dict, Struct, Batch)
            else value
        )

    layout = {name: laid_out(value, name) for name, value in batch.items()}
    return type(batch)(layout) if type(batch) in (Struct, Batch) else layout


def _filled(layout: Any, path: _Path, tensor: torch.Tensor) -> None:
    *outer, name = path
    for key in outer:
        layout = getattr(layout, key) if isinstance(layout, Ragged) else layout[key]
    if isinstance(layout, Ragged):
        setattr(layout, name, tensor)
    else:
        layout[name] = tensor


def _written(tensor: torch.Tensor) -> tuple[str, tuple[int, ...], bytes]:
    # Plain values are cheap to pickle: for small tensors, each call into torch costs more than the copy.
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
            # Tensors must be writable, and bytes are not.
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
