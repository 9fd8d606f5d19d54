"""One snapshot of an Iceberg table as a data set.

The catalog and the manifests tell, once, which data files a snapshot has, which rows of them are deleted, and by which id
each column is found. From then on the table is a list of files; nobody asks the catalog again, neither for the next epoch
nor in another process. The invariant: each live row of the pinned snapshot is one row of the data set, whatever is committed
later.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from shardmill._native import load as _native
from shardmill.dataset import Dataset
from shardmill.errors import OptionError
from shardmill.expressions import Expression, expression_of
from shardmill.integrations.iceberg.planning import Planned, PlannedFile, planned
from shardmill.threads import default_threads

if TYPE_CHECKING:
    from pyiceberg.table import Table


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
        self._lengths = {}


def _reopened(plan: Planned, columns: list[str], filter: Expression | None, threads: int | None) -> IcebergTable:
    table = IcebergTable.__new__(IcebergTable)
    table._open(plan, columns, filter, threads)
    return table


def _table(table: Any, catalog_config: dict[str, Any] | None) -> Table:
    try:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.table import Table
    except ImportError as missing:
        raise ImportError("Iceberg tables need pyiceberg\nhint: pip install 'shardmill[iceberg]'") from missing
    if isinstance(table, Table):
        if catalog_config is not None:
            raise OptionError("catalog_config is for a table that is given by its name")
        return table
    config = dict(catalog_config or {})
    return load_catalog(config.pop("name", None), **config).load_table(table)
