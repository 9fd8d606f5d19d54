"""The files of a snapshot: what to read, which rows are deleted, and how columns are found.

pyiceberg reads manifests and position deletes through the file system of the table. The native
readers read the data files, with the options of the store that the catalog gives. Columns, and the
fields inside of them, are matched by id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform

from shardmill.errors import OptionError
from shardmill.expressions import Expression
from shardmill.integrations._table_files import (
    Planned,
    PlannedFile,
    TableColumn,
    configured,
    parts_of,
)
from shardmill.integrations.iceberg._pruning import prunable
from shardmill.integrations.iceberg._storage import literal_path, store_options


def planned(
    table: Table, filter: Expression | None, scan_filter: Any, snapshot_id: int | None
) -> Planned:
    """Plan the files of a snapshot.

    Raises:
        NotImplementedError: If the snapshot cannot be read exactly.
        ValueError: If the data files have several formats, or the table does not have the snapshot.
    """
    snapshot = (
        table.current_snapshot() if snapshot_id is None else table.snapshot_by_id(snapshot_id)
    )
    if snapshot is None and snapshot_id is not None:
        raise OptionError(f"{_name(table)} has no snapshot {snapshot_id}")
    scan = table.scan(snapshot_id=snapshot_id)
    schema = scan.projection()
    if scan_filter is not None:
        scan = scan.filter(scan_filter)
    if filter is not None:
        scan = scan.filter(prunable(filter.tree, schema))
    try:
        tasks = [] if snapshot is None else list(scan.plan_files())
    except ValueError as error:
        if "equality delete" in str(error):
            raise NotImplementedError(
                f"{_name(table)} has equality deletes; compact the table first"
            ) from error
        raise
    _check(table, tasks)
    deletes = _Deletes(table)
    location = table.location().rstrip("/") + "/"
    with_ids = schema_to_pyarrow(schema)
    arrow = pa.schema(
        [field.with_type(_narrow(field.type)).remove_metadata() for field in with_ids]
    )
    numbers = {field.field_id: number for number, field in enumerate(schema.fields)}
    files = tuple(
        PlannedFile(
            path=literal_path(task.file.file_path),
            relative=task.file.file_path.removeprefix(location),
            constants=tuple(_constants(table, task.file, numbers, arrow)),
            deleted=tuple(deletes.of(task)),
            partition={
                part.name: task.file.partition[place]
                for place, part in enumerate(table.specs()[task.file.spec_id].fields)
            },
        )
        for task in tasks
    )
    mapping = table.name_mapping()
    names = {} if mapping is None else dict(_names(mapping.root))
    options = store_options(files[0].path, table.io.properties, _name(table)) if files else None
    return Planned(
        name=_name(table),
        version=None if snapshot is None else snapshot.snapshot_id,
        schema=arrow,
        columns=tuple(_column(field, schema, names) for field in with_ids),
        files=files,
        storage_options=configured(files, options),
    )


def snapshot_of(table: Table, branch: str) -> int:
    """Return the id of the snapshot that a branch or a tag refers to.

    Raises:
        ValueError: If the table does not have it.
    """
    found = table.snapshot_by_name(branch)
    if found is None:
        known = ", ".join(repr(name) for name in sorted(table.refs())) or "none"
        raise OptionError(f"{_name(table)} has no branch or tag {branch!r}; it has {known}")
    return found.snapshot_id


def _check(table: Table, tasks: Iterable[Any]) -> None:
    first: dict[str, str] = {}
    for task in tasks:
        first.setdefault(str(task.file.file_format.value), task.file.file_path)
        if any(file.content == DataFileContent.EQUALITY_DELETES for file in task.delete_files):
            raise NotImplementedError(
                f"{_name(table)} has equality deletes; compact the table first"
            )
    if len(first) > 1:
        found = ", ".join(f"{kind} ({path})" for kind, path in sorted(first.items()))
        raise OptionError(f"the data files of {_name(table)} have several formats: {found}")
    if first and "PARQUET" not in first:
        raise NotImplementedError(
            f"the data files of {_name(table)} are {next(iter(first))}; only Parquet is supported"
        )


class _Deletes:
    """Rows listed in position deletes; each delete file is read once."""

    def __init__(self, table: Table) -> None:
        self._io = table.io
        self._read: dict[str, dict[str, list[int]]] = {}

    def of(self, task: Any) -> list[int]:
        """Return the deleted rows in the file of a task, without duplicates."""
        rows: set[int] = set()
        for file in task.delete_files:
            if file.file_path not in self._read:
                self._read[file.file_path] = self._rows(file)
            rows.update(self._read[file.file_path].get(task.file.file_path, ()))
        return sorted(rows)

    def _rows(self, file: Any) -> dict[str, list[int]]:
        if file.file_format == FileFormat.PARQUET:
            with self._io.new_input(file.file_path).open() as opened:
                deletes = pq.read_table(
                    pa.PythonFile(opened, mode="r"), columns=["file_path", "pos"]
                )
            grouped = deletes.group_by("file_path").aggregate([("pos", "list")])
            return dict(
                zip(grouped["file_path"].to_pylist(), grouped["pos_list"].to_pylist(), strict=True)
            )
        # Deletion vectors, and deletes in ORC. Other tables do not need this private function.
        from pyiceberg.io.pyarrow import _read_deletes  # pyright: ignore[reportPrivateUsage]

        return {path: rows.to_pylist() for path, rows in _read_deletes(self._io, file).items()}


def _constants(
    table: Table, file: Any, numbers: dict[int, int], arrow: Any
) -> Iterator[tuple[int, Any]]:
    """Yield the values of identity partitions: columns that a file need not store."""
    for place, part in enumerate(table.specs()[file.spec_id].fields):
        number, value = numbers.get(part.source_id), file.partition[place]
        if (
            number is not None
            and value is not None
            and isinstance(part.transform, IdentityTransform)
        ):
            yield number, pa.array([value], type=arrow.field(number).type)


def _column(field: Any, schema: Any, names: Mapping[int, tuple[str, ...]]) -> TableColumn:
    """Return how a column, or a field inside of one, is found in a file, and its default."""
    number = int(field.metadata[b"PARQUET:field_id"])
    default = schema.find_field(number).initial_default
    return TableColumn(
        id=number,
        names=names.get(number, ()),
        default=None if default is None else pa.array([default], type=_narrow(field.type)),
        parts=tuple(_column(part, schema, names) for part in parts_of(field.type)),
    )


def _names(fields: Iterable[Any]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the names that each column and nested field may have in files without ids."""
    for field in fields:
        if field.field_id is not None:
            yield field.field_id, tuple(field.names)
        yield from _names(field.fields)


def _narrow(kind: Any) -> Any:
    """Return a type with 32-bit offsets for strings and binaries, as in other data sets."""
    types = pa.types
    if types.is_large_string(kind):
        return pa.string()
    if types.is_large_binary(kind):
        return pa.binary()
    parts = [part.with_type(_narrow(part.type)).remove_metadata() for part in parts_of(kind)]
    if types.is_struct(kind):
        return pa.struct(parts)
    if types.is_map(kind):
        return pa.map_(*parts)
    return pa.list_(*parts) if parts else kind


def _name(table: Table) -> str:
    return ".".join(table.name())
