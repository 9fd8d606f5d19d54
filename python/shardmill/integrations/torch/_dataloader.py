"""The torch-dataloader-utils API on native threads."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, Unpack, cast

import torch
from torch.utils.data import DataLoader

from shardmill._choices import check_choice
from shardmill._option_values import index_of, whole
from shardmill._warnings import warn_caller
from shardmill.data._dataset import (
    DEFAULT_PREFETCH_BYTES,
    DEFAULT_WINDOW_BYTES,
    Dataset,
    opened_files,
)
from shardmill.data._error_policy import ErrorPolicy
from shardmill.data._own_methods import refuse_own_batches
from shardmill.errors import OptionError
from shardmill.integrations.torch._files import DataFileInfo
from shardmill.integrations.torch._iterable import BatchDataset, unchanged
from shardmill.integrations.torch._options import BatchOptions, FileFormat, check_options
from shardmill.load._checks import at_least
from shardmill.load._loader import Loader, iteration_of
from shardmill.load._options import NullPolicy, Output, OutputKind, Runtime, Shuffle, Tail
from shardmill.storage._paths import PathLike


class BatchLoader(DataLoader):
    """A ``DataLoader`` over a ``BatchDataset`` whose threads run in this process. It is stateful.

    Lightning saves and restores its state in checkpoints. Accelerate would shard the batches a
    second time and lose all but one in ``num_ranks`` of the rows; therefore
    ``accelerator.prepare(loader)`` returns the loader unchanged if there are several ranks. Create
    it with ``num_ranks=accelerator.num_processes``, ``rank=accelerator.process_index`` and
    ``device=accelerator.device``.
    """

    def __init__(
        self,
        dataset: BatchDataset,
        *,
        collate_fn: Callable[[Any], Any] | None = None,
        show_progress: bool = False,
        progress_interval_sec: float = 120.0,
    ) -> None:
        if collate_fn is not None and not callable(collate_fn):
            raise TypeError(f"collate_fn must be a function of a batch, not {collate_fn!r}")
        self._bar: Callable[[Iterator[Any]], Any] = iter
        if show_progress:
            try:
                from tqdm import tqdm
            except ImportError as missing:
                raise ImportError(
                    "show_progress requires tqdm\nhint: pip install tqdm"
                ) from missing
            interval = progress_interval_sec
            self._bar = partial(
                tqdm, unit="batch", mininterval=interval, maxinterval=interval, leave=False
            )
        # torch's default function would convert arrays to tensors.
        super().__init__(
            dataset, batch_size=None, num_workers=0, collate_fn=collate_fn or unchanged
        )
        # Accelerate does not wrap a loader with this attribute.
        self._is_accelerate_prepared = dataset.loader.world_size > 1
        self._batches = dataset

    def __iter__(self) -> Iterator[Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Iterate over the batches.

        torch's own iterator would take as long for a small batch as its rows need.
        """
        return self._passed(None)

    def steps(self, n: int) -> Iterator[Any]:
        """Iterate over the next ``n`` batches, and continue into the following epochs.

        See ``shardmill.Loader.steps``.
        """
        return self._passed(at_least("n", n, 0))

    def _passed(self, steps: int | None) -> Iterator[Any]:
        collate = None if self.collate_fn is unchanged else self.collate_fn
        if collate is None and steps is None:
            batches = iter(self._batches)
        else:
            for part in (self._batches, self._batches.loader):
                refuse_own_batches(part, "a BatchLoader with a collate_fn, or its steps(),")
            batches = iteration_of(self._batches.loader).begin(collate, steps)
        return iter(self._bar(batches))

    def state_dict(self) -> dict[str, Any]:
        """Return the position after the last returned batch; see ``BatchDataset.state_dict``."""
        return self._batches.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue the next pass at ``state``; see ``BatchDataset.load_state_dict``."""
        self._batches.load_state_dict(state)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next pass."""
        self._batches.set_epoch(epoch)


class StructuredDataset(BatchDataset):
    """A ``BatchDataset`` over known data files, with the parameters of torch-dataloader-utils.

    Args:
        files: the files, in row order.
        format: ``"parquet"``, ``"orc"``, ``"csv"``, ``"json"`` or ``"jsonl"``.
        batch_size: number of rows per batch.
        columns: names of the columns to return, in this order; all by default.
        filters: as for ``create_dataloader``, like all other parameters; ``collate_fn`` belongs to
            the ``DataLoader``.
        storage_options: options for object stores.
        partitioning: ``"hive"`` turns ``key=value`` directories into columns.
        schema: Arrow schema of CSV and JSONL files.
        errors: what happens to files and lines that cannot be read.
    """

    def __init__(
        self,
        files: Sequence[DataFileInfo],
        format: str,
        batch_size: int = 1024,
        columns: Sequence[str] | None = None,
        filters: Any = None,
        *,
        storage_options: Any = None,
        partitioning: Literal["hive"] | None = None,
        schema: Any = None,
        errors: ErrorPolicy | None = None,
        **options: Unpack[BatchOptions],
    ) -> None:
        paths: list[PathLike] = [file.path for file in files]
        options = BatchOptions({"num_workers": 1, **options})
        data_options = {
            "storage_options": storage_options,
            "partitioning": partitioning,
            "schema": schema,
            "errors": errors,
        }
        super().__init__(
            _loader(paths, format, filters, batch_size, columns, data_options, options)
        )

    @staticmethod
    def create_dataloader(*args: Any, **options: Any) -> tuple[BatchLoader, BatchDataset]:
        """``create_dataloader``."""
        return create_dataloader(*args, **options)


def create_dataloader(
    path: PathLike | Sequence[PathLike],
    format: str,
    batch_size: int = 1024,
    columns: Sequence[str] | None = None,
    filters: Any = None,
    shuffle: bool = False,
    shuffle_seed: int = 42,
    split_bytes: int | str | None = None,
    split_rows: int | None = None,
    split_strategy: Any = None,
    num_workers: int | None = None,
    output_format: OutputKind = "torch",
    storage_options: Any = None,
    collate_fn: Callable[[Any], Any] | None = None,
    partitioning: Literal["hive"] | None = None,
    num_ranks: int = 1,
    rank: int = 0,
    show_progress: bool = False,
    progress_interval_sec: float = 120.0,
    shuffle_buffer_size: int | None = None,
    *,
    tail: Tail | None = None,
    drop_last: bool = False,
    lanes: int | None = None,
    nulls: NullPolicy = "raise",
    fill_values: dict[str, Any] | None = None,
    prefetch_bytes: int | str = DEFAULT_PREFETCH_BYTES,
    pin_memory: bool = False,
    device: Any = None,
    schema: Any = None,
    errors: ErrorPolicy | None = None,
) -> tuple[BatchLoader, BatchDataset]:
    """Create a ``DataLoader`` and its data set, with the parameters of torch-dataloader-utils.

    Native threads in this process read, decode and convert; there are no worker processes. Every
    row is returned once per epoch, for any number of threads and ranks. Iterating again starts the
    next epoch.

    Args:
        path: a file, a directory (read recursively), a glob, or a list of these.
        format: ``"parquet"``, ``"orc"``, ``"csv"``, ``"json"`` or ``"jsonl"``.
        batch_size: number of rows per batch; only the last batch of an epoch may have fewer.
        columns: names of the columns to return, in this order; all by default.
        filters: a ``pyarrow.compute.Expression``, or an expression of ``shardmill.col``. It may use
            any column of the files.
        shuffle: use a new row order in every epoch.
        shuffle_seed: seed of the order.
        split_bytes: validated, but without effect: a split is a row group, a stripe, or a run of
            lines, and threads take them one after another. It changes neither the rows nor their
            order.
        split_rows: like ``split_bytes``, in rows.
        split_strategy: ``None`` or a strategy of torch-dataloader-utils. These only distribute
            work, so they have no effect here. Other objects are rejected, because they could omit
            rows.
        num_workers: number of native threads; 0 uses the calling thread, ``None`` one thread per
            core.
        output_format: ``"torch"``, ``"numpy"`` and ``"dict"`` return dicts by column, ``"arrow"``
            returns record batches.
        storage_options: options for object stores.
        collate_fn: called with each batch; its result is returned. Not required.
        partitioning: ``"hive"`` turns ``key=value`` directories into columns.
        num_ranks: number of processes of the job. Each gets different rows.
        rank: rank of this process.
        show_progress: show a progress bar over the batches of a pass. Requires tqdm.
        progress_interval_sec: seconds between two updates of the bar.
        shuffle_buffer_size: number of rows, in whole row groups, that are shuffled together; 0 or
            less shuffles one row group at a time. By default, the rows that fit into 64 MiB.
            Requires ``shuffle``.
        tail: what happens to rows that do not fill a whole step of all ranks: ``"uneven"``
            (default) distributes them, so a rank may get one row or one batch less than another;
            ``"drop"`` drops them; ``"pad"`` adds rows from the start of the epoch, marked in a
            column ``__padded``. With ``DistributedDataParallel``, use ``"drop"`` or ``"pad"``: all
            ranks must run the same number of steps.
        drop_last: the same as ``tail="drop"``.
        lanes: as for ``shardmill.Loader``.
        nulls: as for ``shardmill.Output``, like ``fill_values``.
        fill_values: by column, for ``nulls="fill"``.
        prefetch_bytes: maximum decoded bytes that wait for the trainer.
        device: copy tensors to this device.
        schema: Arrow schema of CSV and JSONL files, as for ``shardmill.Dataset``; inferred by
            default.
        errors: what happens to files and lines that cannot be read, as for ``shardmill.Dataset``.
        pin_memory: put tensors in page-locked memory. Without an accelerator it warns and has no
            effect, as in torch.

    Returns:
        The loader, a ``BatchLoader``, and its data set, a ``BatchDataset``. Both have
        ``set_epoch``, ``state_dict`` and ``load_state_dict``; the data set also has ``get_metrics``
        and ``reset_metrics``.

    Raises:
        ValueError: If an option is not valid, or a function in ``filters`` has no counterpart; the
            message names the function.
        TypeError: If ``filters`` is not an expression.
        KeyError: If a column does not exist.
        FileNotFoundError: If a path does not exist.
        ImportError: If ``show_progress`` is set and tqdm is not installed.

    Examples:
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> import pyarrow.compute as pc
        >>> pq.write_table(pa.table({"x": list(range(10)), "label": [0, 1] * 5}), "labels.parquet")
        >>> from shardmill.integrations.torch import create_dataloader
        >>> loader, dataset = create_dataloader(
        ...     "labels.parquet",
        ...     "parquet",
        ...     batch_size=3,
        ...     columns=["x"],
        ...     filters=pc.field("label") == 0,
        ... )
        >>> [batch["x"].tolist() for batch in loader]
        [[0, 2, 4], [6, 8]]
        >>> dataset.state_dict()["epoch"]
        1
    """
    given = locals()
    options = cast(BatchOptions, {name: given[name] for name in BatchOptions.__annotations__})
    data_options = {
        "storage_options": storage_options,
        "partitioning": partitioning,
        "schema": schema,
        "errors": errors,
    }
    dataset = BatchDataset(
        _loader(path, format, filters, batch_size, columns, data_options, options)
    )
    batches = BatchLoader(
        dataset,
        collate_fn=collate_fn,
        show_progress=show_progress,
        progress_interval_sec=progress_interval_sec,
    )
    return batches, dataset


def _loader(
    path: Any,
    format: Any,
    filters: Any,
    batch_size: int,
    columns: Sequence[str] | None,
    data_options: dict[str, Any],
    options: BatchOptions,
) -> Loader:
    """Create the loader over the data set at ``path``.

    Errors use the option names of the caller.
    """
    check_choice("format", format, FileFormat)
    check_options(filters, options)
    dataset = Dataset(
        path, format=format, filter=filters, threads=options.get("num_workers"), **data_options
    )
    return loader_over(dataset, batch_size, columns, options)


def loader_over(
    dataset: Dataset, batch_size: int, columns: Sequence[str] | None, options: BatchOptions
) -> Loader:
    """Create a loader from torch-dataloader-utils options that do not belong to the data set."""
    shuffle, tail = options.get("shuffle", False), options.get("tail")
    ranks = whole("num_ranks", options.get("num_ranks", 1), 1)
    if options.get("drop_last") and tail not in (None, "drop"):
        raise OptionError(f'drop_last means tail="drop", which contradicts tail={tail!r}')
    pin_memory = options.get("pin_memory", False)
    if pin_memory and not _has_accelerator():
        warn_caller("pin_memory has no effect: there is no accelerator")
        pin_memory = False
    window = _window_bytes(dataset, shuffle, options.get("shuffle_buffer_size"))
    return Loader(
        dataset,
        batch_size=batch_size,
        columns=columns,
        shuffle=Shuffle(window) if shuffle is True else shuffle,
        seed=options.get("shuffle_seed", 42),
        lanes=options.get("lanes"),
        world_size=ranks,
        rank=options.get("rank", 0),
        tail="drop" if options.get("drop_last") else tail or "uneven",
        output=Output(
            options.get("output_format", "torch"),
            options.get("nulls", "raise"),
            options.get("fill_values"),
        ),
        runtime=Runtime(
            threads=options.get("num_workers"),
            prefetch_bytes=options.get("prefetch_bytes", DEFAULT_PREFETCH_BYTES),
            device=options.get("device"),
            pin_memory=pin_memory,
        ),
    )


def _window_bytes(dataset: Dataset, shuffle: bool, rows: int | None) -> int:
    if rows is None:
        return DEFAULT_WINDOW_BYTES
    if index_of(rows) is None:
        raise OptionError(f"shuffle_buffer_size must be an integer number of rows, not {rows!r}")
    if rows <= 0:
        return 0
    if not shuffle:
        raise OptionError("shuffle_buffer_size requires shuffle=True")
    plan = opened_files(dataset).row_plan()
    return math.ceil(plan.decoded_bytes * rows / max(1, plan.num_rows))


def _has_accelerator() -> bool:
    # Older versions of torch only know CUDA.
    return (
        torch.accelerator.is_available()
        if hasattr(torch, "accelerator")
        else torch.cuda.is_available()
    )
