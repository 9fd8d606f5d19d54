"""The files of a snapshot: what to read, which rows are deleted, and how columns are found.

pyiceberg reads manifests and position deletes through the file system of the table. Invariant: a plan can be pickled, and contains
neither connections nor credentials.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shardmill._native.storage import is_local
from shardmill.errors import OptionError
from shardmill.expressions import Expression
from shardmill.integrations.iceberg._pruning import prunable
from shardmill.storage._paths import path_of

if TYPE_CHECKING:
    from pyiceberg.table import Table


@dataclass(frozen=True)
class PlannedFile:
    """A data file of a snapshot.

    Attributes:
        path: local path.
        relative: path relative to the location of the table.
        constants: values of columns that may be missing from the file, by column index, as arrays of length one.
        deleted: indices of the deleted rows.
        partition: values of the partition, by field name.
    """

    path: str
    relative: str
    constants: tuple[tuple[int, Any], ...]
    deleted: tuple[int, ...]
    partition: dict[str, Any]


@dataclass(frozen=True)
class Planned:
    """The files of a snapshot. It can be pickled and holds no connection."""

    name: str
    snapshot_id: int | None
    #: A ``pyarrow.Schema``.
    schema: Any
    #: Id and names of each column.
    columns: tuple[tuple[int, tuple[str, ...]], ...]
    files: tuple[PlannedFile, ...]


def planned(table: Table, filter: Expression | None, scan_filter: Any, snapshot_id: int | None) -> Planned:
    """Plan the files of a snapshot.

    Raises:
        NotImplementedError: If the snapshot cannot be read exactly.
        ValueError: If the data files have several formats, or the table does not have the snapshot.
    """
    from pyiceberg.expressions import AlwaysTrue, And

    snapshot = table.current_snapshot() if snapshot_id is None else table.snapshot_by_id(snapshot_id)
    if snapshot is None and snapshot_id is not None:
        raise OptionError(f"{_name(table)} has no snapshot {snapshot_id}")
    scan = table.scan(snapshot_id=snapshot_id)
    schema = scan.projection()
    if isinstance(scan_filter, str):
        scan = scan.filter(scan_filter)
    elif scan_filter is not None:
        scan = scan.update(row_filter=And(scan.row_filter, scan_filter))
    if filter is not None:
        condition = prunable(filter.tree, schema)
        scan = scan.update(row_filter=And(scan.row_filter, condition or AlwaysTrue()))
    try:
        tasks = [] if snapshot is None else list(scan.plan_files())
    except ValueError as error:
        if "equality delete" in str(error):
            raise NotImplementedError(f"{_name(table)} has equality deletes; compact the table first") from error
        raise
    _check(table, tasks)
    deletes = _Deletes(table)
    location = table.location().rstrip("/") + "/"
    fields = [(number, field) for number, field in enumerate(schema.fields)]
    arrow = _arrow_schema(schema)
    files = tuple(
        PlannedFile(
            path=_local(task.file.file_path),
            relative=task.file.file_path.removeprefix(location),
            constants=tuple(_constants(table, task.file, fields, arrow)),
            deleted=tuple(deletes.of(task)),
            partition={
                part.name: task.file.partition[place]
                for place, part in enumerate(table.specs()[task.file.spec_id].fields)
            },
        )
        for task in tasks
    )
    return Planned(
        name=_name(table),
        snapshot_id=None if snapshot is None else snapshot.snapshot_id,
        schema=arrow,
        columns=tuple((field.field_id, tuple(_names(table, field))) for _, field in fields),
        files=files,
    )


def _check(table: Table, tasks: Iterable[Any]) -> None:
    from pyiceberg.manifest import DataFileContent

    first: dict[str, str] = {}
    for task in tasks:
        first.setdefault(str(task.file.file_format.value), task.file.file_path)
        if any(file.content == DataFileContent.EQUALITY_DELETES for file in task.delete_files):
            raise NotImplementedError(f"{_name(table)} has equality deletes; compact the table first")
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
        import pyarrow as pa
        from pyiceberg.manifest import FileFormat

        if file.file_format == FileFormat.PARQUET:
            import pyarrow.parquet as pq

            with self._io.new_input(file.file_path).open() as opened:
                deletes = pq.read_table(pa.PythonFile(opened, mode="r"), columns=["file_path", "pos"])
            grouped = deletes.group_by("file_path").aggregate([("pos", "list")])
            return dict(zip(grouped["file_path"].to_pylist(), grouped["pos_list"].to_pylist(), strict=True))
        # Deletion vectors, and deletes in ORC.
        from pyiceberg.io.pyarrow import _read_deletes

        return {path: rows.to_pylist() for path, rows in _read_deletes(self._io, file).items()}


def _constants(table: Table, file: Any, fields: list[tuple[int, Any]], arrow: Any) -> Iterator[tuple[int, Any]]:
    """Yield values of columns that a file need not store: partition values, and defaults of columns added later."""
    import pyarrow as pa
    from pyiceberg.transforms import IdentityTransform

    spec = table.specs()[file.spec_id]
    values: dict[int, Any] = {}
    for place, part in enumerate(spec.fields):
        if isinstance(part.transform, IdentityTransform):
            values[part.source_id] = file.partition[place]
    for number, field in fields:
        value = values.get(field.field_id, field.initial_default)
        if value is not None:
            yield number, pa.array([value], type=arrow.field(number).type)


def _names(table: Table, field: Any) -> list[str]:
    """Return the names that a column may have in a file without ids."""
    mapping = table.name_mapping()
    if mapping is None:
        return []
    return [name for mapped in mapping.root if mapped.field_id == field.field_id for name in mapped.names]


def _arrow_schema(schema: Any) -> Any:
    """Return Arrow types, with 32-bit offsets for strings and binaries as in other data sets."""
    import pyarrow as pa
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    def narrow(kind: Any) -> Any:
        types = pa.types
        if types.is_large_string(kind):
            return pa.string()
        if types.is_large_binary(kind):
            return pa.binary()
        if types.is_list(kind) or types.is_large_list(kind):
            return pa.list_(kind.value_field.with_type(narrow(kind.value_type)))
        if types.is_struct(kind):
            return pa.struct([part.with_type(narrow(part.type)) for part in kind])
        if types.is_map(kind):
            return pa.map_(
                kind.key_field.with_type(narrow(kind.key_type)), kind.item_field.with_type(narrow(kind.item_type))
            )
        return kind

    whole = schema_to_pyarrow(schema, include_field_ids=False)
    return pa.schema([field.with_type(narrow(field.type)).remove_metadata() for field in whole])


def _local(path: str) -> str:
    if is_local(path):
        return path_of(path)
    scheme = path.partition(":")[0]
    raise NotImplementedError(f"{path}: data files must be on a local file system, not on {scheme}://")


def _name(table: Table) -> str:
    return ".".join(table.name())
