"""Hand-written readers: what a user would write with pyarrow and torch alone.

``pyarrow_loop`` is the honest ceiling: large reads with all of pyarrow's threads, sliced without a copy, filters by its
data set scanner. ``manual_sharded`` and ``naive_iterable`` are those of the peer's own benchmark. Called by
``loader_entry``. Invariant: a stream is a plain generator or a torch ``IterableDataset`` under a ``DataLoader``.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset
import pyarrow.orc
import pyarrow.parquet
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from benchmarks.loader.options import Options
from benchmarks.peers.loader_entry import identity, with_worker

# Found by trial: 1,024 gives a third of the rate, 8,192 four fifths; larger ones take memory only.
_READ_ROWS = 65_536
# Arrow's buffers are read-only, which torch warns of once.
warnings.filterwarnings("ignore", message="The given NumPy array is not writable")


def pyarrow_loop(options: Options, _rank: int) -> Iterator[Any]:
    """One process, no ``DataLoader``: large Arrow batches cut into small ones."""
    for block in _large_blocks(options):
        if options.output == "arrow":
            for start in range(0, block.num_rows, options.batch_size):
                yield block.slice(start, options.batch_size)
        else:
            yield from _cut_columns(block, options)


def manual_sharded(options: Options, rank: int) -> Iterable[Any]:
    """Each worker reads its own files, in batches of the size that the trainer wants; ranks share files alike."""
    return _dataloader(options, _ManualSharded(options, rank))


def naive_iterable(options: Options, rank: int) -> Iterable[Any]:
    """Each worker reads all files and keeps every n-th batch."""
    return _dataloader(options, _NaiveIterable(options, rank))


TOOLS = {"pyarrow_loop": pyarrow_loop, "manual_sharded": manual_sharded, "naive_iterable": naive_iterable}


class _ManualSharded(IterableDataset):  # type: ignore[type-arg]
    def __init__(self, options: Options, rank: int) -> None:
        self.options = options
        self.rank = rank

    def __iter__(self) -> Iterator[Any]:
        worker, workers = _worker()
        number, step = self.rank * workers + worker, self.options.ranks * workers
        for path in self.options.paths()[number::step]:
            for batch in _small_batches(path, self.options):
                yield _finished(batch, self.options)


class _NaiveIterable(IterableDataset):  # type: ignore[type-arg]
    def __init__(self, options: Options, rank: int) -> None:
        self.options = options
        self.rank = rank

    def __iter__(self) -> Iterator[Any]:
        worker, workers = _worker()
        number, step = self.rank * workers + worker, self.options.ranks * workers
        place = 0
        for path in self.options.paths():
            for batch in _small_batches(path, self.options):
                if place % step == number:
                    yield _finished(batch, self.options)
                place += 1


def _dataloader(options: Options, dataset: IterableDataset[Any]) -> DataLoader[Any]:
    collate = with_worker if options.by_worker else identity
    return DataLoader(dataset, batch_size=None, num_workers=options.workers, collate_fn=collate)


def _worker() -> tuple[int, int]:
    info = get_worker_info()
    return (info.id, info.num_workers) if info else (0, 1)


def _small_batches(path: Path, options: Options) -> Iterator[pa.RecordBatch]:
    if options.format == "parquet":
        yield from pyarrow.parquet.ParquetFile(path).iter_batches(options.batch_size)
        return
    for block in _blocks_of_file(path, options):
        for start in range(0, block.num_rows, options.batch_size):
            yield block.slice(start, options.batch_size)


def _finished(batch: pa.RecordBatch, options: Options) -> Any:
    """The simple way: read everything, then filter, then select."""
    if options.label is not None:
        batch = batch.filter(pc.equal(batch.column("label"), options.label))
    if options.columns:
        batch = batch.select(list(options.columns))
    if options.output == "arrow":
        return batch
    arrays = {name: batch.column(name).to_numpy(zero_copy_only=False) for name in batch.schema.names}
    if options.output == "numpy":
        return arrays
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def _large_blocks(options: Options) -> Iterator[pa.RecordBatch]:
    columns = list(options.columns) if options.columns else None
    if options.label is not None:
        # The scanner skips row groups by their statistics, and filters with all threads.
        files = [str(path) for path in options.paths()]
        scanned = pyarrow.dataset.dataset(files, format=options.format)
        condition = pc.field("label") == options.label
        yield from scanned.to_batches(columns=columns, filter=condition, batch_size=_READ_ROWS)
        return
    for path in options.paths():
        if options.format == "parquet":
            file = pyarrow.parquet.ParquetFile(path, pre_buffer=True)
            yield from file.iter_batches(_READ_ROWS, columns=columns, use_threads=True)
        else:
            yield from (block.select(columns) if columns else block for block in _blocks_of_file(path, options))


def _blocks_of_file(path: Path, options: Options) -> Iterator[pa.RecordBatch]:
    if options.format == "orc":
        file = pyarrow.orc.ORCFile(path)
        yield from (file.read_stripe(number) for number in range(file.nstripes))
    elif options.format == "csv":
        with pyarrow.csv.open_csv(path) as reader:
            yield from reader
    else:
        msg = f"{path}: no reader for {options.format}"
        raise ValueError(msg)


def _cut_columns(block: pa.RecordBatch, options: Options) -> Iterator[dict[str, Any]]:
    """Column by column, so that Arrow's overhead is paid once a block and not once a batch."""
    names = block.schema.names
    arrays = [column.to_numpy(zero_copy_only=False) for column in block.columns]
    if options.output == "torch":
        parts = [torch.from_numpy(array).split(options.batch_size) for array in arrays]
        yield from (dict(zip(names, columns, strict=True)) for columns in zip(*parts, strict=True))
        return
    for start in range(0, block.num_rows, options.batch_size):
        yield {name: array[start : start + options.batch_size] for name, array in zip(names, arrays, strict=True)}
