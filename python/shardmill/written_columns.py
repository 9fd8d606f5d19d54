"""The columns that a writer was told of: names, types, and what makes bytes of their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shardmill.cells import Cell, encoding_of, mds_cell, webdataset_cell
from shardmill.column_types import arrow_type, mds_arrow_type, mds_encoding
from shardmill.dataset import column_names
from shardmill.errors import OptionError
from shardmill.row_batches import RowBatches


class WrittenColumns:
    """What ``columns`` and ``schema`` say.

    Args:
        format: of the files.
        columns: names, or types by name.
        schema: Arrow schema.

    Raises:
        ValueError: when they mean nothing for the format.
    """

    def __init__(self, format: str, columns: Sequence[str] | Mapping[str, str] | None, schema: Any) -> None:
        self._format = format
        types = dict(columns) if isinstance(columns, Mapping) else None
        if isinstance(columns, Mapping) or columns is None:
            self.names = None if types is None else list(types)
        else:
            self.names = column_names(columns)
        #: MDS encodings by column; ``None`` when the first rows tell them.
        self.encodings: dict[str, str] | None = None
        self.cells: dict[str, Cell] = {}
        #: Of rows as Python objects.
        self.schema: Any = schema
        if format == "arrayrecord":
            self._check_record(schema)
        if types is not None:
            if schema is not None:
                raise OptionError("columns has types, and schema too\nhint: give one of them")
            self._take_types(types)

    @property
    def file_schema(self) -> Any:
        """That of the files, where it is told."""
        return self.schema if self._format == "parquet" else None

    def learn(self, values: Mapping[str, Any], batches: RowBatches) -> None:
        """Finds the columns whose values Arrow cannot take as they are, by the first values of each."""
        if self._format not in ("mds", "webdataset"):
            return
        for name in values if self.names is None else self.names:
            if name in batches.cells or name not in values:
                continue
            if self._format == "webdataset":
                cell = webdataset_cell(name)
            else:
                encoding = encoding_of(next((value for value in values[name] if value is not None), None))
                cell = None if encoding is None else mds_cell(encoding)
                if cell is not None:
                    batches.metadata[name] = {"mds.encoding": str(encoding)}
            if cell is not None:
                batches.cells[name] = cell

    def _check_record(self, schema: Any) -> None:
        if schema is not None:
            raise OptionError("schema is for formats with columns; ArrayRecord has one column of bytes")
        if self.names is not None and len(self.names) != 1:
            raise OptionError(
                f"ArrayRecord has one column, and columns names {len(self.names)}\nhint: pick one, or write Parquet"
            )

    def _take_types(self, types: dict[str, str]) -> None:
        import pyarrow as pa

        if self._format == "mds":
            self.encodings = {name: mds_encoding(name, of) for name, of in types.items()}
            fields = [(name, mds_arrow_type(encoding)) for name, encoding in self.encodings.items()]
            self._take_cells(self.encodings)
        elif self._format == "parquet":
            fields = [(name, arrow_type(name, of)) for name, of in types.items()]
            # Lists of numbers are Arrow's own.
            self._take_cells({name: of for name, of in types.items() if not of.startswith("ndarray:")})
        else:
            raise OptionError(
                f"columns with types are for MDS and Parquet, not for {self._format}\nhint: give names, or schema="
            )
        self.schema = pa.schema(fields)

    def _take_cells(self, encodings: Mapping[str, str]) -> None:
        for name, encoding in encodings.items():
            cell = mds_cell(encoding)
            if cell is not None:
                self.cells[name] = cell
