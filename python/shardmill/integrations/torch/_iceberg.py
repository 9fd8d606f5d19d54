"""Iceberg tables with the torch-dataloader-utils API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Unpack

from shardmill.data._dataset import opened_files
from shardmill.expressions import expression_of
from shardmill.integrations._table_files import plan_of
from shardmill.integrations.iceberg import IcebergTable
from shardmill.integrations.torch._dataloader import BatchLoader, loader_over
from shardmill.integrations.torch._files import IcebergDataFileInfo
from shardmill.integrations.torch._iterable import BatchDataset
from shardmill.integrations.torch._options import BatchOptions, check_options


class IcebergDataset(BatchDataset):
    """Batches of one snapshot of an Iceberg table, for any ``DataLoader``. Requires ``pyiceberg``.

    Args:
        table: identifier of the table, such as ``"a.b.c.events"``.
        catalog_config: passed to ``pyiceberg.catalog.load_catalog``.
        batch_size: number of rows per batch.
        columns: names of the columns to return, in this order; all by default.
        filters: a ``pyarrow.compute.Expression`` that is applied to each row.
        scan_filter: a pyiceberg expression that only prunes files: rows of the remaining files are
            returned whether they match or not.
        snapshot_id: id of the snapshot; the current one by default. Later commits are never seen.
        options: parameters of ``shardmill.integrations.torch.create_dataloader`` that control how
            batches are made, from ``shuffle`` to ``device``.

    Raises:
        ImportError: If pyiceberg is not installed.
        NotImplementedError: If the table has equality deletes.
        ValueError: If the data files have several formats, or an option is not valid.
    """

    def __init__(
        self,
        table: str,
        catalog_config: dict[str, Any] | None,
        batch_size: int = 1024,
        columns: Sequence[str] | None = None,
        filters: Any = None,
        scan_filter: Any = None,
        snapshot_id: int | None = None,
        **options: Unpack[BatchOptions],
    ) -> None:
        check_options(filters, options)
        rows = IcebergTable(
            table,
            catalog_config=catalog_config,
            filter=None if filters is None else expression_of(filters),
            scan_filter=scan_filter,
            snapshot_id=snapshot_id,
            threads=options.get("num_workers"),
        )
        super().__init__(loader_over(rows, batch_size, columns, options))
        self._table = rows

    @property
    def snapshot_id(self) -> int | None:
        """Id of the pinned snapshot; ``None`` if the table has none."""
        return self._table.snapshot_id

    @property
    def files(self) -> list[IcebergDataFileInfo]:
        """The data files of the snapshot that were not pruned."""
        sizes = {
            path: (size, rows) for path, _, size, rows in opened_files(self._table).native.files
        }
        return [
            IcebergDataFileInfo(
                file.path,
                *sizes[file.path],
                partition=dict(file.partition),
                snapshot_id=self.snapshot_id,
            )
            for file in plan_of(self._table).files
        ]

    @classmethod
    def create_dataloader(
        cls,
        table: str,
        catalog_config: dict[str, Any] | None = None,
        *,
        collate_fn: Callable[[Any], Any] | None = None,
        show_progress: bool = False,
        progress_interval_sec: float = 120.0,
        **options: Any,
    ) -> tuple[BatchLoader, IcebergDataset]:
        """Create a ``DataLoader`` and its data set, on native threads of this process.

        Args:
            table: identifier of the table, such as ``"a.b.c.events"``.
            catalog_config: passed to ``pyiceberg.catalog.load_catalog``.
            collate_fn: called with each batch; its result is returned.
            show_progress: show a progress bar over the batches of a pass. Requires tqdm.
            progress_interval_sec: seconds between two updates of the bar.
            options: the options of ``IcebergDataset``.

        Returns:
            The loader and its data set.
        """
        dataset = cls(table, catalog_config, **options)
        loader = BatchLoader(
            dataset,
            collate_fn=collate_fn,
            show_progress=show_progress,
            progress_interval_sec=progress_interval_sec,
        )
        return loader, dataset
