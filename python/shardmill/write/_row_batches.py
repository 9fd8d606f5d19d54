"""Converts rows of Python objects to Arrow batches with pyarrow, if their values are not plain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, NoReturn

from shardmill._native import write as _native
from shardmill.data._cells import Cell, mds_json, without_torch
from shardmill.data._type_names import type_name
from shardmill.errors import FormatError, MissingColumnError
from shardmill.write._arrow_values import (
    diagnosis,
    first_misfit,
    misfit_text,
    misfits,
    nested,
    number_of,
    pyarrow_of_rows,
    type_of_arrays,
    unmasked,
    with_passed_bytes,
)
from shardmill.write._exact_values import BINARIES, TEXTS, first_changed, first_of_other_kind
from shardmill.write._json_lists import JsonLists

_CELL_HINT = "convert the value, or pass its encoded bytes"


class RowBatches:
    """Batches of one schema: the given one, or that of the first rows.

    Args:
        columns: the columns that are taken from each row; all by default.
        schema: Arrow schema of the columns.
        cells: by column, the converter of values without an Arrow type to bytes or strings.
        is_mds: take what MosaicML's writer takes: bools as 0 and 1 in columns of numbers, and
            ``None`` in columns of JSON.
        is_exact: whether rows must not have other columns.
        has_types: whether the format takes ``columns=`` with types.
        takes_bytes: whether strings may be given as their bytes.
        has_tokens: whether lists that are all empty in the first rows are lists of integers.
    """

    def __init__(
        self,
        columns: Sequence[str] | None,
        schema: Any,
        cells: Mapping[str, Cell] | None = None,
        *,
        is_mds: bool = False,
        is_exact: bool = False,
        has_types: bool = True,
        takes_bytes: bool = False,
        has_tokens: bool = False,
    ) -> None:
        self._columns = columns
        self._has_tokens = has_tokens
        self._given = schema
        self._schema: Any = None
        self.cells = dict(cells or {})
        self._is_mds = is_mds
        self._takes_bytes = takes_bytes
        self._types_hint = "pass schema=, or columns= with types" if has_types else "pass schema="
        #: Maximum number of columns of a row; 0 means no limit.
        self.most_columns = len(columns) if is_exact and columns is not None else 0
        #: Metadata of fields, for the schema inferred from the first rows.
        self.metadata: dict[str, dict[str, str]] = {}
        #: Columns of bytes that the first rows may lack.
        self.binaries: frozenset[str] = frozenset()

    @property
    def selects(self) -> bool:
        """Whether rows may have more columns than are selected."""
        return self._columns is not None

    @property
    def schema(self) -> Any:
        """Schema of all batches with its ``names``, as far as it is known.

        Its columns are ``columns``, in this order.
        """
        if self._schema is None and self._given is not None:
            has_names = isinstance(getattr(self._given, "names", None), list)
            self._schema = self._given if has_names else pyarrow_of_rows().schema(self._given)
            refuse_names(self._schema)
        return self._schema

    @property
    def _known(self) -> Any:
        """``schema`` as that of pyarrow."""
        arrow, known = pyarrow_of_rows(), self.schema
        if known is not None and not isinstance(known, arrow.Schema):
            self._schema = known = arrow.schema(known)
        return known

    def _type(self, name: str) -> Any:
        known = self._known
        return None if known is None else known.field(name).type

    def learn(self, schema: Any) -> None:
        """Use the schema of Arrow input, unless a schema is known."""
        if self.schema is None:
            known = pyarrow_of_rows().schema(schema)
            refuse_names(known)
            self._schema = known if self._columns is None else _selected(known, self._columns)

    def learn_rows(self, rows: list[dict[str, Any]], *, first_row: int) -> None:
        """Find the schema of the first rows.

        That of plain values is found without importing pyarrow.

        Raises:
            ValueError: If a column has values of several types, or one without a type.
        """
        if self.schema is not None:
            return
        names = self._names(rows)
        known = _native.plain_schema(rows, names, self.metadata, self.binaries)
        if known is None:
            arrays = {
                name: self._converted(name, [row.get(name) for row in rows], first_row)
                for name in names
            }
            known = self._schema_of(arrays)
        known = self._with_items(known)
        refuse_names(known)
        self._schema = known

    def of_columns(self, columns: Mapping[str, Any], *, first_row: int) -> Any:
        """Return a record batch of columns by name, or a table if a column has several chunks.

        Raises:
            ValueError: If the schema lacks a column, or a value does not fit its column.
            KeyError: If it lacks one of the columns to write.
        """
        self.refuse_other_names(columns)
        if self._columns is not None:
            self._check_selected(columns, self._columns, "the batch")
            columns = {name: columns[name] for name in self._columns}
        columns = {
            name: [
                self.cell(name, value, first_row + number) for number, value in enumerate(values)
            ]
            if name in self.cells
            else values
            for name, values in (
                (name, column_values(name, values)) for name, values in columns.items()
            )
        }
        return self._batch(columns, first_row)

    def check(self, row: Mapping[str, Any], number: int) -> None:
        """Reject a row with other columns.

        Raises:
            ValueError: If the schema lacks a column.
            KeyError: If the row lacks one of the columns to write.
        """
        if self._columns is not None:
            self._check_selected(row, self._columns, f"row {number}")
            return
        names = self._names(())
        other = next((name for name in row if name not in names), None)
        if other is not None:
            raise FormatError(
                f"row {number} has a column {other!r} "
                f"that is not among those of the file: {', '.join(names) or 'none'}\n"
                "hint: pass schema=, or columns="
            )

    def refuse(self, row: Mapping[str, Any], number: int) -> NoReturn:
        """Raise an error for a row with other columns, as ``check`` does."""
        self.check(row, number)
        # If it finds nothing, the row must not be lost silently.
        raise FormatError(
            f"row {number} lacks columns of the file: it has {', '.join(map(str, row))}"
        )

    def _check_selected(self, row: Mapping[str, Any], names: Sequence[str], what: str) -> None:
        _check_columns(row, names, what)
        if (
            self.most_columns
            and (other := next((name for name in row if name not in names), None)) is not None
        ):
            raise FormatError(
                f"{what} has a column {other!r} that is not among columns=: {', '.join(names)}\n"
                "hint: add its type to columns, or remove it from the rows"
            )

    def refuse_other_names(self, columns: Mapping[Any, Any]) -> None:
        """Reject columns whose names are not strings, if all columns are taken.

        Raises:
            ValueError: If there is one.
        """
        if self._columns is not None:
            return
        for name in columns:
            if not isinstance(name, str):
                raise FormatError(
                    f"the name of column {name!r} has the Python type {type(name).__name__}, "
                    "but names of columns must be strings\n"
                    f"hint: write {str(name)!r}"
                )

    def cell(self, name: str, value: Any, row: int | Callable[[], int]) -> Any:
        """Return the stored form of ``value`` in the column, if it differs from the value itself.

        Args:
            name: the column.
            value: the value.
            row: the number of its row, or a function that returns it, which is called for an error
                only.

        Raises:
            ValueError: If the value cannot be encoded.
        """
        cell = self.cells[name]
        is_null = value is None and not (
            self._is_mds and (cell is mds_json or isinstance(cell, JsonLists))
        )
        if is_null or isinstance(value, bytes | bytearray | memoryview):
            return value
        try:
            return cell(without_torch(value))
        except (TypeError, ValueError, AttributeError, OverflowError, OSError) as error:
            number = row if isinstance(row, int) else row()
            raise FormatError(
                misfit_text(number, name, value, f"cannot be encoded: {error}", _CELL_HINT)
            ) from error

    def with_cells(self, row: Mapping[str, Any], number: Callable[[], int]) -> dict[str, Any]:
        """Return the row with the stored forms of its values.

        ``number`` returns its number, and is called for an error only.
        """
        cells = {name: self.cell(name, row[name], number) for name in self.cells if name in row}
        return {**row, **cells}

    def array(self, name: str, values: Sequence[Any], first_row: int) -> Any:
        """Return the values of a few rows as one array of the type of the column.

        Raises:
            ValueError: If a value does not fit, or they exceed what one array can hold. The message
                names row and column.
        """
        array = self._converted(name, values, first_row)
        arrow = pyarrow_of_rows()
        if not isinstance(array, arrow.ChunkedArray):
            return array
        try:
            return array.combine_chunks()
        except arrow.ArrowInvalid as error:
            raise FormatError(
                f"the values of column {name!r} in {len(values):,} rows "
                f"from row {first_row} on exceed 2 GiB: {error}\n"
                "hint: pass schema= with the type large_string or large_binary for the column, "
                "or split the values"
            ) from error

    def _converted(self, name: str, values: Sequence[Any], first_row: int) -> Any:
        """See ``array``; the array has several chunks if the values exceed one."""
        arrow = pyarrow_of_rows()
        data_type = self._type(name)
        if data_type is None and name in self.binaries:
            data_type = arrow.binary()
        if self._is_mds and self._given is not None:
            values = with_passed_bytes(values, data_type)
        values = unmasked(values)
        plain = values
        try:
            array = arrow.array(values, type=data_type)
        except misfits(arrow):
            plain, array = self._plain_array(name, values, first_row)
        if data_type is None and name not in self.cells and not self._takes_bytes:
            self._refuse_other_kind(name, values, first_row)
        changed = None if self._takes_as_bytes(name, array.type) else first_changed(plain, array)
        if changed is not None:
            is_other = str(array.type) in (*TEXTS, *BINARIES)
            name_of = type_name(array.type)
            reason = f"is not of type {name_of}" if is_other else f"{name_of} cannot hold exactly"
            raise FormatError(
                misfit_text(first_row + changed, name, values[changed], reason, self._hint)
            )
        return array

    def _takes_as_bytes(self, name: str, data_type: Any) -> bool:
        """Whether the column takes strings and binaries alike."""
        taken = TEXTS if self._is_mds else (*TEXTS, *BINARIES)
        return name in self.cells or (self._takes_bytes and str(data_type) in taken)

    def _refuse_other_kind(self, name: str, values: Sequence[Any], first_row: int) -> None:
        place = first_of_other_kind(values)
        if place is not None:
            reason = (
                "is of another type than the values before it: "
                "a column holds either strings or binaries"
            )
            hint = "encode the strings to bytes, or decode the binaries"
            raise FormatError(misfit_text(first_row + place, name, values[place], reason, hint))

    def _plain_array(
        self, name: str, values: Sequence[Any], first_row: int
    ) -> tuple[Sequence[Any], Any]:
        """Convert values that pyarrow does not take as they are, such as tensors.

        Return them in a form that it takes, and their array.
        """
        arrow = pyarrow_of_rows()
        data_type = self._type(name)
        is_number = data_type is not None and (
            arrow.types.is_integer(data_type) or arrow.types.is_floating(data_type)
        )
        plain = list(values)
        try:
            plain = list(map(without_torch, values))
            data_type = data_type or type_of_arrays(arrow, plain)
            plain = [
                number_of(value, has_bools=self._is_mds) if is_number else nested(value)
                for value in plain
            ]
            return plain, arrow.array(plain, type=data_type)
        except misfits(arrow) as error:
            place = first_misfit(arrow, plain, data_type)
            reason, hint = diagnosis(plain, place, values[place], data_type, error)
            text = misfit_text(
                first_row + place, name, values[place], f"{reason}: {error}", hint or self._hint
            )
            raise FormatError(text) from error

    @property
    def _hint(self) -> str:
        if self._given is None:
            return self._types_hint
        return (
            "convert the values to the type of the column, or change the type; "
            "check whether two columns are swapped"
        )

    def _names(self, rows: Sequence[Mapping[str, Any]]) -> Sequence[str]:
        if self._columns is not None:
            return self._columns
        schema = self.schema
        if schema is not None:
            return schema.names
        names = list(
            dict.fromkeys(chain((name for row in rows for name in row), sorted(self.binaries)))
        )
        if rows and not names:
            raise FormatError(f"the first rows have no columns\nhint: {self._types_hint}")
        return names

    def _batch(self, columns: dict[str, Any], first_row: int) -> Any:
        arrow = pyarrow_of_rows()
        schema = self._known
        if schema is not None and set(schema.names) != set(columns):
            raise FormatError(
                f"the columns are {', '.join(columns)}, "
                f"but those of the file are {', '.join(schema.names)}\n"
                "hint: select some of them with columns="
            )
        names = list(columns) if schema is None else schema.names
        arrays = [self._column(name, columns[name], first_row) for name in names]
        lengths = {name: len(array) for name, array in zip(names, arrays, strict=True)}
        if len(set(lengths.values())) > 1:
            raise FormatError(f"the columns have {lengths} values, but must have equal lengths")
        if schema is None:
            schema = self._with_items(self._schema_of(dict(zip(names, arrays, strict=True))))
            refuse_names(schema)
            arrays = [array.cast(of) for array, of in zip(arrays, schema.types, strict=True)]
            self._schema = schema
        if any(isinstance(array, arrow.ChunkedArray) for array in arrays):
            return arrow.Table.from_arrays(arrays, schema=schema)
        return arrow.RecordBatch.from_arrays(arrays, schema=schema)

    def _schema_of(self, arrays: Mapping[str, Any]) -> Any:
        arrow = pyarrow_of_rows()
        return arrow.schema(
            [
                arrow.field(name, array.type, metadata=self.metadata.get(name))
                for name, array in arrays.items()
            ]
        )

    def _with_items(self, schema: Any) -> Any:
        """Return the schema with integers in lists of tokens that had no items."""
        if not self._has_tokens:
            return schema
        arrow = pyarrow_of_rows()
        empty, tokens = arrow.list_(arrow.null()), arrow.list_(arrow.int64())
        fields = arrow.schema(schema)
        return arrow.schema(
            [field.with_type(tokens) if field.type == empty else field for field in fields],
            metadata=fields.metadata,
        )

    def _column(self, name: str, values: Any, first_row: int) -> Any:
        arrow = pyarrow_of_rows()
        if not isinstance(values, arrow.Array | arrow.ChunkedArray):
            return self._converted(name, values, first_row)
        if isinstance(values, arrow.ChunkedArray) and (values.num_chunks == 1 or len(values) == 0):
            # A table without rows would be no batch at all.
            values = values.combine_chunks()
        data_type = self._type(name)
        if data_type is None or values.type == data_type:
            return values
        return self._converted(name, values.to_pylist(), first_row)


def column_values(name: str, values: Any) -> Any:
    """Return the values of a column of a batch.

    Raises:
        TypeError: If it is one string or binary rather than several values.
    """
    values = without_torch(values)
    if isinstance(values, str | bytes | bytearray | memoryview) or getattr(values, "ndim", 1) == 0:
        raise TypeError(
            f"column {name!r} of the batch must be a list of values, not {type(values).__name__}\n"
            "hint: pass a list, or write one row with write()"
        )
    return values


def refuse_names(schema: Any) -> None:
    """Reject duplicate column names, and names of columns and nested fields that contain NUL.

    Columns are selected by name, and the Arrow C interface truncates names at NUL.

    Raises:
        ValueError: If the schema has such a name.
    """
    names = schema.names
    if len(set(names)) < len(names):
        twice = next(name for number, name in enumerate(names) if name in names[:number])
        raise FormatError(f"two columns have the name {twice!r}\nhint: rename one of them")
    # Native schemas have no other names that contain it.
    is_native = not hasattr(schema, "to_string")
    told = (
        "\n".join(names)
        if is_native
        else schema.to_string(show_field_metadata=False, show_schema_metadata=False)
    )
    if "\0" in told:
        line = next(line for line in told.splitlines() if "\0" in line)
        raise FormatError(f"the name of a column contains a NUL character: {line.strip()!r}")


def _selected(schema: Any, columns: Sequence[str]) -> Any:
    _check_columns(dict.fromkeys(schema.names), columns, "the batch")
    return pyarrow_of_rows().schema([schema.field(name) for name in columns])


def _check_columns(row: Mapping[str, Any], names: Sequence[str], what: str) -> None:
    for name in names:
        if name not in row:
            raise MissingColumnError(
                f"{what} has no column {name!r}; it has {', '.join(map(str, row)) or 'none'}"
            )


def row_mapping(row: Any, format: str) -> dict[str, Any]:
    """Return the values of a row by column.

    Raises:
        TypeError: If it is not a mapping.
    """
    if not isinstance(row, Mapping):
        raise TypeError(
            f"a row of {format} must be a mapping of column to value, not {type(row).__name__}\n"
            "hint: write takes one row, write_rows a list of rows, and write_batch columns"
        )
    return dict(row)
