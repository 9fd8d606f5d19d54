"""Iceberg tables as data sets. pyiceberg plans, the native readers read.

The catalog and the manifests tell, once, which data files a snapshot has, which rows of them are deleted, and by
which id each column is found. From then on the table is a list of files; nobody asks the catalog again, neither for
the next epoch nor in another process. The invariant: each live row of the pinned snapshot is one row of the data set,
whatever is committed later.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from shardmill._native import load as _native
from shardmill.dataset import Dataset
from shardmill.errors import OptionError
from shardmill.expressions import Expression, expression_of
from shardmill.threads import default_threads

if TYPE_CHECKING:
    from pyiceberg.table import Table


@dataclass(frozen=True)
class PlannedFile:
    """A data file of a snapshot.

    Attributes:
        path: on this machine.
        relative: below the location of the table.
        constants: values of columns that the file need not have, by number, as arrays of one.
        deleted: numbers of the rows that are deleted.
        partition: values by the names of the partition's fields.
    """

    path: str
    relative: str
    constants: tuple[tuple[int, Any], ...]
    deleted: tuple[int, ...]
    partition: dict[str, Any]


@dataclass(frozen=True)
class Planned:
    """A snapshot, as its files. Pickles; holds no connection."""

    name: str
    snapshot_id: int | None
    #: A ``pyarrow.Schema``.
    schema: Any
    #: Id and names of each column.
    columns: tuple[tuple[int, tuple[str, ...]], ...]
    files: tuple[PlannedFile, ...]


class IcebergTable(Dataset):
    """Rows of one snapshot of an Iceberg table, for :class:`shardmill.Loader`. Needs ``pyiceberg``.

    The snapshot is pinned when the object is made: later commits are not seen. Each live row comes once; rows that
    position deletes or deletion vectors name do not come. Columns are found by their ids: renamed ones under their
    new names, added ones as nulls or their defaults, promoted ones in their new types. Files stand in byte order of
    their paths below the table's location.

    Args:
        table: the identifier, such as ``"db.events"`` or ``"a.b.c.events"``, or a table of pyiceberg.
        catalog_config: for ``pyiceberg.catalog.load_catalog``; not with a table of pyiceberg.
        columns: names of the columns to deliver, in this order; all when ``None``.
        filter: a condition on rows, as for :class:`shardmill.Dataset`. It is applied to each row, and leaves out
            files that the manifests rule out.
        scan_filter: an expression of pyiceberg, which only leaves out files: rows of the others come whether they
            fulfil it or not.
        snapshot_id: the current one when ``None``.
        threads: for reading; as many as there are cores when ``None``.

    Raises:
        ImportError: without pyiceberg.
        NotImplementedError: for equality deletes, data files that are not Parquet, and files that are not on this
            machine.
        ValueError: for data files of several formats.

    Example:
        >>> import shardmill as sm
        >>> from shardmill.integrations.iceberg import IcebergTable
        >>> table = IcebergTable("db.events", catalog_config={"uri": "sqlite:///x.db"})  # doctest: +SKIP
        >>> loader = sm.Loader(table, batch_size=256)  # doctest: +SKIP
    """

    def __init__(
        self,
        table: str | tuple[str, ...] | Table,
        *,
        catalog_config: dict[str, Any] | None = None,
        columns: Sequence[str] | None = None,
        filter: Expression | list[Any] | None = None,
        scan_filter: Any = None,
        snapshot_id: int | None = None,
        threads: int | None = None,
    ) -> None:
        condition = None if filter is None else expression_of(filter)
        plan = planned(_table(table, catalog_config), condition, scan_filter, snapshot_id)
        self._open(plan, None if columns is None else list(columns), condition, threads)
        if not plan.files:
            warnings.warn(f"no data files in {plan.name}", stacklevel=2)

    @property
    def snapshot_id(self) -> int | None:
        """Of the pinned snapshot; ``None`` for a table that has none."""
        return self._plan.snapshot_id

    @property
    def planned_files(self) -> tuple[PlannedFile, ...]:
        """The data files."""
        return self._plan.files

    @property
    def file_sizes(self) -> list[tuple[str, str, int, int]]:
        """Path, path below the table's location, bytes and live rows of each file."""
        return self._native.files

    def __repr__(self) -> str:
        return f"IcebergTable({self._plan.name}: snapshot {self._plan.snapshot_id}, {len(self._plan.files)} files)"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (self._plan, self._columns, self._filter, self._given_threads)

    def _open(self, plan: Planned, columns: list[str] | None, filter: Expression | None, threads: int | None) -> None:
        self._plan, self._filter, self._given_threads = plan, filter, threads
        self._paths = [plan.name]
        self._threads = default_threads() if threads is None else threads
        files = [
            (file.path, file.relative, list(file.constants), list(file.deleted))
            for file in sorted(plan.files, key=lambda file: file.relative.encode())
        ]
        self._native = _native.Dataset.of_table(
            plan.schema,
            [(number, list(names)) for number, names in plan.columns],
            files,
            filter=self._filter_json,
            threads=max(self._threads, 4),
        )
        self._columns = list(self._native.column_names) if columns is None else columns
        self._column_numbers = self._native.column_numbers(self._columns)
        self._rows = None


def _reopened(plan: Planned, columns: list[str], filter: Expression | None, threads: int | None) -> IcebergTable:
    table = IcebergTable.__new__(IcebergTable)
    table._open(plan, columns, filter, threads)
    return table


def _table(table: Any, catalog_config: dict[str, Any] | None) -> Table:
    try:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.table import Table
    except ImportError as missing:
        raise ImportError("Iceberg tables need pyiceberg\nhint: pip install 'pyiceberg[pyarrow]'") from missing
    if isinstance(table, Table):
        if catalog_config is not None:
            raise OptionError("catalog_config is for a table that is given by its name")
        return table
    config = dict(catalog_config or {})
    return load_catalog(config.pop("name", None), **config).load_table(table)


def planned(table: Table, filter: Expression | None, scan_filter: Any, snapshot_id: int | None) -> Planned:
    """The files of a snapshot.

    Raises:
        NotImplementedError: for what cannot be read exactly.
        ValueError: for data files of several formats, and for a snapshot that the table does not have.
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
            partition=_partition(table, task.file),
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
        raise OptionError(f"the data files of {_name(table)} are of several formats: {found}")
    if first and "PARQUET" not in first:
        raise NotImplementedError(f"the data files of {_name(table)} are {next(iter(first))}; Parquet is read")


class _Deletes:
    """Rows that position deletes name; each file of them is read once."""

    def __init__(self, table: Table) -> None:
        self._io = table.io
        self._read: dict[str, dict[str, list[int]]] = {}

    def of(self, task: Any) -> list[int]:
        """Rows of the file of a task that are deleted, each once."""
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
    """Values of columns that a file need not store: of its partition, and defaults of columns that were added."""
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


def _partition(table: Table, file: Any) -> dict[str, Any]:
    return {part.name: file.partition[place] for place, part in enumerate(table.specs()[file.spec_id].fields)}


def _names(table: Table, field: Any) -> list[str]:
    """What a file without ids may call a column."""
    mapping = table.name_mapping()
    if mapping is None:
        return []
    return [name for mapped in mapping.root if mapped.field_id == field.field_id for name in mapped.names]


def _arrow_schema(schema: Any) -> Any:
    """Types of Arrow, strings and binaries with 32-bit offsets as other data sets have them."""
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
    parts = urlsplit(path)
    if parts.scheme in ("", "file"):
        return unquote(parts.path) if parts.scheme else path
    raise NotImplementedError(f"{path}: data files are read from local file systems, not from {parts.scheme}://")


def _name(table: Table) -> str:
    return ".".join(table.name())


def prunable(tree: Any, schema: Any) -> Any:
    """A condition of pyiceberg that every row fulfils that ``tree`` selects, or ``None`` where nothing is known.

    Nothing is taken over that the two libraries could see differently: no negation (of NaN), no float literal (of
    another precision), no comparison of a column with another type's literal.
    """
    from pyiceberg import expressions, types

    if "and" in tree:
        parts = [part for part in (prunable(part, schema) for part in tree["and"]) if part is not None]
        return None if not parts else parts[0] if len(parts) == 1 else expressions.And(*parts)
    if "or" in tree:
        parts = [prunable(part, schema) for part in tree["or"]]
        if not parts or any(part is None for part in parts):
            return None
        return parts[0] if len(parts) == 1 else expressions.Or(*parts)
    operators = {
        "==": expressions.EqualTo,
        "<": expressions.LessThan,
        "<=": expressions.LessThanOrEqual,
        ">": expressions.GreaterThan,
        ">=": expressions.GreaterThanOrEqual,
    }
    whole_numbers, texts = (types.IntegerType, types.LongType), (types.StringType,)

    def fits(name: str, value: Any) -> bool:
        try:
            kind = schema.find_type(name)
        except ValueError:
            return False
        if isinstance(value, int) and not isinstance(value, bool):
            return isinstance(kind, whole_numbers) and -(2**63) <= value < 2**63
        return isinstance(value, str) and isinstance(kind, texts)

    if "compare" in tree:
        name, op, value = (tree["compare"][part] for part in ("column", "op", "value"))
        return operators[op](name, value) if op in operators and fits(name, value) else None
    if "is_in" in tree and not tree["is_in"].get("matches_null"):
        name, values = tree["is_in"]["column"], tree["is_in"]["values"]
        return expressions.In(name, values) if values and all(fits(name, value) for value in values) else None
    return None
