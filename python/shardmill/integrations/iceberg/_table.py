"""One snapshot of an Iceberg table as a data set.

The catalog and the manifests are read once. Invariant: each live row of the pinned snapshot is one
row of the data set, regardless of later commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from shardmill._extras import package_for
from shardmill._warnings import warn_caller
from shardmill.errors import OptionError
from shardmill.expressions import Expression, Value, expression_of
from shardmill.integrations._table_files import TableFiles

if TYPE_CHECKING:
    from pyiceberg.table import Table


class IcebergTable(TableFiles):
    """Rows of one snapshot of an Iceberg table, for ``shardmill.Loader``. Requires ``pyiceberg``.

    The snapshot is pinned when the object is created: later commits are not seen. Each live row is
    returned once; rows in position deletes or deletion vectors are not returned. Columns and the
    fields inside of them are matched by id: renamed ones have their new names, added ones are null
    or have their defaults, promoted ones have their new types. Files are in byte order of their
    paths relative to the location of the table.

    Data files may be local, or in a store of S3, Google or Azure. The keys and the endpoint of the
    store come from the properties of the catalog, such as ``s3.endpoint``, and otherwise from the
    environment. A pickled table does not contain the keys.

    Args:
        table: identifier of the table, such as ``"db.events"`` or ``"a.b.c.events"``, or a
            pyiceberg table.
        catalog_config: passed to ``pyiceberg.catalog.load_catalog``; not with a pyiceberg table.
        columns: names of the columns to return, in this order; all by default.
        filter: a row filter, as for ``shardmill.Dataset``. It is applied to each row, and prunes
            files by the manifests.
        scan_filter: a pyiceberg expression that only prunes files: rows of the remaining files are
            returned whether they match or not.
        snapshot_id: id of the snapshot; the current one by default.
        branch: name of a branch or a tag, whose snapshot is read.
        threads: number of reading threads; the number of cores by default.

    Raises:
        ImportError: If pyiceberg is not installed.
        NotImplementedError: If the table has equality deletes, data files that are not Parquet, or
            data files on a file system that is not supported.
        ValueError: If the data files have several formats, or the table does not have the snapshot.

    Examples:
        >>> import shardmill as sm
        >>> from shardmill.integrations.iceberg import IcebergTable
        >>> catalog = {"uri": "sqlite:///x.db"}
        >>> table = IcebergTable("db.events", catalog_config=catalog)  # doctest: +SKIP
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
        branch: str | None = None,
        threads: int | None = None,
    ) -> None:
        condition = None if filter is None else expression_of(filter)
        if branch is not None and snapshot_id is not None:
            raise OptionError("set snapshot_id or branch, not both")
        opened = _table(table, catalog_config)
        from shardmill.integrations.iceberg._planning import planned, snapshot_of

        plan = planned(
            opened,
            condition,
            scan_filter,
            snapshot_id if branch is None else snapshot_of(opened, branch),
        )
        super().__init__(plan, None if columns is None else list(columns), condition, threads)
        if not plan.files:
            warn_caller(f"no data files in {plan.name}")

    @property
    def snapshot_id(self) -> int | None:
        """Id of the pinned snapshot; ``None`` if the table has none."""
        return self._plan.version

    def __repr__(self) -> str:
        return (
            f"IcebergTable({self._plan.name}: snapshot {self._plan.version}, "
            f"{len(self._plan.files)} files)"
        )


def _table(table: Any, catalog_config: dict[str, Any] | None) -> Table:
    package_for("IcebergTable", "pyiceberg.catalog", name="pyiceberg", extra="iceberg")
    from pyiceberg.catalog import load_catalog
    from pyiceberg.table import Table

    if isinstance(table, Table):
        if catalog_config is not None:
            raise OptionError("catalog_config requires a table identifier")
        return table
    config = dict(catalog_config or {})
    return load_catalog(config.pop("name", None), **config).load_table(table)
