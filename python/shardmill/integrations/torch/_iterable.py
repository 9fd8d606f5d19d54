"""Batches of a ``shardmill.Loader`` as a torch data set.

In the process of the trainer, the loader is iterated directly and its threads do the work. In
worker processes of a ``DataLoader``, each worker has its own loader and takes every n-th batch of
it. Invariant: for any number of workers and any start method, the ``DataLoader`` returns the
batches of the loader, each once, in order.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

from torch.utils.data import IterableDataset, get_worker_info

from shardmill.data._own_methods import refuse_own_batches
from shardmill.errors import CheckpointMismatchError, EngineError, OptionError
from shardmill.integrations.torch._metrics import WorkerMetrics
from shardmill.integrations.torch._parcels import parcel
from shardmill.integrations.torch._passes import Passes
from shardmill.load._loader import Loader, iteration_of
from shardmill.load._metrics import LoaderMetrics

_WORKER = "worker"


@dataclass
class _Share:
    """The share of a pass that a worker delivers."""

    epoch: int
    #: Rows of the epoch that were delivered before the pass.
    consumed: int
    #: Index of the worker's next batch, counted from the start of the pass.
    next: int
    workers: int
    #: State of the loader at the start of the pass, once it was asked for.
    base: dict[str, Any] | None = None


def unchanged(batch: Any) -> Any:
    """Return the batch unchanged: a ``collate_fn`` for complete batches.

    torch's default visits every string, and converts arrays to tensors.
    """
    return batch


def _refuse_collation(frame: FrameType | None) -> None:
    """Check that a ``DataLoader`` that asks for the iterator does not put its batches together.

    A ``DataLoader`` does not tell its data set about its options. Its fetcher, in this process or
    in a worker, calls ``iter()`` and knows.
    """
    caller = None if frame is None else frame.f_back
    fetcher = None if caller is None else caller.f_locals.get("self")
    if getattr(fetcher, "auto_collation", False) is True:
        raise OptionError(
            "this DataLoader would put several batches of the Loader into one batch\n"
            "hint: pass DataLoader(dataset, batch_size=None), "
            "and set the number of rows per batch on the Loader; "
            "for a Trainer of transformers, use shardmill.integrations.transformers.LoaderMixin"
        )


def _refuse_dispatch(frame: FrameType | None, loader: Loader) -> None:
    """Check that Accelerate does not distribute the batches of one of several ranks."""
    while frame is not None and loader.world_size > 1:
        if type(frame.f_locals.get("self")).__name__ == "DataLoaderDispatcher":
            raise OptionError(
                f"Accelerate would share out the batches of rank {loader.rank} of "
                f"{loader.world_size} again, and rows would be lost\n"
                "hint: leave the loader out of accelerator.prepare() and iterate over it; or use "
                "shardmill.integrations.accelerate.DispatchedLoader"
            )
        frame = frame.f_back


class BatchDataset(IterableDataset):
    """The batches of a ``shardmill.Loader``, for any ``torch.utils.data.DataLoader``.

    Pass it to a ``DataLoader`` with ``batch_size=None``, because batches are complete; any other
    value raises an error. If they contain strings or other objects, add ``collate_fn=unchanged``,
    or torch visits each of them. With ``num_workers=0`` the native threads of the loader run in the
    process of the trainer; this is the fastest setup, because nothing is copied between processes.
    With worker processes (fork, spawn or forkserver, persistent or not), worker ``w`` of ``k``
    makes the batches ``w, w + k, w + 2k, …``. A ``DataLoader`` takes batches from its workers in
    turn, so they arrive in the order of the loader, and each row once. The cost: batches are copied
    between processes, and each worker decodes all row groups that its batches touch, usually most
    of them. ``max_rows`` of an ``ErrorPolicy`` limits the bad rows of each worker, and
    ``Loader.bad_rows`` stays empty, because the trainer does not see them. A ``Transform`` runs in
    the workers themselves.

    The number of workers is determined when a pass starts. Iterating again starts a new epoch, with
    or without ``set_epoch``. With worker processes, this is also true after a pass that was left
    early, because workers do not see where the trainer stopped.

    State: if batches are made in this process, ``state_dict`` returns the position after the last
    returned batch. With worker processes, take the state from
    ``torchdata.stateful_dataloader.StatefulDataLoader``, which asks each worker; such a state
    continues on the same number of workers, with the same ``batch_size * world_size``. A state
    saved between the last batch of an epoch and its end continues with the empty rest of that
    epoch.

    Args:
        loader: the loader, with the options for batches, order and ranks. In a job with several
            ranks, each rank has its own loader with its ``rank`` and ``world_size``; do not let
            Accelerate or Lightning shard the batches a second time.

    Examples:
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> pq.write_table(pa.table({"x": list(range(10))}), "ten.parquet")
        >>> import shardmill as sm
        >>> from shardmill.integrations.torch import BatchDataset
        >>> from torch.utils.data import DataLoader
        >>> dataset = BatchDataset(sm.Loader("ten.parquet", batch_size=4, rank=0, world_size=1))
        >>> [batch["x"].tolist() for batch in DataLoader(dataset, batch_size=None, num_workers=2)]
        [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    """

    def __init__(self, loader: Loader) -> None:
        super().__init__()
        self._loader = loader
        self._iteration = iteration_of(loader)
        self._cursor = self._iteration.cursor
        self._passes = Passes()
        self._cursor.is_elsewhere = self._passes.have_begun
        #: In a worker: the number of passes started, the share of the pass, and one to start with.
        self._begun = 0
        self._share: _Share | None = None
        self._resumed: _Share | None = None
        self._metrics_before = LoaderMetrics()

    @property
    def loader(self) -> Loader:
        """The loader that makes the batches."""
        return self._loader

    def __len__(self) -> int:
        """Return the number of batches of a whole epoch on this rank, over all workers."""
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        _refuse_collation(inspect.currentframe())
        _refuse_dispatch(inspect.currentframe(), self._loader)
        worker = get_worker_info()
        if worker is None:
            return iter(self._loader)
        refuse_own_batches(self._loader, "a worker process")
        if self._cursor.ledger.is_audited:
            raise OptionError(
                "Runtime(audit=True) has no effect in worker processes, "
                "whose checksums the trainer does not get\n"
                "hint: use num_workers=0, or create the Loader without audit=True"
            )
        if self._cursor.plan.set_weights is not None:
            raise OptionError(
                "the weights of the mixture were set during the run, which worker processes do not "
                "support\nhint: use num_workers=0, where threads make the batches"
            )
        # The seed shared by all workers of an iterator.
        self._begun += 1
        key = (worker.seed - worker.id, self._begun)
        share, self._resumed = self._resumed, None
        if share is not None:
            if share.workers != worker.num_workers:
                raise CheckpointMismatchError(
                    f"the state was saved with {share.workers} worker processes, "
                    f"this DataLoader has {worker.num_workers}"
                )
            self._passes.begin(
                key, worker.id, (share.epoch, share.consumed), self._cursor.plan.lanes
            )
        else:
            epoch, consumed, lanes = self._passes.begin(key, worker.id, self._cursor.start)
            if lanes is not None:
                # Workers that have ended loaded a state, and this one has not.
                self._cursor.plan = self._cursor.plan.with_lanes(lanes)
            share = _Share(epoch, consumed, worker.id, worker.num_workers)
        self._share = share
        return self._shared(share)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next pass, also in workers that are already running.

        In the epoch of a loaded state, its position is kept.
        """
        before = self._loader.epoch
        self._loader.set_epoch(epoch)
        if epoch == before and self._passes.have_begun():
            # Workers have used the position that this process still holds.
            self._cursor.restart_epoch()
        self._passes.move(*self._cursor.start)

    def state_dict(self) -> dict[str, Any]:
        """Return the position after the last batch as plain JSON values, the same on every rank.

        Calling it has no side effects.

        Raises:
            RuntimeError: If worker processes make the batches: their position is not known here.
        """
        if (share := self._share) is not None and get_worker_info() is not None:
            # It does not change from batch to batch.
            share.base = share.base or self._cursor.state(share.epoch, share.consumed)
            return {
                **share.base,
                _WORKER: {
                    "next": share.next,
                    "workers": share.workers,
                    "step": self._cursor.plan.step_rows,
                },
            }
        if self._passes.have_begun():
            raise EngineError(
                "batches are made in worker processes, "
                "so the number of batches the trainer has received is not known here\n"
                "hint: use torchdata's StatefulDataLoader and its state_dict(), or num_workers=0, "
                "where threads make the batches"
            )
        return self._loader.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue the next pass after the last batch recorded in ``state``.

        Raises:
            CheckpointMismatchError: If the state belongs to other data, another order, or another
                number of workers. It is a ``ValueError``.
        """
        worker = state.get(_WORKER) if isinstance(state, dict) else None
        self._loader.load_state_dict(
            {name: value for name, value in state.items() if name != _WORKER} if worker else state
        )
        if worker is None:
            self._passes.move(*self._cursor.start, self._cursor.plan.lanes)
            return
        if get_worker_info() is None:
            raise CheckpointMismatchError(
                "this is the state of one worker process\n"
                "hint: load the whole state into a StatefulDataLoader "
                "with the same number of workers"
            )
        own = self._cursor.plan.step_rows
        if (step := worker.get("step")) != own:
            raise CheckpointMismatchError(
                "the state of this worker process was saved "
                f"with {step} rows per step over all ranks, but this loader has {own}\n"
                "hint: use the same batch_size * world_size, or take states with num_workers=0"
            )
        self._resumed = _Share(state["epoch"], state["consumed"], worker["next"], worker["workers"])

    def get_metrics(self) -> list[WorkerMetrics]:
        """Return the counters since the last ``reset_metrics``, as one entry for this process.

        Batches of worker processes are not counted.
        """
        counted = self._loader.metrics() - self._metrics_before
        return [
            WorkerMetrics(
                rows_read=counted.rows,
                batches_read=counted.batches,
                bytes_read=counted.bytes_read,
                files_read=len(self._loader.dataset.files) if counted.rows else 0,
                elapsed_sec=counted.elapsed_seconds,
            )
        ]

    def reset_metrics(self) -> None:
        """Reset the counters of ``get_metrics``."""
        self._metrics_before = self._loader.metrics()

    def _shared(self, share: _Share) -> Iterator[Any]:
        # Cores are shared with the other workers.
        threads = self._loader.threads and max(1, self._loader.threads // share.workers)
        batches = self._iteration.every(
            share.workers,
            first=share.next,
            epoch=share.epoch,
            consumed=share.consumed,
            threads=threads,
        )
        for batch in batches:
            share.next += share.workers
            yield parcel(batch)
