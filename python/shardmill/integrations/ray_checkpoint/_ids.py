"""Checks ids when rows are read and when they are written, from the first run on.

Invariant: no record holds ids that a later run could not load or compare with the ids that it
reads. Tasks may see types in any order. So each task writes a file named after the type that it has
seen, and then reads the files of the others: of two tasks with different types, at least one sees
both.
"""

from __future__ import annotations

import posixpath
import uuid
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote, unquote

import pyarrow as pa
from pyarrow.fs import FileSelector, FileSystem, FileType
from ray.data.checkpoint import CheckpointConfig

from shardmill._native import resume as _native
from shardmill.data._type_names import type_name
from shardmill.errors import FormatError, IdTypeError, MissingColumnError

_CAST = "cast one of them, so that rows are read and written with ids of one type"


@dataclass(frozen=True)
class IdCheck:
    """The rules for ids; they are sent to the workers.

    Attributes:
        column: name of the id column.
        allows_nulls: whether rows may lack an id.
        filesystem: file system of the checkpoint.
        directory: where tasks record the types that they have seen; without it, only the blocks
            themselves are checked.
    """

    column: str
    allows_nulls: bool
    filesystem: FileSystem | None = None
    directory: str | None = None

    @classmethod
    def of(cls, config: CheckpointConfig, directory: str | None = None) -> IdCheck:
        """The rules of a job. Ray's own config has no option for nulls."""
        allows_nulls = getattr(config, "null_ids", "raise") == "always_process"
        return cls(str(config.id_column), allows_nulls, config.filesystem, directory)

    def check_type(self, schema: pa.Schema, place: str) -> None:
        """Check the id column of a file or a block, which is called ``place`` in messages.

        Raises:
            MissingColumnError: If the column is missing.
            IdTypeError: If its type is not supported for ids, or differs from that of earlier ids.
        """
        if self.column not in schema.names:
            columns = ", ".join(f"`{name}`" for name in schema.names)
            raise MissingColumnError(
                f"No id column `{self.column}` in {place}; the columns are {columns}"
            )
        field = schema.field(self.column)
        if pa.types.is_null(field.type):
            # All ids are null, which is checked separately.
            return
        _agree(self, _id_type(field, place), place)

    def check(self, table: pa.Table, place: str, first_row: int = 0) -> None:
        """Check the ids of a block, whose first row has the index ``first_row`` in ``place``.

        Raises:
            MissingColumnError: See ``check_type``.
            IdTypeError: See ``check_type``.
            FormatError: If a row has no id, but nulls are not allowed.
        """
        self.check_type(table.schema, place)
        ids = table[self.column]
        if ids.null_count and not self.allows_nulls:
            row = first_row + ids.is_null().index(True).as_py()
            hint = 'null_ids="always_process" always processes rows without an id'
            raise FormatError(
                f"Id column `{self.column}` is null in row {row} of {place}\nhint: {hint}"
            )

    def seed(self, id_type: str) -> None:
        """Record the type of the ids of earlier runs."""
        _note(self, id_type, "the checkpoint")


def _id_type(field: pa.Field, place: str) -> str:
    if isinstance(field.type, pa.ExtensionType):
        # For example pickled Python objects, whose bytes may differ for equal values.
        problem = (
            f"Ids of column `{field.name}` are {type_name(field.type)}, which cannot identify a row"
        )
        hint = (
            "an id must be an integer of at most 64 bits, a string, bytes, a date or time, "
            "a decimal or a bool; cast the column"
        )
        raise IdTypeError(f"{problem}, in {place}\nhint: {hint}")
    try:
        return _known_type(field.name, field.type)
    except IdTypeError as error:
        problem, _, hint = str(error).partition("\n")
        raise IdTypeError(f"{problem}, in {place}\n{hint}") from None


@lru_cache(maxsize=64)
def _known_type(name: str, data_type: pa.DataType) -> str:
    return _native.id_type(pa.schema([(name, data_type)]), name)


_TYPE = ".id_type"
# Directories and types; they differ from run to run.
_agreed: set[tuple[str, str]] = set()


def _agree(check: IdCheck, found: str, place: str) -> None:
    filesystem, directory = check.filesystem, check.directory
    if filesystem is None or directory is None or (directory, found) in _agreed:
        return
    own = _note(check, found, place)
    for info in filesystem.get_file_info(FileSelector(directory, allow_not_found=True)):
        if not info.base_name.endswith(_TYPE) or info.path == own:
            continue
        with filesystem.open_input_file(info.path) as file:
            other = f"{unquote(info.base_name.removesuffix(_TYPE))} in {file.read().decode()}"
        raise IdTypeError(
            f"Ids of column `{check.column}` are {found} in {place} and {other}\nhint: {_CAST}"
        )
    _agreed.add((directory, found))


def _note(check: IdCheck, id_type: str, place: str) -> str:
    assert check.filesystem is not None
    assert check.directory is not None
    path = posixpath.join(check.directory, quote(id_type, safe="") + _TYPE)
    if check.filesystem.get_file_info(path).type == FileType.NotFound:
        # Other tasks never see a file before its place is in it.
        unfinished = f"{path}.{uuid.uuid4().hex}"
        with check.filesystem.open_output_stream(unfinished) as file:
            file.write(place.encode())
        check.filesystem.move(unfinished, path)
    return path
