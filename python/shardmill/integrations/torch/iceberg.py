"""Iceberg tables by the calls of torch-dataloader-utils."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shardmill.expressions import expression_of
from shardmill.integrations.iceberg import IcebergTable
from shardmill.integrations.torch.dataloader import BatchLoader, check_filters, check_tqdm, loader_over
from shardmill.integrations.torch.files import IcebergDataFileInfo
from shardmill.integrations.torch.iterable import BatchDataset
from shardmill.integrations.torch.options import OUTPUT_FORMATS, check_splits, one_of


class IcebergDataset(BatchDataset):
    """Batches of one snapshot of an Iceberg table, for any ``DataLoader``. Needs ``pyiceberg``.

    Args:
        table: the identifier, such as ``"a.b.c.events"``.
        catalog_config: for ``pyiceberg.catalog.load_catalog``.
        batch_size: rows in a batch.
        columns: names of the columns to deliver, in this order; all when ``None``.
        filters: a ``pyarrow.compute.Expression`` that rows have to fulfil.
        scan_filter: an expression of pyiceberg, which only leaves out files: rows of the others come, fulfilled or not.
        snapshot_id: the current one when ``None``; later commits are not seen either way.
        more: the parameters of :func:`shardmill.integrations.torch.create_dataloader` that do not tell where the data
            is: ``shuffle``, ``shuffle_seed``, ``split_bytes``, ``split_rows``, ``split_strategy``, ``num_workers``,
            ``output_format``, ``num_ranks``, ``rank``, ``shuffle_buffer_size``, ``tail``, ``drop_last``, ``lanes``,
            ``nulls``, ``fill_values``, ``prefetch_bytes``, ``pin_memory`` and ``device``.

    Raises:
        ImportError: without pyiceberg.
        NotImplementedError: for equality deletes.
        ValueError: for data files of several formats, and for an option that means nothing.
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
        *,
        shuffle: bool = False,
        shuffle_seed: int = 42,
        split_bytes: int | str | None = None,
        split_rows: int | None = None,
        split_strategy: Any = None,
        num_workers: int | None = None,
        output_format: str = "torch",
        num_ranks: int = 1,
        rank: int = 0,
        shuffle_buffer_size: int | None = None,
        **more: Any,
    ) -> None:
        one_of("output_format", output_format, OUTPUT_FORMATS)
        check_splits(split_bytes, split_rows, split_strategy)
        check_filters(filters)
        rows = IcebergTable(
            table,
            catalog_config=catalog_config,
            filter=None if filters is None else expression_of(filters),
            scan_filter=scan_filter,
            snapshot_id=snapshot_id,
            threads=num_workers,
        )
        loader = loader_over(
            rows,
            batch_size=batch_size,
            columns=columns,
            shuffle=shuffle,
            shuffle_seed=shuffle_seed,
            num_workers=num_workers,
            output_format=output_format,
            num_ranks=num_ranks,
            rank=rank,
            shuffle_buffer_size=shuffle_buffer_size,
            **more,
        )
        super().__init__(loader)
        self._table = rows

    @property
    def snapshot_id(self) -> int | None:
        """Of the pinned snapshot; ``None`` for a table that has none."""
        return self._table.snapshot_id

    @property
    def files(self) -> list[IcebergDataFileInfo]:
        """The data files of the snapshot that were not ruled out."""
        sizes = {path: (size, rows) for path, _, size, rows in self._table.file_sizes}
        return [
            IcebergDataFileInfo(
                file.path, *sizes[file.path], partition=dict(file.partition), snapshot_id=self.snapshot_id
            )
            for file in self._table.planned_files
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
        """A ``DataLoader`` and its data set, over native threads of this process.

        Args:
            table: the identifier, such as ``"a.b.c.events"``.
            catalog_config: for ``pyiceberg.catalog.load_catalog``.
            collate_fn: called with each batch; its result is delivered.
            show_progress: a progress bar over the batches of a pass. Needs tqdm.
            progress_interval_sec: between two updates of the bar.
            options: those of :class:`IcebergDataset`.

        Returns:
            The loader, and its data set.
        """
        check_tqdm(show_progress)
        dataset = cls(table, catalog_config, **options)
        loader = BatchLoader(
            dataset, collate_fn=collate_fn, show_progress=show_progress, progress_interval_sec=progress_interval_sec
        )
        return loader, dataset
