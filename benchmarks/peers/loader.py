"""Tables into batches by the peers.

They are two libraries, and what a user would write with pyarrow and torch alone. ``pyarrow_loop``
is the ceiling for Python: large reads with all of pyarrow's threads, sliced without a copy, filters
by its data set scanner. ``manual_sharded`` comes from the benchmark of torch-dataloader-utils.
``arrow_rs`` is a limit.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from benchmarks.loader import Build, LoaderOptions

# Found by trial: 1,024 gives a third of the rate, 8,192 four fifths; larger ones take memory only.
_READ_ROWS = 65_536


def load(system: str) -> Build:
    """Imports what a system needs, and nothing else: imports show in the peak memory."""
    # Without it, the library asks its hub for the name "parquet".
    os.environ["HF_HUB_OFFLINE"] = "1"
    needed = {
        "torch_dataloader_utils": ["torch_dataloader_utils"],
        "hf_datasets": ["datasets"],
        "arrow_rs": ["arro3.io"],
    }
    for module in needed.get(
        system, ["torch", "pyarrow.csv", "pyarrow.dataset", "pyarrow.orc", "pyarrow.parquet"]
    ):
        import_module(module)
    # Arrow's buffers are read-only, which torch warns of once.
    warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
    return SYSTEMS[system]


def torch_dataloader_utils(options: LoaderOptions, rank: int) -> Iterable[Any]:
    """``StructuredDataset.create_dataloader``."""
    import pyarrow.compute as pc
    from torch_dataloader_utils import StructuredDataset

    return StructuredDataset.create_dataloader(
        path=options.pattern,
        format=options.format,
        batch_size=options.batch_size,
        columns=list(options.columns) or None,
        filters=pc.field("label") == options.label if options.label is not None else None,
        shuffle=options.shuffle,
        split_bytes=options.split_bytes,
        split_rows=options.split_rows,
        num_workers=options.workers,
        output_format=options.output,
        collate_fn=_identity,
        num_ranks=options.ranks,
        rank=rank,
    )[0]


def hf_datasets(options: LoaderOptions, _rank: int) -> Iterable[Any]:
    """Hugging Face ``datasets``, streaming; projection and filter by its Parquet reader."""
    import datasets
    import pyarrow.compute as pc

    given: dict[str, Any] = {"columns": list(options.columns)} if options.columns else {}
    if options.label is not None:
        given["filters"] = pc.field("label") == options.label
    files = [str(path) for path in options.paths()]
    cache = str(options.scratch / "hf")
    stream = datasets.load_dataset(
        options.format, data_files=files, split="train", streaming=True, cache_dir=cache, **given
    )
    return stream.with_format(options.output).iter(batch_size=options.batch_size)


def pyarrow_loop(options: LoaderOptions, _rank: int) -> Iterator[Any]:
    """One process, no ``DataLoader``: large Arrow batches cut into small ones."""
    import torch

    for block in _large_blocks(options):
        if options.output == "arrow":
            yield from _sliced(block, options)
            continue
        # Column by column, so that Arrow's overhead is paid once a block and not once a batch.
        names, size = block.schema.names, options.batch_size
        arrays = [column.to_numpy(zero_copy_only=False) for column in block.columns]
        if options.output == "torch":
            parts = zip(*(torch.from_numpy(array).split(size) for array in arrays), strict=True)
        else:
            parts = (
                [array[start : start + size] for array in arrays]
                for start in range(0, block.num_rows, size)
            )
        yield from (dict(zip(names, columns, strict=True)) for columns in parts)


def manual_sharded(options: LoaderOptions, rank: int) -> Iterable[Any]:
    """Each worker reads its own files, in batches of the size that the trainer wants.

    Ranks share files in the same way.
    """

    def batches(number: int, step: int) -> Iterator[pa.RecordBatch]:
        for path in options.paths()[number::step]:
            yield from _small_batches(path, options)

    return _dataloader(options, rank, batches)


def _dataloader(options: LoaderOptions, rank: int, batches: Any) -> Iterable[Any]:
    from torch.utils.data import DataLoader, IterableDataset, get_worker_info

    class Rows(IterableDataset):
        def __iter__(self) -> Iterator[Any]:
            info = get_worker_info()
            worker, workers = (info.id, info.num_workers) if info else (0, 1)
            for batch in batches(rank * workers + worker, options.ranks * workers):
                yield _finished(batch, options)

    return DataLoader(Rows(), batch_size=None, num_workers=options.workers, collate_fn=_identity)


def _small_batches(path: Path, options: LoaderOptions) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    if options.format == "parquet":
        yield from pq.ParquetFile(path).iter_batches(options.batch_size)
        return
    for block in _blocks_of_file(path, options):
        yield from _sliced(block, options)


def _sliced(block: pa.RecordBatch, options: LoaderOptions) -> Iterator[pa.RecordBatch]:
    for start in range(0, block.num_rows, options.batch_size):
        yield block.slice(start, options.batch_size)


def _finished(batch: pa.RecordBatch, options: LoaderOptions) -> Any:
    """The simple way: read everything, then filter, then select."""
    import pyarrow.compute as pc
    import torch

    if options.label is not None:
        batch = batch.filter(pc.equal(batch.column("label"), options.label))
    if options.columns:
        batch = batch.select(list(options.columns))
    if options.output == "arrow":
        return batch
    arrays = {
        name: batch.column(name).to_numpy(zero_copy_only=False) for name in batch.schema.names
    }
    return (
        arrays
        if options.output == "numpy"
        else {name: torch.from_numpy(array) for name, array in arrays.items()}
    )


def _large_blocks(options: LoaderOptions) -> Iterator[pa.RecordBatch]:
    import pyarrow.compute as pc
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    columns = list(options.columns) or None
    if options.label is not None:
        # The scanner skips row groups by their statistics, and filters with all threads.
        scanned = ds.dataset([str(path) for path in options.paths()], format=options.format)
        yield from scanned.to_batches(
            columns=columns, filter=pc.field("label") == options.label, batch_size=_READ_ROWS
        )
        return
    for path in options.paths():
        if options.format == "parquet":
            file = pq.ParquetFile(path, pre_buffer=True)
            yield from file.iter_batches(_READ_ROWS, columns=columns, use_threads=True)
        else:
            yield from (
                block.select(columns) if columns else block
                for block in _blocks_of_file(path, options)
            )


def _blocks_of_file(path: Path, options: LoaderOptions) -> Iterator[pa.RecordBatch]:
    import pyarrow.csv
    import pyarrow.orc

    if options.format == "orc":
        file = pyarrow.orc.ORCFile(path)
        yield from (file.read_stripe(number) for number in range(file.nstripes))
    else:
        with pyarrow.csv.open_csv(path) as reader:
            yield from reader


def _identity(batch: Any) -> Any:
    return batch


def arrow_rs(options: LoaderOptions, rank: int) -> Iterator[Any]:
    """The Parquet reader of arrow-rs alone: each process decodes its part of the files."""
    from arro3.io import read_parquet

    for path in options.paths()[rank :: options.ranks]:
        yield from read_parquet(str(path))


SYSTEMS: dict[str, Build] = {
    "torch_dataloader_utils": torch_dataloader_utils,
    "hf_datasets": hf_datasets,
    "pyarrow_loop": pyarrow_loop,
    "manual_sharded": manual_sharded,
    "arrow_rs": arrow_rs,
}
