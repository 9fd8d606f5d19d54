"""The compiled module. Its public face is the rest of the package."""

from shardmill._native import (
    arrayrecord,
    columns,
    curate,
    formats,
    images,
    inspect,
    journal,
    load,
    packing,
    pixels,
    plan,
    resume,
    storage,
    tokens,
    verify,
    write,
)

__all__ = [
    "__version__",
    "arrayrecord",
    "columns",
    "curate",
    "formats",
    "images",
    "inspect",
    "is_optimized",
    "journal",
    "load",
    "packing",
    "pixels",
    "plan",
    "resume",
    "storage",
    "tokens",
    "verify",
    "write",
]

__version__: str
is_optimized: bool
