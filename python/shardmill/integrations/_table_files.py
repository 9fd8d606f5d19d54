"""Data sets over the files that a table format names, such as Iceberg and Delta.

The metadata of a table is read once. It determines the data files of one version, the deleted rows,
and how columns are found. From then on the table is a list of files, and its metadata is not
accessed again, neither for the next epoch nor in another process. Invariant: a plan can be pickled,
and contains neither connections nor credentials.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from shardmill._native import load as _native
from shardmill._native.storage import is_local
from shardmill._threads import default_threads
from shardmill.data._dataset import Dataset
from shardmill.data._opened_files import OpenedFiles
from shardmill.expressions import Expression
from shardmill.storage._configure import configure_all, still_needed
from shardmill.storage._options import StorageOptions


@dataclass(frozen=True)
class TableColumn:
    """A column of a table, or a field inside of one.

    Attributes:
        id: found by this id in files that have ids; ``None`` if columns have only names.
        names: the names that it may have in files without ids.
        default: the value in files that lack it, as an array of length one.
        parts: fields of a struct, the item of a list, or the key and the value of a map.
    """

    id: int | None
    names: tuple[str, ...] = ()
    default: Any = None
    parts: tuple[TableColumn, ...] = ()


def parts_of(kind: Any) -> tuple[Any, ...]:
    """Return the Arrow fields of a struct, the item of a list, or the key and value of a map."""
    from pyarrow import types

    if types.is_struct(kind):
        return tuple(kind)
    if types.is_map(kind):
        return kind.key_field, kind.item_field
    return (kind.value_field,) if types.is_list(kind) or types.is_large_list(kind) else ()


@dataclass(frozen=True)
class PlannedFile:
    """A data file of a version of a table.

    Attributes:
        path: a local path, or a URL of a store.
        relative: path relative to the location of the table.
        constants: values of columns that may be missing from the file, by column index, as arrays
            of length one.
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
    """The files of one version of a table."""

    name: str
    #: Id of the snapshot, or number of the version.
    version: int | None
    #: A ``pyarrow.Schema``.
    schema: Any
    columns: tuple[TableColumn, ...]
    files: tuple[PlannedFile, ...]
    #: Options of the store, without secrets.
    storage_options: dict[str, str] | None = None


def configured(
    files: tuple[PlannedFile, ...], options: StorageOptions | None
) -> dict[str, str] | None:
    """Set the options of the stores that hold the files, and return those that may be stored."""
    roots = _remote_roots(files)
    return configure_all(roots, options) if roots else None


def _remote_roots(files: tuple[PlannedFile, ...]) -> list[str]:
    """Return one URL for each bucket."""
    urls = (file.path.split("/", 3) for file in files if not is_local(file.path))
    return sorted({"/".join(parts[:3]) for parts in urls})


class TableFiles(Dataset):
    """Rows of one version of a table.

    Args:
        plan: the files of the version.
        columns: names of the columns to return; all by default.
        filter: the rows to return.
        threads: number of reading threads; the number of cores by default.
    """

    def __init__(
        self,
        plan: Planned,
        columns: list[str] | None,
        filter: Expression | None,
        threads: int | None,
    ) -> None:
        self._plan, self._filter, self._given_threads = plan, filter, threads
        self._threads = default_threads() if threads is None else threads
        files = [
            (file.path, file.relative, list(file.constants), list(file.deleted))
            for file in sorted(plan.files, key=lambda file: file.relative.encode())
        ]
        filter_tree = None if filter is None else filter.tree
        native = _native.Dataset.of_table(
            plan.schema,
            cast("list[_native.TableColumn]", list(plan.columns)),
            files,
            filter=filter_tree,
            threads=max(self._threads, 4),
        )
        self._files = OpenedFiles(
            native,
            [plan.name],
            partial(_native.RowPlan, native, filter=filter_tree, threads=self._threads),
            threads=self._threads,
            is_filtered=filter is not None,
        )
        self._columns = list(native.column_names) if columns is None else columns
        self._column_numbers = native.column_numbers(self._columns)
        self._decodings = self._files.decodings_of(self._columns)

    @property
    def ignore_zeros(self) -> bool:
        """False: the files of a table are not tars."""
        return False

    @property
    def token_files(self) -> None:
        """``None``: the files of a table are not token files."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (type(self), self._plan, self._columns, self._filter, self._given_threads)


def plan_of(table: TableFiles) -> Planned:
    """Return the files of the version."""
    return table._plan  # pyright: ignore[reportPrivateUsage]


def _reopened(
    kind: type[TableFiles],
    plan: Planned,
    columns: list[str],
    filter: Expression | None,
    threads: int | None,
) -> TableFiles:
    roots = _remote_roots(plan.files)
    # Secrets are not pickled: another process gets its own from its environment.
    configure_all(roots, still_needed(roots, plan.storage_options))
    table = kind.__new__(kind)
    TableFiles.__init__(table, plan, columns, filter, threads)
    return table
