"""The compiled module. Its public face is the rest of the package."""

from shardmill._native import curate, formats, images, inspect, plan, verify

__all__ = ["__version__", "curate", "formats", "images", "inspect", "is_optimized", "plan", "verify"]

__version__: str
is_optimized: bool
