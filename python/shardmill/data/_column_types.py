"""Column types by name: the types of ChiniDataset and the encodings of MDS."""

from __future__ import annotations

from typing import Any

from shardmill.data._cells import NUMBER_CODES, check_encoding
from shardmill.errors import OptionError

_BLOBS = (
    "bytes",
    "jpeg",
    "png",
    "pil",
    "jpeg_array",
    "jpegarray",
    "list[pil]",
    "list[jpeg]",
    "list[png]",
    "ndarray",
)
#: Arrow types of numbers and texts.
_STORED = {"int": "Int64"} | {name: name.title().replace("Ui", "UI") for name in NUMBER_CODES}
_STORED |= dict.fromkeys(("str", "string", "json", "str_int", "str_float", "str_decimal"), "Utf8")


def arrow_type(column: str, name: str) -> str:
    """Return the Arrow type for a name such as ``"str"`` or ``"ndarray:float32:2,3"``.

    Raises:
        ValueError: If the name is unknown.

    Examples:
        >>> arrow_type("ids", "uint32[]"), arrow_type("box", "ndarray:float32:2,2")
        ('List(UInt32)', 'FixedSizeList(2 x FixedSizeList(2 x Float32))')
    """
    check_encoding(column, name)
    if name.endswith("[]"):
        return f"List({arrow_type(column, name[:-2])})"
    if name == "bool":
        return "Boolean"
    if name in _BLOBS or name in _STORED:
        return mds_arrow_type(name)
    parts = name.split(":")
    if parts[0] == "ndarray" and len(parts) in (2, 3) and parts[1] in NUMBER_CODES:
        number = mds_arrow_type(parts[1])
        sizes = parts[2].split(",") if len(parts) == 3 else []
        if all(size.strip().isdigit() and int(size) > 0 for size in sizes):
            for size in reversed(sizes):
                number = f"FixedSizeList({int(size)} x {number})"
            return number if sizes else f"List({number})"
    raise OptionError(
        f"columns gives {column!r} the unknown type {name!r}\n"
        "hint: types are str, bytes, bool, int, int8 to uint64, float16 to float64, "
        "these with [] for lists, json, jpeg, png, ndarray:float32:2,3"
    )


def mds_encoding(column: str, name: str) -> str:
    """Return the MDS encoding for a type name of either library.

    Raises:
        ValueError: If it is not a string.
    """
    check_encoding(column, name)
    if name.endswith("[]"):
        return "json" if name[:-2] not in NUMBER_CODES else f"ndarray:{name[:-2]}"
    return {"string": "str", "bool": "uint8"}.get(name, name)


def mds_arrow_type(encoding: str) -> str:
    """Return the Arrow type to which Python values of an MDS encoding are converted first.

    Arrays, images and JSON are encoded in Python and pass unchanged.
    """
    return _STORED.get(encoding, "Binary")


def encoding_of_type(data_type: Any) -> str:
    """Return the name of an Arrow type in a ChiniDataset index."""
    import pyarrow as pa

    types = pa.types
    if (
        types.is_list(data_type)
        or types.is_large_list(data_type)
        or types.is_fixed_size_list(data_type)
    ):
        return f"ndarray:{encoding_of_type(data_type.value_type)}"
    if (
        types.is_string(data_type)
        or types.is_large_string(data_type)
        or str(data_type) == "string_view"
    ):
        return "str"
    if "binary" in str(data_type):
        return "bytes"
    names = {"float": "float32", "double": "float64", "halffloat": "float16"}
    return names.get(str(data_type), str(data_type))
