"""Rows of ArrayRecord: each is one value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardmill._native import write as _native
from shardmill.errors import FormatError, MissingColumnError, OptionError


class Records:
    """The bytes of rows.

    Args:
        columns: the one column to write; by default, rows have one value.
        written: the native writer, which counts the rows.
    """

    def __init__(self, columns: list[str] | None, written: _native.Writer) -> None:
        self._columns, self._written = columns, written

    def column(self, row: Mapping[str, Any]) -> str:
        """Return the name of the column to write.

        Raises:
            ValueError: If the row has several, and none was selected.
        """
        if self._columns is not None:
            return self._columns[0]
        if len(row) != 1:
            raise OptionError(
                "a row of ArrayRecord has one value, "
                f"but this one has {len(row)} ({', '.join(map(str, row))})\n"
                'hint: columns=["name"] selects the column to write'
            )
        return next(iter(row))

    def value(self, row: Mapping[str, Any], name: str) -> Any:
        """Return the value of a row, or the values of a batch.

        Raises:
            KeyError: If the column is missing.
        """
        if name not in row:
            raise MissingColumnError(
                f"row {self._written.rows} has no column {name!r}; "
                f"it has {', '.join(map(str, row))}"
            )
        return row[name]

    def record(self, row: Any) -> bytes:
        """Return the bytes of a row.

        Raises:
            TypeError, ValueError: If it has none.
        """
        if isinstance(row, Mapping):
            name = self.column(row)
            row = self.value(row, name)
            if row is None:
                raise FormatError(
                    f"row {self._written.rows} has a null in column {name!r}, "
                    "and ArrayRecord has no nulls\n"
                    "hint: filter out such rows"
                )
        if isinstance(row, bytes | bytearray | memoryview):
            return bytes(row)
        if isinstance(row, str):
            try:
                return row.encode()
            except UnicodeEncodeError as error:
                raise FormatError(
                    f"row {self._written.rows} has the value {row[:60]!r}, "
                    f"which is not valid Unicode: {error}\n"
                    "hint: replace the surrogates, or encode the string to bytes"
                ) from error
        raise TypeError(
            f"a record must be bytes or a string, not {type(row).__name__}\n"
            "hint: serialize it, for example with json.dumps"
        )
