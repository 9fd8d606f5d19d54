"""Batches of a :class:`shardmill.Loader` as a data set of torch.

In the process of the trainer the loader is iterated as it is: its threads do the work. In worker processes of a
``DataLoader`` each has a loader of its own and takes every n-th batch of it. The invariant: whatever the number of
workers and however they were started, the ``DataLoader`` delivers the batches of the loader, each once, in its order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch.utils.data import IterableDataset, get_worker_info

from shardmill.errors import CheckpointMismatchError, EngineError
from shardmill.integrations.torch.metrics import WorkerMetrics
from shardmill.integrations.torch.parcels import parcel
from shardmill.integrations.torch.passes import Passes
from shardmill.loader import Loader

_WORKER = "worker"


@dataclass
class _Share:
    """What a worker delivers of a pass."""

    epoch: int
    #: Rows of the epoch that were delivered before the pass.
    consumed: int
    #: Number of the worker's next batch, counted from the start of the pass.
    next: int
    workers: int


def unchanged(batch: Any) -> Any:
    """A ``collate_fn`` for batches that are made already: torch's own goes through every text of them, and makes tensors of arrays."""
    return batch


class BatchDataset(IterableDataset):
    """The batches of a :class:`shardmill.Loader`, for any ``torch.utils.data.DataLoader``.

    Give it to a ``DataLoader`` with ``batch_size=None``: batches are made already. Where they have texts or other
    objects, add ``collate_fn=unchanged``, or torch goes through each of them. With ``num_workers=0`` the native
    threads of the loader work in the process of the trainer; that is the fast way, nothing is copied between
    processes. With worker processes, started by fork, spawn or forkserver, persistent or not, worker ``w`` of ``k``
    makes the batches ``w, w + k, w + 2k, …``. A ``DataLoader`` takes batches from its workers in turn, so they arrive
    in the loader's own order, and each row once. The price: batches are copied between processes, and each worker
    decodes the row groups that its batches touch, which are most of them.

    How many workers there are is asked when a pass begins, never before. Iterating again delivers a new epoch, with
    or without :meth:`set_epoch`; in worker processes also after a pass that was left early, because they do not see
    where the trainer stopped.

    State: :meth:`state_dict` tells the position behind the last batch that was handed out, when batches are made in
    this process. With worker processes take the state from ``torchdata.stateful_dataloader.StatefulDataLoader``,
    which asks each worker; a state continues on the same number of workers there. A state that is saved between the
    last batch of an epoch and its end continues with an empty rest of that epoch.

    Args:
        loader: with the options for batches, order and ranks. In a job of several ranks each has a loader of its own,
            with its ``rank`` and ``world_size``: do not let Accelerate or Lightning share out the batches a second
            time.

    Example:
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
        self._passes = Passes()
        #: In a worker: how often it was told to begin, the position of its pass, and a position to begin at.
        self._begun = 0
        self._share: _Share | None = None
        self._resumed: _Share | None = None
        self._base: dict[str, Any] | None = None
        self._metrics_before = WorkerMetrics()

    @property
    def loader(self) -> Loader:
        """What makes the batches."""
        return self._loader

    def __len__(self) -> int:
        """Batches of one whole epoch on this rank, over all workers."""
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        if worker is None:
            return iter(self._loader)
        # The seed that all workers of an iterator have in common.
        self._begun += 1
        key = (worker.seed - worker.id, self._begun)
        if (resumed := self._resumed) is not None:
            self._resumed = None
            if resumed.workers != worker.num_workers:
                raise CheckpointMismatchError(
                    f"the state was saved with {resumed.workers} worker processes, now there are {worker.num_workers}"
                )
            self._passes.resumed(key, resumed.epoch, resumed.consumed)
            self._share = resumed
        else:
            epoch, consumed = self._passes.begin(key, self._loader.start)
            self._share = _Share(epoch, consumed, worker.id, worker.num_workers)
        self._base = None
        return self._shared(self._share)

    def set_epoch(self, epoch: int) -> None:
        """The next pass is ``epoch``, also in workers that are running already.

        In the epoch of a state that was loaded, its position is kept.
        """
        before = self._loader.epoch
        self._loader.set_epoch(epoch)
        if epoch == before and self._passes.have_begun():
            # Workers have used the position that this process still knows.
            self._loader.restart_epoch()
        self._passes.move(*self._loader.start)

    def state_dict(self) -> dict[str, Any]:
        """The position behind the last batch: plain JSON values, the same on every rank. Taking it changes nothing.

        Raises:
            RuntimeError: when worker processes make the batches; what the trainer has got of them is not known here.
        """
        if self._share is not None and get_worker_info() is not None:
            # Fingerprints do not change from batch to batch.
            self._base = self._base or self._loader.state_dict()
            share = self._share
            return {
                **self._base,
                "epoch": share.epoch,
                "consumed": share.consumed,
                _WORKER: {"next": share.next, "workers": share.workers},
            }
        if self._passes.have_begun():
            raise EngineError(
                "batches are made in worker processes, and what the trainer has got of them is not known here\n"
                "hint: use torchdata's StatefulDataLoader and its state_dict(), or num_workers=0, where threads "
                "make the batches"
            )
        return self._loader.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The next pass continues behind the last batch that ``state`` knows.

        Raises:
            CheckpointMismatchError: when the state belongs to other data, another order, or another number of
                workers. It is a ``ValueError``.
        """
        worker = state.get(_WORKER) if isinstance(state, dict) else None
        self._loader.load_state_dict(
            {name: value for name, value in state.items() if name != _WORKER} if worker else state
        )
        if worker is None:
            self._passes.move(*self._loader.start)
            return
        if get_worker_info() is None:
            raise CheckpointMismatchError(
                "this is the state of one worker process\n"
                "hint: load the whole state into a StatefulDataLoader of as many workers"
            )
        self._resumed = _Share(state["epoch"], state["consumed"], worker["next"], worker["workers"])

    def get_metrics(self) -> list[WorkerMetrics]:
        """What was done since the last :meth:`reset_metrics`: one entry, for this process.

        Batches of worker processes are not in it.
        """
        return [WorkerMetrics.of(self._loader).minus(self._metrics_before)]

    def reset_metrics(self) -> None:
        """:meth:`get_metrics` counts from here."""
        self._metrics_before = WorkerMetrics.of(self._loader)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_base": None}

    def _shared(self, share: _Share) -> Iterator[Any]:
        # The cores belong to the other workers as well.
        threads = self._loader.threads and max(1, self._loader.threads // share.workers)
        batches = self._loader.every(
            share.workers, first=share.next, epoch=share.epoch, consumed=share.consumed, threads=threads
        )
        for batch in batches:
            share.next += share.workers
            yield parcel(batch)
