"""The compiled module. Its public face is the rest of the package."""

from shardmill._native import (
    arrayrecord,
    check,
    columns,
    curate,
    formats,
    images,
    journal,
    load,
    packing,
    pixels,
    plan,
    resume,
    storage,
    tokens,
    write,
)

__all__ = [
    "__version__",
    "arrayrecord",
    "check",
    "columns",
    "curate",
    "formats",
    "images",
    "is_optimized",
    "journal",
    "load",
    "packing",
    "pixels",
    "plan",
    "resume",
    "storage",
    "tokens",
    "write",
]

__version__: str
is_optimized: bool
