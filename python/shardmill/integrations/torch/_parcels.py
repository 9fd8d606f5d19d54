"""Transfer of batches from a worker process to the trainer.

Batches are views of larger buffers. If sent as they are, a record batch takes its whole buffer
along, and each tensor uses its own shared memory file and connection. Therefore record batches are
compacted first, and the tensors of a batch are sent in one block. A small block is sent in the
message itself, without a file.
"""

from __future__ import annotations

from itertools import accumulate
from math import prod
from typing import Any

import torch

from shardmill.load._nested import Batch, Ragged, Struct

_ALIGNMENT = 64

#: Above this size, a shared memory file is faster than two copies through a pipe.
_MESSAGE_BYTES = 1 << 20

#: Types of tensors that NumPy can view without conversion.
_NUMPY_TYPES = frozenset(
    [
        "bool",
        "uint8",
        "int8",
        "int16",
        "int32",
        "int64",
        "float16",
        "float32",
        "float64",
        "complex64",
        "complex128",
    ]
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
        # Writes only the rows of a slice, not those around it; unlike a message alone, a stream has
        # dictionaries too.
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        return pa.ipc.open_stream(sink.getvalue()).read_next_batch()
    return batch


class Parcel(dict[str, Any]):
    """A batch whose tensors are packed together when pickled.

    Unpickling returns a dict of the class ``kind``.
    """

    def __init__(self, batch: dict[str, Any], *, kind: type[dict[str, Any]] = dict) -> None:
        super().__init__(batch)
        self.kind = kind

    def __copy__(self) -> Parcel:
        return Parcel(self, kind=self.kind)

    def __reduce__(self) -> tuple[Any, ...]:
        pieces: list[_Piece] = []
        layout = self.kind(_laid_out(dict(self), pieces))
        if sum(piece.tensor.nbytes for piece in pieces) <= _MESSAGE_BYTES:
            for piece in pieces:
                piece.reduced = _of_bytes, _written(piece.tensor)
            return _arrived, (layout,)
        sizes = [-(-piece.tensor.nbytes // _ALIGNMENT) * _ALIGNMENT for piece in pieces]
        # All pieces refer to one block, which is sent once.
        block = torch.empty(sum(sizes), dtype=torch.uint8)
        for piece, size, end in zip(pieces, sizes, accumulate(sizes), strict=True):
            place = block, end - size, piece.tensor.dtype, tuple(piece.tensor.shape)
            _part(*place).copy_(piece.tensor)
            piece.reduced = _part, place
        return _arrived, (layout,)


def _arrived(batch: dict[str, Any]) -> dict[str, Any]:
    return batch


class _Piece:
    """A tensor of a parcel, in its place in the batch. Unpickling returns the tensor."""

    __slots__ = ("reduced", "tensor")

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self.reduced: tuple[Any, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return self.reduced


def _laid_out(value: Any, pieces: list[_Piece]) -> Any:
    """Return a part of a batch with pieces in place of its tensors."""
    if (
        isinstance(value, torch.Tensor)
        and value.device.type == "cpu"
        and value.layout == torch.strided
    ):
        pieces.append(_Piece(value))
        return pieces[-1]
    if isinstance(value, Ragged):
        return Ragged(
            *(_laid_out(part, pieces) for part in (value.values, value.offsets, value.valid))
        )
    if isinstance(value, dict) and type(value) in (dict, Struct, Batch):
        layout = {name: _laid_out(part, pieces) for name, part in value.items()}
        return layout if type(value) is dict else type(value)(layout)
    return value


def _written(tensor: torch.Tensor) -> tuple[str, tuple[int, ...], bytes]:
    # Plain values are cheap to pickle: for small tensors, calls into torch cost more than copies.
    name = str(tensor.dtype).removeprefix("torch.")
    if name in _NUMPY_TYPES and not tensor.requires_grad:
        content = tensor.resolve_conj().numpy() if tensor.is_complex() else tensor.numpy()
    else:
        content = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
    return name, tuple(tensor.shape), content.tobytes()


def _of_bytes(name: str, shape: tuple[int, ...], content: bytes) -> torch.Tensor:
    dtype: torch.dtype = getattr(torch, name)
    if not content:
        return torch.empty(shape, dtype=dtype)
    # Tensors must be writable, and bytes are not.
    tensor = torch.frombuffer(bytearray(content), dtype=dtype)
    return tensor if len(shape) == 1 else tensor.view(shape)


def _part(
    block: torch.Tensor, start: int, dtype: torch.dtype, shape: tuple[int, ...]
) -> torch.Tensor:
    return block[start : start + prod(shape) * dtype.itemsize].view(dtype).view(shape)
