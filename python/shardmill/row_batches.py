"""Rows as Python objects become Arrow batches, through pyarrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shardmill.errors import FormatError, MissingColumnError


class RowBatches:
    """Batches of one schema: the one that is given, or that of the first rows.

    Args:
        columns: those that are taken of each row; all when ``None``.
        schema: Arrow schema of the columns.
    """

    def __init__(self, columns: Sequence[str] | None, schema: Any) -> None:
        self._columns = columns
        self._given = schema
        self._schema: Any = None

    def of_rows(self, rows: Sequence[Mapping[str, Any]], *, first_row: int) -> Any:
        """A record batch; a column that a row lacks is null there.

        Raises:
            ValueError: for a column that the schema lacks, and for values of several types in a column.
            KeyError: for a row without one of ``columns``.
        """
        names = self._names(rows)
        for number, row in enumerate(rows, first_row):
            if self._columns is None:
                unknown = [name for name in row if name not in names]
                if unknown:
                    known = ", ".join(names) or "none"
                    raise FormatError(
                        f"row {number} has a column {unknown[0]!r} that is not among those of the file: {known}\n"
                        "hint: give schema=, or columns="
                    )
            else:
                _check_columns(row, names, f"row {number}")
        return self._batch({name: [row.get(name) for row in rows] for name in names})

    def of_columns(self, columns: Mapping[str, Any]) -> Any:
        """A record batch of columns by name.

        Raises:
            ValueError, KeyError: as :meth:`of_rows`.
        """
        if self._columns is not None:
            _check_columns(columns, self._columns, "the batch")
            columns = {name: columns[name] for name in self._columns}
        return self._batch(dict(columns))

    def _names(self, rows: Sequence[Mapping[str, Any]]) -> Sequence[str]:
        if self._columns is not None:
            return self._columns
        schema = self._known_schema()
        return list(dict.fromkeys(name for row in rows for name in row)) if schema is None else schema.names

    def _known_schema(self) -> Any:
        if self._schema is None and self._given is not None:
            self._schema = _pyarrow().schema(self._given)
        return self._schema

    def _batch(self, columns: dict[str, Any]) -> Any:
        arrow = _pyarrow()
        schema = self._known_schema()
        try:
            if schema is not None and set(schema.names) != set(columns):
                raise FormatError(
                    f"the columns are {', '.join(columns)}, those of the file {', '.join(schema.names)}\n"
                    "hint: columns= picks some of them"
                )
            batch = arrow.RecordBatch.from_pydict(columns, schema=schema)
        except (arrow.ArrowInvalid, arrow.ArrowTypeError, arrow.ArrowNotImplementedError) as error:
            raise FormatError(f"values of a column do not have one type: {error}\nhint: give schema=") from error
        self._schema = batch.schema
        return batch


def _check_columns(row: Mapping[str, Any], names: Sequence[str], what: str) -> None:
    for name in names:
        if name not in row:
            raise MissingColumnError(f"{what} has no column {name!r}; it has {', '.join(map(str, row)) or 'none'}")


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(
            "rows as Python objects become Parquet through pyarrow\n"
            "hint: pip install pyarrow, or give write_batch() Arrow data of another library"
        ) from error
    return pyarrow
