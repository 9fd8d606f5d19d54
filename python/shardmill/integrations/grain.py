"""Data sources for Grain, of rows and of the batches of a loader.

``shardmill.arrayrecord.ArrayRecordDataSource`` can be used with Grain directly; ``DatasetSource``
wraps any other data set, and ``LoaderDataset`` a loader. For the protocol of a Grain source, see
https://google-grain.readthedocs.io/en/latest/data_sources/protocol.html.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any, SupportsIndex

from shardmill._extras import missing_module

try:
    import grain
except ModuleNotFoundError as missing:
    raise missing_module(__name__, name="grain", shown="Grain", install="grain") from missing

from shardmill.arrayrecord import ArrayRecordDataSource
from shardmill.data._dataset import Dataset, opened_files
from shardmill.data._decodings import decoded
from shardmill.data._own_methods import own_method, refuse_own_batches
from shardmill.errors import OptionError, RecordKeyError
from shardmill.load._loader import Loader, iteration_of, loader_with
from shardmill.storage._paths import PathLike

__all__ = ["ArrayRecordDataSource", "DatasetSource", "LoaderDataset", "iter_dataset"]


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


class LoaderDataset(grain.IterDataset):
    """The batches of a loader, epoch after epoch, with its state in the checkpoints of Grain.

    The threads of the loader read ahead, so worker processes and ``mp_prefetch`` are not supported.
    Each iterator begins with the first batch, unless a state is set. The state is that of the
    loader, so it can be resumed on any number of ranks.

    Args:
        loader: a new loader, with ``output="numpy"`` for JAX.

    Raises:
        ValueError: If the loader has already delivered batches.

    Examples:
        >>> import pyarrow as pa, pyarrow.parquet as pq, shardmill as sm
        >>> pq.write_table(pa.table({"x": list(range(10))}), "ten.parquet")
        >>> from shardmill.integrations.grain import LoaderDataset
        >>> loader = sm.Loader("ten.parquet", batch_size=4, output="numpy")
        >>> sums = LoaderDataset(loader).map(lambda batch: int(batch["x"].sum()))
        >>> iterator = iter(sums)
        >>> [next(iterator) for _ in range(4)]
        [6, 22, 17, 6]
        >>> iterator.set_state(iterator.get_state())
        >>> next(iterator)
        22
    """

    def __init__(self, loader: Loader) -> None:
        super().__init__()
        refuse_own_batches(loader, "a LoaderDataset")
        self._loader = _at_start(loader)

    def __iter__(self) -> grain.DatasetIterator:
        """Iterate from the first batch."""
        return _Batches(_at_start(self._loader))

    def set_slice(self, *given: Any) -> None:
        """Raise an error, because worker processes cannot divide the batches."""
        raise OptionError(
            "worker processes of Grain cannot divide the batches of a Loader\n"
            "hint: leave out mp_prefetch; the threads of the Loader prefetch already"
        )


class _Batches(grain.DatasetIterator):
    """An iterator over the steps of its own loader."""

    def __init__(self, loader: Loader) -> None:
        super().__init__()
        self._loader = loader
        self._batches: Iterator[Any] | None = None

    def __next__(self) -> Any:
        if self._batches is None:
            self._batches = self._loader.steps(sys.maxsize)
        return next(self._batches)

    def get_state(self) -> dict[str, Any]:
        return self._loader.state_dict()

    def set_state(self, state: dict[str, Any]) -> None:
        self._loader.load_state_dict(state)
        self._batches = None


def _at_start(loader: Loader) -> Loader:
    """Return a loader with the plan of another loader and its own position."""
    iteration = iteration_of(loader)
    return loader_with(loader, iteration.of_rank(loader.rank, loader.world_size, iter))
