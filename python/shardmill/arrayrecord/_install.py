"""Redirects imports of ``array_record`` to shardmill."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, cast

from shardmill.arrayrecord import _data_source as data_source
from shardmill.arrayrecord import _reader, _writer


def install_as_array_record() -> None:
    """Make ``import array_record`` in this process use these classes, with ``strict=False``.

    Grain and TFDS then read with them. Call it before the first import of any package that imports
    ``array_record``. Spawned worker processes must call it as well.

    Raises:
        RuntimeError: If the original was already imported, because its classes may be in use.

    Examples:
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
            "array_record was already imported\n"
            "hint: call install_as_array_record() before grain or array_record is imported"
        )
    package, python = _package("array_record"), _package("array_record.python")
    module = ModuleType(
        "array_record.python.array_record_module",
        "Reader and writer of shardmill, under the name of array_record.",
    )
    source = ModuleType(
        "array_record.python.array_record_data_source",
        "The data source of shardmill, under the name of array_record.",
    )
    vars(module).update(ArrayRecordReader=ArrayRecordReader, ArrayRecordWriter=ArrayRecordWriter)
    names = (
        *("ArrayRecordDataSourcePaths", "FileInstruction", "PathLikeOrFileInstruction"),
        *("_check_group_size", "_run_in_parallel"),
    )
    vars(source).update({name: getattr(data_source, name) for name in names})
    vars(source).update(ArrayRecordDataSource=ArrayRecordDataSource, array_record_module=module)
    # What sources that the original has pickled ask for.
    vars(source)["_ReadInstruction"] = data_source.ReadInstruction
    vars(package).update(python=python, __shardmill__=True)
    vars(python).update(array_record_module=module, array_record_data_source=source)
    for made in (package, python, module, source):
        made.__spec__ = ModuleSpec(made.__name__, None, is_package=made in (package, python))
        sys.modules[made.__name__] = made


class _Lenient:
    def __init__(self, path: Any, options: str = "", **arguments: Any) -> None:
        cast(Any, super()).__init__(path, options, **{"strict": False, **arguments})


class ArrayRecordReader(_Lenient, _reader.ArrayRecordReader):
    """Create a failed reader for an unreadable file, and raise when it is read."""


class ArrayRecordWriter(_Lenient, _writer.ArrayRecordWriter):
    """Create a failed writer for an unwritable file, and raise when it is written to."""


class ArrayRecordDataSource(data_source.ArrayRecordDataSource):
    """Accept any range until it is read."""

    _is_strict_by_default = False


def _package(name: str) -> ModuleType:
    package = ModuleType(name, "Provided by shardmill.")
    package.__path__ = []
    return package
