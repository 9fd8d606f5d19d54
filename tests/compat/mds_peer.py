"""What MosaicML Streaming does: writes data sets, merges them, reads them.

It runs with the interpreter of its own environment.

usage: mds_peer.py write DIRECTORY ROWS COMPRESSION HASHES SIZE_LIMIT
       mds_peer.py read DIRECTORY
       mds_peer.py merge DIRECTORY
       mds_peer.py scalars DIRECTORY
"""

from __future__ import annotations

import io
import json
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np

#: Every encoding but pickles.
COLUMNS = {
    "a_bytes": "bytes",
    "a_str": "str",
    "an_int": "int",
    "float16": "float16",
    "float32": "float32",
    "float64": "float64",
    "int16": "int16",
    "int32": "int32",
    "int64": "int64",
    "int8": "int8",
    "jpeg": "jpeg",
    "jpegs": "jpeg_array",
    "json": "json",
    "list_jpeg": "list[jpeg]",
    "list_pil": "list[pil]",
    "list_png": "list[png]",
    "nd_any": "ndarray",
    "nd_fixed": "ndarray:float32:2,3",
    "nd_typed": "ndarray:int16",
    "pil": "pil",
    "png": "png",
    "str_decimal": "str_decimal",
    "str_float": "str_float",
    "str_int": "str_int",
    "uint16": "uint16",
    "uint32": "uint32",
    "uint64": "uint64",
    "uint8": "uint8",
}

#: Values of Python and NumPy that a job has in its hands, by name.
SCALARS = {
    "true": True,
    "numpy_true": np.True_,
    "int": 3,
    "int8": np.int8(3),
    "int64": np.int64(3),
    "uint16": np.uint16(3),
    "float": 2.5,
    "float_whole": 3.0,
    "float32": np.float32(2.5),
    "float64": np.float64(2.5),
    "none": None,
    "str": "3",
    "numpy_str": np.str_("3"),
    "bytes": b"3",
    "decimal": Decimal("1.50"),
    "list": [1, None, True],
    "array": np.array([1, 2], np.int16),
    "array_of_one": np.array(3),
}
SCALAR_ENCODINGS = [
    *(
        "bytes",
        "str",
        "int",
        "json",
        "str_int",
        "str_float",
        "str_decimal",
        "ndarray",
        "ndarray:int16",
    ),
    *("uint8", "int16", "uint64", "float16", "float32", "float64"),
]

EDGES = [0, 1, -1, 127, -128]


def encoded(image, format: str) -> bytes:
    """The file of an image."""
    target = io.BytesIO()
    image.save(target, format)
    return target.getvalue()


def row(number: int) -> dict:
    """One row; every value follows from its number."""
    from PIL import Image

    image = Image.new("RGB", (2, 1), (number % 256, 1, 2))
    jpeg, png = encoded(image, "JPEG"), encoded(image, "PNG")
    edge = EDGES[number % len(EDGES)]
    return {
        "a_bytes": bytes(range(number % 40)),
        "a_str": "hé\u0000\U0001f600" * (number % 3) + str(number),
        "an_int": edge * (2**56),
        "float16": 0.5 * number,
        "float32": float("nan") if number == 3 else 0.1 * number,
        "float64": float("inf") if number == 2 else 0.1 * number,
        "int16": edge * 256,
        "int32": edge * 2**24,
        "int64": edge * 2**56,
        "int8": edge,
        "jpeg": jpeg,
        "jpegs": [jpeg] * (number % 3 + 1),
        "json": {
            "b": [1, 2.5, None, 1e22, 0.1],
            "a": 'é\n"\U0001f600',
            "n": number,
            "deep": {"x": [{"y": number % 2 == 0}]},
        },
        "list_jpeg": [image] * (number % 3 + 1),
        "list_pil": [image] * (number % 3 + 1),
        "list_png": [image] * (number % 2 + 1),
        "nd_any": np.arange(1 + number % 300, dtype=np.float64).reshape(-1, 1) * 0.25,
        "nd_fixed": np.arange(6, dtype=np.float32).reshape(2, 3) + number,
        "nd_typed": (np.arange(3 * (1 + number % 2)) - number).astype(np.int16),
        "pil": image,
        "png": png,
        "str_decimal": Decimal("1.50") * number,
        "str_float": [0.1, 1e22, -2.5e-7, 1e16, 100.0][number % 5],
        "str_int": 10 ** (number % 60),
        "uint16": number % 65536,
        "uint32": 2**32 - 1 - number,
        "uint64": 2**64 - 1 - number,
        "uint8": number % 256,
    }


def write(directory: str, rows: str, compression: str, hashes: str, size_limit: str) -> None:
    """Rows of :data:`COLUMNS`."""
    from streaming import MDSWriter

    options = {
        "compression": None if compression == "none" else compression,
        "hashes": [] if hashes == "none" else hashes.split(","),
        "size_limit": int(size_limit),
    }
    first, _, end = rows.rpartition(":")
    with MDSWriter(out=directory, columns=COLUMNS, **options) as writer:
        for number in range(int(first or 0), int(end)):
            writer.write(row(number))


def plain(value):
    """A value as JSON has it."""
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if hasattr(value, "tobytes"):
        return {"mode": value.mode, "size": list(value.size), "hex": value.tobytes().hex()}
    return value


def read(directory: str) -> None:
    """All rows as one JSON line each.

    Images stay bytes: what is compared is the shard, not a decoder of images.
    """
    from streaming.base.format import reader_from_json

    index = json.loads(Path(directory, "index.json").read_text())
    for entry in index["shards"]:
        reader = reader_from_json(directory, None, entry)
        if reader.compression is not None:
            from streaming.base.compression import decompress

            zipped = Path(directory, reader.zip_data.basename)
            raw = Path(directory, reader.raw_data.basename)
            if not raw.exists():
                raw.write_bytes(decompress(reader.compression, zipped.read_bytes()))
        for number in range(len(reader)):
            print(json.dumps({name: plain(value) for name, value in reader[number].items()}))


def merge(directory: str) -> None:
    """The indexes of the directories below become one."""
    from streaming.base.util import merge_index

    merge_index(directory, keep_local=True)


def scalars(directory: str) -> None:
    """Write two equal rows of each value to ``DIRECTORY/ENCODING-VALUE``.

    Skips a value that the writer refuses.
    """
    from streaming import MDSWriter

    for encoding in SCALAR_ENCODINGS:
        for name, value in SCALARS.items():
            out = Path(directory, f"{encoding}-{name}")
            writer = MDSWriter(out=str(out), columns={"x": encoding})
            try:
                writer.encode_sample({"x": value})
            except Exception:
                out.rmdir()
            else:
                writer.write({"x": value})
                writer.write({"x": value})
                writer.finish()


if __name__ == "__main__":
    {"write": write, "read": read, "merge": merge, "scalars": scalars}[sys.argv[1]](*sys.argv[2:])
