"""Data sources for Grain.

``shardmill.arrayrecord.ArrayRecordDataSource`` can be used with Grain directly; ``DatasetSource``
wraps any other data set. For the protocol of a Grain source, see
https://google-grain.readthedocs.io/en/latest/data_sources/protocol.html.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, SupportsIndex

try:
    import grain
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "shardmill.integrations.grain needs Grain\nhint: pip install grain", name="grain"
    ) from missing

from shardmill.arrayrecord import ArrayRecordDataSource
from shardmill.data._dataset import Dataset, opened_files
from shardmill.data._decodings import decoded
from shardmill.data._own_methods import own_method
from shardmill.errors import RecordKeyError
from shardmill.storage._paths import PathLike

__all__ = ["ArrayRecordDataSource", "DatasetSource", "iter_dataset"]


class DatasetSource:
    """Rows of a data set by index, as dicts.

    Args:
        data: a ``shardmill.Dataset``, or its ``path`` argument.
        options: options of ``shardmill.Dataset``, if ``data`` is paths.

    Examples:
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> pq.write_table(pa.table({"x": [1, 2, 3]}), "numbers.parquet")
        >>> import grain
        >>> from shardmill.integrations.grain import DatasetSource, iter_dataset
        >>> source = DatasetSource("numbers.parquet")
        >>> squares = grain.MapDataset.source(source).map(lambda row: row["x"] ** 2)
        >>> list(iter_dataset(squares))
        [1, 4, 9]
    """

    def __init__(self, data: Dataset | PathLike | Sequence[PathLike], **options: Any) -> None:
        self._dataset = data if isinstance(data, Dataset) else Dataset(data, **options)

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, record_key: SupportsIndex) -> dict[str, Any]:
        return self._dataset[self._key(record_key)]

    def _getitems(self, record_keys: Sequence[SupportsIndex]) -> list[dict[str, Any]]:
        """Read a batch; Grain looks for this method."""
        if own_method(self._dataset, ["__getitem__"]):
            return [self[key] for key in record_keys]
        batch = self._dataset.take([self._key(key) for key in record_keys])
        if not hasattr(batch, "to_pylist"):
            return [self[key] for key in record_keys]
        rows: list[dict[str, Any]] = batch.to_pylist()
        columns = self._dataset.columns
        for name, decoding in zip(
            columns, opened_files(self._dataset).decodings_of(columns), strict=True
        ):
            for row in rows if decoding is not None else ():
                [row[name]] = decoded([row[name]], decoding)
        return rows

    def _key(self, record_key: SupportsIndex) -> int:
        key = record_key.__index__()
        if not 0 <= key < len(self._dataset):
            raise RecordKeyError(
                f"record key {key} is out of range for a source of length {len(self._dataset)}"
            )
        return key

    def __repr__(self) -> str:
        # Grain rejects a checkpoint if this string differs, so it identifies the data and nothing
        # of this process.
        named = "\n".join(
            [*self._dataset.files, *self._dataset.columns, str(self._dataset.row_filter)]
        )
        return (
            f"DatasetSource(hash={hashlib.sha256(named.encode()).hexdigest()[:40]}, "
            f"rows={len(self)})"
        )


def iter_dataset(dataset: grain.MapDataset) -> grain.IterDataset:
    """Return an iterator over ``dataset`` that reads in the consumer's thread.

    Grain's default of 16 threads costs more than it gains if a record takes microseconds.
    """
    return dataset.to_iter_dataset(grain.ReadOptions(num_threads=0))
