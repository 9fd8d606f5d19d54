"""Converts Python values without an Arrow equivalent to the bytes or strings of a format."""

from __future__ import annotations

import io
import json
import math
import struct
import sys
from collections.abc import Callable
from numbers import Number
from pathlib import Path
from typing import Any, TypeGuard

from shardmill.errors import OptionError

#: Converts a value that is neither ``None`` nor bytes to bytes or a string.
Cell = Callable[[Any], Any]

#: Code of each numeric type, where MDS stores it next to the values.
NUMBER_CODES = {
    name: code
    for code, name in (
        *enumerate(("uint8", "int8"), 8),
        *enumerate(("uint16", "int16", "float16"), 16),
        *enumerate(("uint32", "int32", "float32"), 32),
        *enumerate(("uint64", "int64", "float64"), 64),
    )
}
_DIMENSION_FORMATS = "BHIQ"


def mds_cell(encoding: str) -> Cell | None:
    """Return the converter for an MDS encoding; ``None`` if Arrow stores the value itself."""
    if encoding == "json":
        return mds_json
    if encoding in ("str_int", "str_float", "str_decimal"):
        return str
    if encoding == "ndarray" or encoding.startswith("ndarray:"):
        return _array_cell(encoding)
    if encoding == "pil":
        return _pixels
    if encoding in ("jpeg", "png"):
        return lambda image: _image_file(image, encoding)
    if encoding in ("jpeg_array", "jpegarray"):
        return lambda images: _blobs(images, lambda image: _image_file(image, "jpeg"), b"")
    if encoding.startswith("list["):
        kind = encoding[5:-1]
        of_one = _pixels if kind == "pil" else lambda image: _image_file(image, kind)
        return lambda images: _blobs(images, of_one, bytes(4))
    return None


def webdataset_cell(column: str) -> Cell | None:
    """Return the converter for the payload of a member named after ``column``.

    It is ``None`` if Arrow stores the value itself.
    """
    kind = column.rpartition(".")[2]
    if kind in ("json", "jsn"):
        return _plain_json
    if kind in ("jpg", "jpeg", "png"):
        return lambda image: _image_file(image, "png" if kind == "png" else "jpeg")
    if kind == "npy":
        return _npy
    return None


def encoding_of(value: Any) -> str | None:
    """Return the MDS encoding for a Python value; ``None`` if Arrow infers its type."""
    if isinstance(value, dict | list | tuple):
        return "json"
    kind = type(value).__module__.partition(".")[0]
    if kind == "numpy" and getattr(value, "shape", ()) != ():
        return f"ndarray:{value.dtype}"
    return "pil" if kind == "PIL" else None


def without_torch(value: Any) -> Any:
    """Return the values of a tensor as a NumPy array; any other value unchanged.

    NumPy lacks the short floating-point types, such as bfloat16; their values are exact in float32.

    Raises:
        TypeError: If NumPy cannot hold them.
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return value
    tensor = value.detach().cpu()
    if tensor.is_floating_point() and tensor.dtype not in (torch.float16, torch.float64):
        tensor = tensor.float()
    return tensor.resolve_conj().resolve_neg().numpy()


def is_media(value: Any) -> TypeGuard[dict[str, Any]]:
    """Tell whether a value is a file within a row, as in Hugging Face data sets."""
    return isinstance(value, dict) and value.keys() == {"bytes", "path"}


def media_bytes(value: Any) -> bytes:
    """Return the bytes of a file within a row.

    Raises:
        TypeError: If it has no bytes.
    """
    content = value["bytes"]
    if not isinstance(content, bytes):
        raise TypeError(f"the file {value['path']!r} has no bytes")
    return content


def _plain_json(value: Any) -> str:
    """Return the value as JSON that every reader accepts.

    Raises:
        ValueError: If it has NaN or an infinity.
    """
    try:
        return json.dumps(value, allow_nan=False, default=_listed)
    except ValueError as error:
        raise ValueError(
            f"{error} (JSON has no NaN and no infinities; None becomes null)"
        ) from error


def mds_json(value: Any) -> str:
    """Return the value as JSON.

    An array becomes a list, also within the value, as with MosaicML's writer.
    """
    return json.dumps(value, default=_listed)


def _listed(value: Any) -> Any:
    if hasattr(value, "tolist") and hasattr(value, "shape"):
        return value.tolist()
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _array_cell(encoding: str) -> Cell:
    import numpy

    _, _, rest = encoding.partition(":")
    dtype, _, shape_text = rest.partition(":")
    shape = tuple(int(size) for size in shape_text.split(",")) if shape_text else None

    def encoded(value: Any) -> bytes:
        array = value if isinstance(value, numpy.ndarray) else _exact_array(value, dtype)
        if array.dtype.name not in NUMBER_CODES or (dtype and array.dtype.name != dtype):
            raise TypeError(f"an array of {array.dtype}")
        if (
            array.ndim == 0
            or array.ndim > 63
            or 0 in array.shape
            or shape not in (None, array.shape)
        ):
            raise TypeError(f"an array of the shape {array.shape}")
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        head = b"" if dtype else bytes([NUMBER_CODES[array.dtype.name]])
        return head + (b"" if shape else _shape_block(array.shape)) + little.tobytes()

    return encoded


def _exact_array(value: Any, dtype: str) -> Any:
    """Return a value that is not an array as an array.

    Only floating-point numbers may be rounded.

    Raises:
        TypeError, ValueError: If ``dtype`` cannot hold a number, or the value has anything else.
    """
    import numpy

    plain = numpy.asarray(value)
    if plain.dtype.kind not in "biuf":
        for item in numpy.array(value, dtype=object).flat:
            if not isinstance(item, Number) or isinstance(item, complex):
                raise TypeError(f"{item!r} is not a real number")
    target = numpy.dtype(dtype or plain.dtype)
    with numpy.errstate(all="ignore"):
        held = plain.astype(target)
    if not _is_surely_exact(plain, held):
        values = numpy.array(value, dtype=object)
        if target.kind in "iu":
            # NumPy may have converted integers to floats.
            held = values.astype(target)
        _check_exact(values, held)
    return held


def _is_surely_exact(plain: Any, held: Any) -> bool:
    """Return whether ``held`` certainly has the numbers of ``plain``.

    The comparisons are fast, and certain for numbers that are not large.
    """
    import numpy

    if plain.dtype.kind == "O" or plain.size == 0:
        return plain.size == 0
    if plain.dtype.kind in "biu" and held.dtype.kind in "iu":
        limits = numpy.iinfo(held.dtype)
        return bool(int(plain.min()) >= limits.min and int(plain.max()) <= limits.max)
    # In lists of both, NumPy converts integers to floats, which is exact below this.
    largest = 2 ** (numpy.finfo(held.dtype if held.dtype.kind == "f" else "float64").nmant + 1)
    is_kept = True if held.dtype.kind == "f" else held.astype(plain.dtype) == plain
    return bool(numpy.all((plain < largest) & (plain > -largest) & is_kept))


def _check_exact(values: Any, held: Any) -> None:
    for value, number in zip(values.flat, held.ravel().tolist(), strict=True):
        item = value.item() if hasattr(value, "item") else value
        if isinstance(item, float) and isinstance(number, float):
            is_same = (
                math.isnan(number) if math.isnan(item) else math.isinf(number) == math.isinf(item)
            )
        else:
            is_same = item == number
        if not is_same:
            raise ValueError(f"{held.dtype} cannot hold {item!r} exactly")


def _shape_block(shape: tuple[int, ...]) -> bytes:
    width = next(width for width in range(4) if max(shape) < 1 << (8 << width))
    return struct.pack(
        f"<B{len(shape)}{_DIMENSION_FORMATS[width]}", len(shape) << 2 | width, *shape
    )


def _check_image(image: Any, attribute: str) -> None:
    if not hasattr(image, attribute):
        raise TypeError(f"an image is bytes or a PIL image, not {type(image).__name__}")


def _pixels(image: Any) -> bytes:
    _check_image(image, "mode")
    mode = image.mode.encode()
    return struct.pack("<3I", *image.size, len(mode)) + mode + image.tobytes()


def _image_file(image: Any, kind: str) -> bytes:
    if isinstance(image, bytes):
        return image
    if is_media(image):
        return media_bytes(image)
    _check_image(image, "save")
    path = getattr(image, "filename", "")
    # An image from a file of this kind still has its bytes; encoding it again would lose quality.
    if kind == "jpeg" and getattr(image, "format", None) == "JPEG" and path:
        return Path(path).read_bytes()
    out = io.BytesIO()
    image.save(out, format=kind.upper())
    return out.getvalue()


def _blobs(images: Any, of_one: Cell, head: bytes) -> bytes:
    blobs = [image if isinstance(image, bytes) else of_one(image) for image in images]
    return head + struct.pack(f"<{len(blobs) + 1}I", len(blobs), *map(len, blobs)) + b"".join(blobs)


def _npy(array: Any) -> bytes:
    import numpy

    out = io.BytesIO()
    numpy.save(out, array, allow_pickle=False)
    return out.getvalue()


def check_encoding(column: str, encoding: Any) -> str:
    """Return the ``encoding`` of a column.

    Raises:
        ValueError: If it is not a string, or is a pickle, which is never written.
    """
    if not isinstance(encoding, str):
        raise OptionError(f"columns gives {column!r} the type {encoding!r}, which is not a string")
    if encoding == "pkl":
        raise OptionError(
            f"column {column!r} would hold pickles, which run code when they are read\n"
            "hint: use json, or bytes"
        )
    return encoding
