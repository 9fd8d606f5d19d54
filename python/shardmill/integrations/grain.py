"""Data sources for Grain.

:class:`shardmill.arrayrecord.ArrayRecordDataSource` is a source for Grain as it is; :class:`DatasetSource` makes one of any other data
set. What Grain asks of a source: https://google-grain.readthedocs.io/en/latest/data_sources/protocol.html.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, SupportsIndex

import grain

from shardmill.arrayrecord import ArrayRecordDataSource
from shardmill.dataset import Dataset, PathLike
from shardmill.errors import RecordKeyError

__all__ = ["ArrayRecordDataSource", "DatasetSource", "iter_dataset"]


class DatasetSource:
    """Rows of a data set, by number, as dicts.

    Args:
        data: a :class:`shardmill.Dataset`, or what one is made of.
        options: of :class:`shardmill.Dataset`, when ``data`` is paths.

    Example:
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> pq.write_table(pa.table({"x": [1, 2, 3]}), "numbers.parquet")
        >>> import grain
        >>> from shardmill.integrations.grain import DatasetSource, iter_dataset
        >>> squares = grain.MapDataset.source(DatasetSource("numbers.parquet")).map(lambda row: row["x"] ** 2)
        >>> list(iter_dataset(squares))
        [1, 4, 9]
    """

    def __init__(self, data: Dataset | PathLike | Sequence[PathLike], **options: Any) -> None:
        self._dataset = data if isinstance(data, Dataset) else Dataset(data, **options)

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, record_key: SupportsIndex) -> dict[str, Any]:
        key = record_key.__index__()
        if not 0 <= key < len(self._dataset):
            raise RecordKeyError(f"there is no record {key}, keys are from 0 up to {len(self._dataset)}")
        return self._dataset[key]

    def _getitems(self, record_keys: Sequence[SupportsIndex]) -> list[dict[str, Any]]:
        """Where Grain looks for a way to read batches."""
        batch = self._dataset.take([key.__index__() for key in record_keys])
        return batch.to_pylist() if hasattr(batch, "to_pylist") else [self[key] for key in record_keys]

    def __repr__(self) -> str:
        # Grain refuses a checkpoint when this text differs, so it names the data and nothing of this process.
        named = "\n".join([*self._dataset.files, *self._dataset.columns, str(self._dataset.filter)])
        return f"DatasetSource(hash={hashlib.sha256(named.encode()).hexdigest()[:40]}, rows={len(self)})"


def iter_dataset(dataset: grain.MapDataset) -> grain.IterDataset:
    """An iterator over ``dataset`` that reads in the thread of its consumer.

    Grain's sixteen threads cost more than they gain when a record takes microseconds.
    """
    return dataset.to_iter_dataset(grain.ReadOptions(num_threads=0))
