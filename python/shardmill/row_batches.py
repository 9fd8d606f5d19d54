"""Rows as Python objects become Arrow batches, through pyarrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shardmill.cells import Cell
from shardmill.errors import FormatError, MissingColumnError
from shardmill.exact_values import first_changed

_SHOWN_LENGTH = 60


class RowBatches:
    """Batches of one schema: the one that is given, or that of the first rows.

    Args:
        columns: those that are taken of each row; all when ``None``.
        schema: Arrow schema of the columns.
        cells: by column, what makes bytes or text of values that Arrow has no type for.
    """

    def __init__(self, columns: Sequence[str] | None, schema: Any, cells: Mapping[str, Cell] | None = None) -> None:
        self._columns = columns
        self._given = schema
        self._schema: Any = None
        self.cells = dict(cells or {})
        #: Of fields, for the schema that the first rows tell.
        self.metadata: dict[str, dict[str, str]] = {}

    @property
    def selects(self) -> bool:
        """Whether rows may have more columns than are taken."""
        return self._columns is not None

    @property
    def schema(self) -> Any:
        """That of all batches, as far as it is known; its columns are those of ``columns``, in their order."""
        if self._schema is None and self._given is not None:
            self._schema = _pyarrow().schema(self._given)
            refuse_nul(self._schema)
        return self._schema

    def learn(self, schema: Any) -> None:
        """Takes the schema of data that came as Arrow data, unless one is known."""
        if self.schema is None:
            known = _pyarrow().schema(schema)
            refuse_nul(known)
            self._schema = known if self._columns is None else _selected(known, self._columns)

    def of_rows(self, rows: Sequence[Mapping[str, Any]], *, first_row: int) -> Any:
        """A record batch; a column that a row lacks is null there.

        Raises:
            ValueError: for a column that the schema lacks, and for values that do not fit a column.
            KeyError: for a row without one of ``columns``.
        """
        names = self._names(rows)
        for number, row in enumerate(rows, first_row):
            self._check(row, number, names)
        return self._batch({name: [row.get(name) for row in rows] for name in names}, first_row)

    def of_columns(self, columns: Mapping[str, Any], *, first_row: int) -> Any:
        """A record batch of columns by name.

        Raises:
            ValueError, KeyError: as :meth:`of_rows`.
        """
        if self._columns is not None:
            _check_columns(columns, self._columns, "the batch")
            columns = {name: columns[name] for name in self._columns}
        columns = {
            name: [self.cell(name, value, first_row + number) for number, value in enumerate(values)]
            if name in self.cells
            else values
            for name, values in columns.items()
        }
        return self._batch(columns, first_row)

    def check(self, row: Mapping[str, Any], number: int) -> None:
        """Refuses a row of other columns.

        Raises:
            ValueError, KeyError: as :meth:`of_rows`.
        """
        self._check(row, number, self._names(()))

    def _check(self, row: Mapping[str, Any], number: int, names: Sequence[str]) -> None:
        if self._columns is not None:
            _check_columns(row, self._columns, f"row {number}")
            return
        unknown = [name for name in row if name not in names]
        if unknown:
            raise FormatError(
                f"row {number} has a column {unknown[0]!r} that is not among those of the file: {', '.join(names) or 'none'}\n"
                "hint: give schema=, or columns="
            )

    def cell(self, name: str, value: Any, row: int) -> Any:
        """What stands for ``value`` in the column, where that is not the value itself.

        Raises:
            ValueError: for a value that the column has no bytes for.
        """
        if value is None or isinstance(value, bytes | bytearray | memoryview):
            return value
        try:
            return self.cells[name](value)
        except (TypeError, ValueError, AttributeError, OSError) as error:
            raise FormatError(_misfit(row, name, value, f"cannot be encoded: {error}", self._hint)) from error

    def array(self, name: str, values: Sequence[Any], first_row: int) -> Any:
        """The values as an array of the column's type.

        Raises:
            ValueError: for a value that does not fit it, naming row, column and value.
        """
        arrow = _pyarrow()
        data_type = None if self.schema is None else self.schema.field(name).type
        try:
            array = arrow.array(values, type=data_type)
        except _misfits(arrow) as error:
            place = _first_misfit(arrow, values, data_type)
            reason = _reason(arrow, values, place, data_type)
            raise FormatError(
                _misfit(first_row + place, name, values[place], f"{reason}: {error}", self._hint)
            ) from error
        array = array.combine_chunks() if isinstance(array, arrow.ChunkedArray) else array
        changed = first_changed(values, array)
        if changed is not None:
            reason = f"{array.type} holds only in part"
            raise FormatError(_misfit(first_row + changed, name, values[changed], reason, self._hint))
        return array

    @property
    def _hint(self) -> str:
        if self._given is None:
            return "give schema=, or columns= with types"
        return (
            "bring the values to the type that was given for the column, or give it another; are two of them swapped?"
        )

    def _names(self, rows: Sequence[Mapping[str, Any]]) -> Sequence[str]:
        if self._columns is not None:
            return self._columns
        schema = self.schema
        if schema is not None:
            return schema.names
        names = list(dict.fromkeys(name for row in rows for name in row))
        if rows and not names:
            raise FormatError("the first rows have no columns\nhint: give schema=, or columns= with types")
        return names

    def _batch(self, columns: dict[str, Any], first_row: int) -> Any:
        arrow = _pyarrow()
        schema = self.schema
        if schema is not None and set(schema.names) != set(columns):
            raise FormatError(
                f"the columns are {', '.join(columns)}, those of the file {', '.join(schema.names)}\n"
                "hint: columns= picks some of them"
            )
        names = list(columns) if schema is None else schema.names
        arrays = [self._column(name, columns[name], first_row) for name in names]
        lengths = {name: len(array) for name, array in zip(names, arrays, strict=True)}
        if len(set(lengths.values())) > 1:
            raise FormatError(f"the columns have {lengths} values, and rows have one of each")
        if schema is None:
            fields = [
                arrow.field(name, array.type, metadata=self.metadata.get(name))
                for name, array in zip(names, arrays, strict=True)
            ]
            self._schema = schema = arrow.schema(fields)
            refuse_nul(schema)
        return arrow.RecordBatch.from_arrays(arrays, schema=schema)

    def _column(self, name: str, values: Any, first_row: int) -> Any:
        arrow = _pyarrow()
        if not isinstance(values, arrow.Array | arrow.ChunkedArray):
            return self.array(name, values, first_row)
        values = values.combine_chunks() if isinstance(values, arrow.ChunkedArray) else values
        data_type = None if self.schema is None else self.schema.field(name).type
        if data_type is None or values.type == data_type:
            return values
        return self.array(name, values.to_pylist(), first_row)


def refuse_nul(schema: Any) -> None:
    """Refuses names of columns and nested fields that contain NUL; the Arrow C interface would truncate them.

    Raises:
        ValueError: if the schema has such a name.
    """
    told = schema.to_string(show_field_metadata=False, show_schema_metadata=False)
    if "\0" in told:
        line = next(line for line in told.splitlines() if "\0" in line)
        raise FormatError(f"the name of a column holds the character NUL: {line.strip()!r}")


def _misfits(arrow: Any) -> tuple[type[Exception], ...]:
    return (
        arrow.ArrowInvalid,
        arrow.ArrowTypeError,
        arrow.ArrowNotImplementedError,
        OverflowError,
        TypeError,
        ValueError,
    )


def _first_misfit(arrow: Any, values: Sequence[Any], data_type: Any) -> int:
    """The number of the first value that does not go with those before it."""
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            arrow.array(values[:middle], type=data_type)
            low = middle
        except _misfits(arrow):
            high = middle
    return low


def _reason(arrow: Any, values: Sequence[Any], place: int, data_type: Any) -> str:
    """Why a value has no place behind those before it."""
    if data_type is not None:
        return f"is no {data_type}"
    try:
        arrow.array(values[place : place + 1])
    except _misfits(arrow):
        kind = type(values[place]).__name__
        return (
            f"is of the Python type {kind}, for which there is no type of columns (make a number, text or bytes of it)"
        )
    return f"is of another type than the values before it ({arrow.array(values[:place]).type})"


def _misfit(row: int, name: str, value: Any, reason: str, hint: str) -> str:
    shown = repr(value)
    if len(shown) > _SHOWN_LENGTH:
        shown = shown[: _SHOWN_LENGTH - 1] + "…"
    return f"row {row} has the value {shown} in column {name!r}, which {reason}\nhint: {hint}"


def _selected(schema: Any, columns: Sequence[str]) -> Any:
    _check_columns(dict.fromkeys(schema.names), columns, "the batch")
    return _pyarrow().schema([schema.field(name) for name in columns])


def _check_columns(row: Mapping[str, Any], names: Sequence[str], what: str) -> None:
    for name in names:
        if name not in row:
            raise MissingColumnError(f"{what} has no column {name!r}; it has {', '.join(map(str, row)) or 'none'}")


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(
            "rows as Python objects become Arrow data through pyarrow\n"
            "hint: pip install pyarrow, or give write_batch() Arrow data of another library"
        ) from error
    return pyarrow
