"""The calls of torch-dataloader-utils, over native threads."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader

from shardmill.dataset import DEFAULT_PREFETCH_BYTES, DEFAULT_WINDOW_BYTES, Dataset, PathLike
from shardmill.errors import OptionError
from shardmill.expressions import Expression
from shardmill.integrations.torch.files import DataFileInfo
from shardmill.integrations.torch.iterable import BatchDataset, unchanged
from shardmill.integrations.torch.options import FORMATS, OUTPUT_FORMATS, check_splits, one_of
from shardmill.loader import Loader


class BatchLoader(DataLoader):
    """A ``DataLoader`` over a :class:`BatchDataset` whose threads work in this process. It has a state.

    Lightning saves and loads that state with its checkpoints. Accelerate would share out the batches once more, and lose
    all but one part in ``num_ranks`` of the rows: so where there are several ranks, ``accelerator.prepare(loader)``
    returns the loader as it is. Make it with ``num_ranks=accelerator.num_processes``,
    ``rank=accelerator.process_index`` and ``device=accelerator.device``.
    """

    def __init__(
        self,
        dataset: BatchDataset,
        *,
        collate_fn: Callable[[Any], Any] | None = None,
        show_progress: bool = False,
        progress_interval_sec: float = 120.0,
    ) -> None:
        # torch's own function would turn arrays into tensors.
        super().__init__(dataset, batch_size=None, num_workers=0, collate_fn=collate_fn or unchanged)
        # By this Accelerate knows a loader that it need not wrap.
        self._is_accelerate_prepared = dataset.loader.world_size > 1
        self._batches = dataset
        self._progress_interval = progress_interval_sec if show_progress else None

    def __iter__(self) -> Iterator[Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The batches; torch's own iterator would spend as long on a small batch as its rows need."""
        batches = iter(self._batches)
        if self.collate_fn is not unchanged:
            batches = map(self.collate_fn, batches)
        return batches if self._progress_interval is None else self._shown(batches, self._progress_interval)

    def state_dict(self) -> dict[str, Any]:
        """The position behind the last batch that was handed out; see :meth:`BatchDataset.state_dict`."""
        return self._batches.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The next pass continues there; see :meth:`BatchDataset.load_state_dict`."""
        self._batches.load_state_dict(state)

    def set_epoch(self, epoch: int) -> None:
        """The next pass is ``epoch``."""
        self._batches.set_epoch(epoch)

    def _shown(self, batches: Iterator[Any], interval: float) -> Iterator[Any]:
        from tqdm import tqdm

        _, consumed = self._batches.loader.start
        total = len(self) if consumed == 0 else None
        with tqdm(total=total, unit="batch", mininterval=interval, maxinterval=interval, leave=False) as bar:
            for batch in batches:
                yield batch
                bar.update()


class StructuredDataset(BatchDataset):
    """A :class:`BatchDataset` over data files that are known already, with the parameters of torch-dataloader-utils.

    Args:
        files: in the order of their rows.
        num_workers: native threads; 0 is the thread that iterates. The processes of a ``DataLoader`` around the data
            set are another matter.

    All other parameters are those of :func:`create_dataloader`; ``collate_fn`` is the ``DataLoader``'s.
    """

    def __init__(
        self,
        files: Sequence[DataFileInfo],
        format: str,
        batch_size: int = 1024,
        columns: Sequence[str] | None = None,
        filters: Any = None,
        shuffle: bool = False,
        shuffle_seed: int = 42,
        split_bytes: int | str | None = None,
        split_rows: int | None = None,
        split_strategy: Any = None,
        num_workers: int | None = 1,
        output_format: str = "torch",
        storage_options: Any = None,
        partitioning: str | None = None,
        num_ranks: int = 1,
        rank: int = 0,
        shuffle_buffer_size: int | None = None,
        **more: Any,
    ) -> None:
        loader = _loader(
            [file.path for file in files],
            format=format,
            batch_size=batch_size,
            columns=columns,
            filters=filters,
            shuffle=shuffle,
            shuffle_seed=shuffle_seed,
            split_bytes=split_bytes,
            split_rows=split_rows,
            split_strategy=split_strategy,
            num_workers=num_workers,
            output_format=output_format,
            storage_options=storage_options,
            partitioning=partitioning,
            num_ranks=num_ranks,
            rank=rank,
            shuffle_buffer_size=shuffle_buffer_size,
            **more,
        )
        super().__init__(loader)

    @staticmethod
    def create_dataloader(*args: Any, **options: Any) -> tuple[BatchLoader, BatchDataset]:
        """:func:`create_dataloader`."""
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
    output_format: str = "torch",
    storage_options: Any = None,
    collate_fn: Callable[[Any], Any] | None = None,
    partitioning: str | None = None,
    num_ranks: int = 1,
    rank: int = 0,
    show_progress: bool = False,
    progress_interval_sec: float = 120.0,
    shuffle_buffer_size: int | None = None,
    *,
    tail: str | None = None,
    drop_last: bool = False,
    lanes: int | None = None,
    nulls: str = "error",
    fill_values: dict[str, Any] | None = None,
    on_bad_file: str = "error",
    prefetch_bytes: int = DEFAULT_PREFETCH_BYTES,
    pin_memory: bool = False,
    device: Any = None,
    schema: Any = None,
    bad_lines: str = "error",
) -> tuple[BatchLoader, BatchDataset]:
    """A ``DataLoader`` and its data set, with the parameters of torch-dataloader-utils.

    Native threads in this process read, decode and convert; there are no worker processes. Every row comes once in an
    epoch, whatever the numbers of threads and ranks. Iterating again gives the next epoch.

    Args:
        path: a file, a directory (read recursively), a glob, or a list of these.
        format: ``"parquet"``, ``"orc"``, ``"csv"``, ``"json"`` or ``"jsonl"``.
        batch_size: rows in a batch; only the last one of an epoch may have fewer.
        columns: names of the columns to deliver, in this order; all when ``None``.
        filters: a ``pyarrow.compute.Expression``, or one of :func:`shardmill.col`. It may use any column of the
            files.
        shuffle: a new order of rows in every epoch.
        shuffle_seed: of the order.
        split_bytes: checked, and not needed: a split is a row group, a stripe, or a run of lines, and threads take them
            one after the other. No value changes which rows come, in which order, or who waits for whom.
        split_rows: the same in rows.
        split_strategy: ``None`` or one of torch-dataloader-utils' own, which only share out work and so change
            nothing here either. Another object is refused: it could leave rows out.
        num_workers: native threads; 0 is the thread that iterates, ``None`` one a core.
        output_format: ``"torch"``, ``"numpy"`` and ``"dict"`` give dicts by column, ``"arrow"`` gives record batches.
        storage_options: for object stores.
        collate_fn: called with each batch; its result is delivered. Never needed.
        partitioning: ``"hive"`` turns ``key=value`` folders into columns.
        num_ranks: processes of the job. They get different rows.
        rank: of this process.
        show_progress: a progress bar over the batches of a pass. Needs tqdm.
        progress_interval_sec: between two updates of the bar.
        shuffle_buffer_size: so many rows, in whole row groups, are mixed with one another; 0 or less mixes one row
            group at a time. When ``None``, what fits into 128 MiB. Needs ``shuffle``.
        tail: what becomes of rows that fill no whole step of all ranks: ``"uneven"`` (default) shares them out, so a
            rank may get one row or one batch less than another; ``"drop"`` leaves them out; ``"pad"`` fills up with
            rows of the epoch's start, which a column ``__padded`` marks. With ``DistributedDataParallel`` take one of
            the last two: ranks must do equal numbers of steps.
        drop_last: the same as ``tail="drop"``.
        lanes: as for :class:`shardmill.Loader`, and so are the next three and ``device``.
        nulls: what becomes of nulls in columns that have no place for them.
        fill_values: by column, for ``nulls="fill"``.
        on_bad_file: ``"error"`` or ``"skip"``.
        prefetch_bytes: decoded bytes that may wait for the trainer.
        device: tensors on this device.
        schema: of CSV and JSONL files, as for :class:`shardmill.Dataset`; inferred when ``None``.
        bad_lines: of CSV and JSONL files, ``"error"``, ``"skip"`` or ``"null"``.
        pin_memory: tensors in page-locked memory. Without an accelerator it warns and does nothing, as torch's own
            does.

    Returns:
        The loader, a :class:`BatchLoader`, and its data set, a :class:`BatchDataset`: both have ``set_epoch``,
        ``state_dict`` and ``load_state_dict``, and the data set ``get_metrics`` and ``reset_metrics``.

    Raises:
        ValueError: for an option that means nothing, and for a function in ``filters`` that has no counterpart, which
            it names.
        TypeError: when ``filters`` is no expression.
        KeyError: when a column does not exist.
        FileNotFoundError: when a path does not exist.
        ImportError: when ``show_progress`` lacks tqdm.

    Example:
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> import pyarrow.compute as pc
        >>> pq.write_table(pa.table({"x": list(range(10)), "label": [0, 1] * 5}), "labels.parquet")
        >>> from shardmill.integrations.torch import create_dataloader
        >>> loader, dataset = create_dataloader("labels.parquet", "parquet", batch_size=3, columns=["x"], filters=pc.field("label") == 0)
        >>> [batch["x"].tolist() for batch in loader]
        [[0, 2, 4], [6, 8]]
        >>> dataset.state_dict()["epoch"]
        1
    """
    check_tqdm(show_progress)
    if collate_fn is not None and not callable(collate_fn):
        raise TypeError(f"collate_fn is a function of a batch, not {collate_fn!r}")
    loader = _loader(
        path,
        format=format,
        batch_size=batch_size,
        columns=columns,
        filters=filters,
        shuffle=shuffle,
        shuffle_seed=shuffle_seed,
        split_bytes=split_bytes,
        split_rows=split_rows,
        split_strategy=split_strategy,
        num_workers=num_workers,
        output_format=output_format,
        storage_options=storage_options,
        partitioning=partitioning,
        num_ranks=num_ranks,
        rank=rank,
        shuffle_buffer_size=shuffle_buffer_size,
        tail=tail,
        drop_last=drop_last,
        lanes=lanes,
        nulls=nulls,
        fill_values=fill_values,
        on_bad_file=on_bad_file,
        prefetch_bytes=prefetch_bytes,
        pin_memory=pin_memory,
        device=device,
        schema=schema,
        bad_lines=bad_lines,
    )
    dataset = BatchDataset(loader)
    batches = BatchLoader(
        dataset, collate_fn=collate_fn, show_progress=show_progress, progress_interval_sec=progress_interval_sec
    )
    return batches, dataset


def check_tqdm(show_progress: bool) -> None:
    """Refuses a progress bar that nobody can draw.

    Raises:
        ImportError: with what to install.
    """
    if show_progress:
        try:
            import tqdm  # noqa: F401
        except ImportError as missing:
            raise ImportError("show_progress needs tqdm\nhint: pip install tqdm") from missing


def _loader(
    path: PathLike | Sequence[PathLike],
    *,
    format: str,
    filters: Any,
    split_bytes: int | str | None,
    split_rows: int | None,
    split_strategy: Any,
    num_workers: int | None,
    storage_options: Any,
    partitioning: str | None,
    on_bad_file: str = "error",
    schema: Any = None,
    bad_lines: str = "error",
    **batches: Any,
) -> Loader:
    """The options in our own words; nonsense is refused under the names that the caller knows."""
    one_of("format", format, FORMATS)
    one_of("output_format", batches["output_format"], OUTPUT_FORMATS)
    check_splits(split_bytes, split_rows, split_strategy)
    check_filters(filters)
    _whole("num_workers", 0 if num_workers is None else num_workers, 0)
    dataset = Dataset(
        path,
        format=format,
        filter=filters,
        storage_options=storage_options,
        partitioning=partitioning,
        on_bad_file=on_bad_file,
        schema=schema,
        bad_lines=bad_lines,
        threads=num_workers,
    )
    return loader_over(dataset, num_workers=num_workers, **batches)


def loader_over(
    dataset: Dataset,
    *,
    num_workers: int | None,
    output_format: str,
    shuffle: bool,
    shuffle_seed: int,
    shuffle_buffer_size: int | None,
    num_ranks: int,
    rank: int,
    tail: str | None = None,
    drop_last: bool = False,
    pin_memory: bool = False,
    **more: Any,
) -> Loader:
    """A loader with the options of torch-dataloader-utils that no data set knows."""
    _whole("num_ranks", num_ranks, 1)
    if isinstance(rank, bool) or not isinstance(rank, int) or not 0 <= rank < num_ranks:
        raise OptionError(f"rank lies in [0, {num_ranks}), it is not {rank!r}")
    if drop_last and tail not in (None, "drop"):
        raise OptionError(f'drop_last is tail="drop", and contradicts tail={tail!r}')
    if pin_memory and not _has_accelerator():
        warnings.warn("pin_memory has no effect: there is no accelerator", stacklevel=4)
        pin_memory = False
    return Loader(
        dataset,
        shuffle=shuffle,
        seed=shuffle_seed,
        shuffle_window_bytes=_window_bytes(dataset, shuffle, shuffle_buffer_size),
        world_size=num_ranks,
        rank=rank,
        tail="drop" if drop_last else tail or "uneven",
        output=output_format,
        threads=num_workers,
        pin_memory=pin_memory,
        **more,
    )


def check_filters(filters: Any) -> None:
    """Refuses what is no expression.

    Raises:
        TypeError: with the two kinds of expressions that are taken.
    """
    if filters is None or isinstance(filters, Expression):
        return
    kind = type(filters)
    if kind.__name__ == "Expression" and kind.__module__.partition(".")[0] == "pyarrow":
        return
    raise TypeError(f"filters is a pyarrow.compute.Expression or one of shardmill.col, not {kind.__name__}")


def _window_bytes(dataset: Dataset, shuffle: bool, rows: int | None) -> int:
    if rows is None:
        return DEFAULT_WINDOW_BYTES
    if isinstance(rows, bool) or not isinstance(rows, int):
        raise OptionError(f"shuffle_buffer_size is a whole number of rows, not {rows!r}")
    if rows <= 0:
        return 0
    if not shuffle:
        raise OptionError("shuffle_buffer_size is for shuffle=True")
    plan = dataset.row_plan()
    return math.ceil(plan.decoded_bytes * rows / max(1, plan.num_rows))


def _whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise OptionError(f"{name} is a whole number of at least {least}, not {value!r}")


def _has_accelerator() -> bool:
    # Older versions of torch know of one kind.
    return torch.accelerator.is_available() if hasattr(torch, "accelerator") else torch.cuda.is_available()
