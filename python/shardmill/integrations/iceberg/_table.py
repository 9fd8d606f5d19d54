"""One snapshot of an Iceberg table as a data set.

The catalog and the manifests are read once. They determine the data files of a snapshot, the deleted rows, and the id of
each column. From then on the table is a list of files, and the catalog is not accessed again, neither for the next epoch
nor in another process. Invariant: each live row of the pinned snapshot is one row of the data set, regardless of later
commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from shardmill._native import load as _native
from shardmill._threads import default_threads
from shardmill._warnings import warn_caller
from shardmill.data._dataset import Dataset
from shardmill.data._token_lengths import TokenLengths
from shardmill.errors import OptionError
from shardmill.expressions import Expression, Value, expression_of
from shardmill.integrations.iceberg._planning import Planned, planned

if TYPE_CHECKING:
    from pyiceberg.table import Table


class IcebergTable(Dataset):
    """Rows of one snapshot of an Iceberg table, for ``shardmill.Loader``. Requires ``pyiceberg``.

    The snapshot is pinned when the object is created: later commits are not seen. Each live row is returned once; rows in
    position deletes or deletion vectors are not returned. Columns are matched by id: renamed columns have their
    new names, added columns are null or have their defaults, promoted columns have their new types. Files are in byte order of
    their paths relative to the location of the table.

    Args:
        table: identifier of the table, such as ``"db.events"`` or ``"a.b.c.events"``, or a pyiceberg table.
        catalog_config: passed to ``pyiceberg.catalog.load_catalog``; not with a pyiceberg table.
        columns: names of the columns to return, in this order; all by default.
        filter: a row filter, as for ``shardmill.Dataset``. It is applied to each row, and prunes
            files by the manifests.
        scan_filter: a pyiceberg expression that only prunes files: rows of the remaining files are returned whether they
            match or not.
        snapshot_id: id of the snapshot; the current one by default.
        threads: number of reading threads; the number of cores by default.

    Raises:
        ImportError: If pyiceberg is not installed.
        NotImplementedError: If the table has equality deletes, or data files that are not Parquet or not on a local
            file system.
        ValueError: If the data files have several formats.

    Examples:
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
        filter: Expression | Value | str | list[Any] | None = None,
        scan_filter: Any = None,
        snapshot_id: int | None = None,
        threads: int | None = None,
    ) -> None:
        condition = None if filter is None else expression_of(filter)
        plan = planned(_table(table, catalog_config), condition, scan_filter, snapshot_id)
        self._open(plan, None if columns is None else list(columns), condition, threads)
        if not plan.files:
            warn_caller(f"no data files in {plan.name}")

    @property
    def snapshot_id(self) -> int | None:
        """Id of the pinned snapshot; ``None`` if the table has none."""
        return self._plan.snapshot_id

    @property
    def ignore_zeros(self) -> bool:
        """False: the files of a table are not tars."""
        return False

    def __repr__(self) -> str:
        return f"IcebergTable({self._plan.name}: snapshot {self._plan.snapshot_id}, {len(self._plan.files)} files)"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (type(self), self._plan, self._columns, self._filter, self._given_threads)

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
        self._decodings = self._decodings_of(self._columns)
        self._rows = None
        self._token_lengths = TokenLengths(self._row_plan, self._threads)


def _reopened(kind: type[IcebergTable], *arguments: Any) -> IcebergTable:
    table = kind.__new__(kind)
    table._open(*arguments)
    return table


def _table(table: Any, catalog_config: dict[str, Any] | None) -> Table:
    try:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.table import Table
    except ImportError as missing:
        raise ImportError("Iceberg tables require pyiceberg\nhint: pip install 'shardmill[iceberg]'") from missing
    if isinstance(table, Table):
        if catalog_config is not None:
            raise OptionError("catalog_config requires a table identifier")
        return table
    config = dict(catalog_config or {})
    return load_catalog(config.pop("name", None), **config).load_table(table)
