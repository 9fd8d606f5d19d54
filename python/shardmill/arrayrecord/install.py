"""Serving programs that import ``array_record``."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from shardmill.arrayrecord import data_source
from shardmill.arrayrecord.data_source import ArrayRecordDataSource
from shardmill.arrayrecord.reader import ArrayRecordReader
from shardmill.arrayrecord.writer import ArrayRecordWriter


def install_as_array_record() -> None:
    """From now on, ``import array_record`` in this process finds these classes, with ``strict=False``: Grain and TFDS read through them.

    Call it before the first import of what imports ``array_record``; worker processes that are spawned have to call it as well.

    Raises:
        RuntimeError: when the original was imported already, so that somebody may hold its classes.

    Example:
        >>> from shardmill.arrayrecord import install_as_array_record
        >>> install_as_array_record()
        >>> from array_record.python.array_record_module import ArrayRecordReader
        >>> ArrayRecordReader("missing.array_record").ok()
        False
    """
    present = sys.modules.get("array_record")
    if present is not None:
        if getattr(present, "__shardmill__", False):
            return
        raise RuntimeError(
            "array_record was imported already\nhint: call install_as_array_record() before grain or array_record is imported"
        )
    package, python = _package("array_record"), _package("array_record.python")
    module = ModuleType(
        "array_record.python.array_record_module", "Reader and writer of shardmill, under the name of array_record."
    )
    source = ModuleType(
        "array_record.python.array_record_data_source", "The data source of shardmill, under the name of array_record."
    )
    _fill(module, {"ArrayRecordReader": _Reader, "ArrayRecordWriter": _Writer})
    names = (
        "ArrayRecordDataSourcePaths",
        "FileInstruction",
        "PathLikeOrFileInstruction",
        "_check_group_size",
        "_run_in_parallel",
    )
    _fill(source, {name: getattr(data_source, name) for name in names})
    # The last is what sources that the original has pickled ask for.
    _fill(
        source,
        {
            "ArrayRecordDataSource": _DataSource,
            "array_record_module": module,
            "_ReadInstruction": data_source.ReadInstruction,
        },
    )
    _fill(package, {"python": python, "__shardmill__": True})
    _fill(python, {"array_record_module": module, "array_record_data_source": source})
    for made in (package, python, module, source):
        made.__spec__ = ModuleSpec(made.__name__, None, is_package=made in (package, python))
        sys.modules[made.__name__] = made


class _Reader(ArrayRecordReader):
    """Opens what cannot be read, and says so when it is read."""

    def __init__(self, path: Any, options: str = "", **arguments: Any) -> None:
        arguments.setdefault("strict", False)
        super().__init__(path, options, **arguments)


class _Writer(ArrayRecordWriter):
    """Opens what cannot be written, and says so when it is written."""

    def __init__(self, path: Any, options: str = "", **arguments: Any) -> None:
        arguments.setdefault("strict", False)
        super().__init__(path, options, **arguments)


class _DataSource(ArrayRecordDataSource):
    """Believes in ranges until they are read."""

    _is_strict_by_default = False


for _served, _name in (
    (_Reader, "ArrayRecordReader"),
    (_Writer, "ArrayRecordWriter"),
    (_DataSource, "ArrayRecordDataSource"),
):
    _served.__name__ = _name


def _package(name: str) -> ModuleType:
    package = ModuleType(name, "Served by shardmill.")
    package.__path__ = []
    return package


def _fill(module: ModuleType, names: dict[str, Any]) -> None:
    for name, value in names.items():
        setattr(module, name, value)
