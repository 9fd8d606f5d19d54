"""The columns of a writer: names, types, and the conversion of their values to bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shardmill._native import write as _native
from shardmill._option_values import checked_schema, listed
from shardmill.data._cells import (
    Cell,
    encoding_of,
    is_media,
    mds_cell,
    mds_json,
    media_bytes,
    webdataset_cell,
    without_torch,
)
from shardmill.data._column_types import arrow_type, mds_arrow_type, mds_encoding
from shardmill.errors import OptionError
from shardmill.write._json_lists import JsonLists
from shardmill.write._media import (
    MEDIA_ENCODINGS,
    MEDIA_FORMATS,
    extension_of,
    mds_encoding_of,
    members_of,
    stored_stream,
    without_bytes,
)
from shardmill.write._row_batches import RowBatches, refuse_names


class WrittenColumns:
    """The meaning of ``columns`` and ``schema``.

    Args:
        format: format of the files.
        columns: names, or types by name.
        schema: Arrow schema.

    Raises:
        ValueError: If they are not valid for the format.
    """

    def __init__(
        self, format: str, columns: Sequence[str] | Mapping[str, str] | None, schema: Any
    ) -> None:
        self._format = format
        types = dict(columns) if isinstance(columns, Mapping) else None
        if isinstance(columns, Mapping) or columns is None:
            self.names = None if types is None else list(types)
        else:
            self.names = listed("columns", columns)
        if self.names is not None and not self.names:
            raise OptionError(
                "columns is empty, so nothing would be written\n"
                "hint: omit columns to write all of them"
            )
        #: MDS encodings by column; ``None`` if they are inferred from the first rows.
        self.encodings: dict[str, str] | None = None
        self.cells: dict[str, Cell] = {}
        #: Columns that are alternatives of one another: a file within a row is stored in the column
        #: of its extension.
        self.alternatives: frozenset[str] = frozenset()
        #: By media column, the member for each extension.
        self._members: dict[str, dict[str | None, str]] = {}
        #: Columns of rows given as Python objects.
        self.schema: Any = schema
        checked_schema("schema", schema)
        if format == "arrayrecord":
            self._check_record(schema)
        if types is not None:
            if schema is not None:
                raise OptionError(
                    "the types are given twice: by columns and by schema\n"
                    "hint: pass only one of them"
                )
            self._take_types(types)

    @property
    def file_schema(self) -> Any:
        """The schema of the files, if it was given."""
        return self.schema if self._format == "parquet" else None

    def stored(self, schema: Any, parts: Iterable[Any]) -> tuple[Any, Iterable[Any]]:
        """Return the schema and the parts of an Arrow stream as the format stores them."""
        if self._format not in MEDIA_FORMATS:
            return schema, parts
        if self._format == "webdataset":
            # Columns that are selected have their own names.
            others = self.names or ()
        else:
            others = [
                name
                for name, encoding in (self.encodings or {}).items()
                if encoding not in MEDIA_ENCODINGS
            ]
        schema, parts, self.alternatives = stored_stream(schema, parts, self._format, others=others)
        return schema, parts

    def with_members(self, row: dict[str, Any], batches: RowBatches, number: int) -> dict[str, Any]:
        """Return a row for WebDataset with a member in place of each file within the row.

        Raises:
            ValueError: If a file has a path, but no bytes.
        """
        found = [name for name, value in row.items() if type(value) is dict and is_media(value)]
        if not found or self.names is not None:
            return row
        for name in found:
            if name not in self._members:
                self._members[name] = members_of(name, row, is_alone=len(found) == 1)
                self.alternatives |= frozenset(self._members[name].values())
        batches.binaries |= self.alternatives
        stored = {}
        for name, value in row.items():
            if name in found:
                members, content, path = self._members[name], value["bytes"], value["path"]
                if content is None and path is not None:
                    raise without_bytes(number, name, path)
                name, value = (
                    members.get(extension_of(content or b"", path), members[None]),
                    content,
                )
            stored[name] = value
        return stored

    def learn(self, values: Mapping[str, Any], batches: RowBatches) -> None:
        """Find the columns whose values Arrow cannot store directly, by the first values of each.

        Raises:
            ValueError: If a name is not a string.
        """
        batches.refuse_other_names(values)
        if self._format not in ("mds", "webdataset"):
            return
        for name in values if self.names is None else self.names:
            if name in batches.cells or name not in values:
                continue
            if self._format == "webdataset":
                cell = webdataset_cell(name)
            else:
                first = without_torch(
                    next((value for value in values[name] if value is not None), None)
                )
                encoding = encoding_of(first)
                cell = None if encoding is None else mds_cell(encoding)
                if is_media(first):
                    cell, encoding = media_bytes, mds_encoding_of(media_bytes(first), first["path"])
                if cell is not None:
                    batches.metadata[name] = {"mds.encoding": str(encoding)}
            if cell is not None:
                batches.cells[name] = cell

    def _check_record(self, schema: Any) -> None:
        if schema is not None:
            raise OptionError(
                "schema is for formats with columns; ArrayRecord has one column of bytes"
            )
        if self.names is not None and len(self.names) != 1:
            raise OptionError(
                f"ArrayRecord has one column, and columns names {len(self.names)}\n"
                "hint: pick one, or write Parquet"
            )

    def _take_types(self, types: dict[str, str]) -> None:
        if self._format == "mds":
            self.encodings = {name: mds_encoding(name, of) for name, of in types.items()}
            fields = [(name, mds_arrow_type(encoding)) for name, encoding in self.encodings.items()]
            self._take_cells(self.encodings)
            self._take_lists(types)
        elif self._format == "parquet":
            fields = [(name, arrow_type(name, of)) for name, of in types.items()]
            # Arrow has its own lists of numbers.
            self._take_cells(
                {name: of for name, of in types.items() if not of.startswith("ndarray:")}
            )
        else:
            raise OptionError(
                f"columns with types are for MDS and Parquet, not for {self._format}\n"
                "hint: pass names, or schema="
            )
        self.schema = _native.schema(fields)
        refuse_names(self.schema)

    def _take_cells(self, encodings: Mapping[str, str]) -> None:
        for name, encoding in encodings.items():
            cell = mds_cell(encoding)
            if cell is not None:
                self.cells[name] = cell

    def _take_lists(self, types: Mapping[str, str]) -> None:
        """Lists that MDS stores as JSON have items of one type."""
        for name, of in types.items():
            if of.endswith("[]") and self.cells.get(name) is mds_json:
                self.cells[name] = JsonLists(_native.schema([(name, arrow_type(name, of))]))
