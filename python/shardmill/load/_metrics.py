"""Counters of a loader, and where its time was spent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any

from shardmill._threads import OwnLock
from shardmill.load._trainer_time import TrainerTime
from shardmill.metrics._snapshot import Snapshot, StageSeconds, StorageMetrics, state
from shardmill.metrics._waits import WaitTimes
from shardmill.storage._configure import metrics as storage_metrics


@dataclass(frozen=True, kw_only=True)
class QueueMetrics(Snapshot):
    """What a running pass has ready for the trainer, now.

    A superbatch is several consecutive batches in one piece.

    Attributes:
        superbatches_ready: finished superbatches that wait for the trainer.
        superbatches_ahead: superbatches that are finished or that threads are working on.
        bytes: memory of superbatches ahead and of the decoded blocks that they need.
        bytes_limit: maximum of this memory, ``prefetch_bytes`` of the loader.
    """

    superbatches_ready: int = state(0)
    superbatches_ahead: int = state(0)
    bytes: int = state(0)
    bytes_limit: int = state(0)


@dataclass(frozen=True, kw_only=True)
class CostTerms(Snapshot):
    """The sums by which the coefficients of a ``Cost`` are multiplied, over delivered packs.

    Without a ``Balance``, they are 0.

    Attributes:
        token: number of tokens; with ``count_padding``, the length of the packs.
        pair: the sum of the squared lengths of documents, with the padding of ``multiple_of``.
        window_pair: the same, but one factor of each square is at most ``window``.
        patch: number of patches of images.
        patch_pair: the sum of the squared numbers of patches of images.
        image: number of images.
    """

    token: int = 0
    pair: int = 0
    window_pair: int = 0
    patch: int = 0
    patch_pair: int = 0
    image: int = 0

    def __add__(self, other: CostTerms) -> CostTerms:
        values = {item.name: getattr(other, item.name) for item in fields(self)}
        return CostTerms(**{name: getattr(self, name) + more for name, more in values.items()})


@dataclass(frozen=True, kw_only=True)
class LoaderMetrics(Snapshot):
    """Counters of a ``Loader``, over all its passes or between two calls.

    What is read as an Arrow stream counts in ``bytes_read`` and ``storage`` alone.

    Attributes:
        rank: rank of this process.
        world_size: number of ranks.
        epoch: epoch of the next batch.
        threads: decoding threads; 0 means the calling thread.
        transform_workers: worker processes of the transform; 0 means the calling thread.
        batches: batches delivered.
        rows: rows delivered, or packs.
        bytes_read: bytes of files that were asked for since the data set was opened: footers,
            columns of the filter and data, for all loaders of this ``Dataset`` or ``Mixture``.
            Ranges found in the local cache count as well. ``storage.bytes`` counts what stores have
            sent.
        elapsed_seconds: startup, waits and time of the trainer. It increases until the newest pass
            has ended or is closed.
        startup_seconds: time in ``iter()`` and ``next()`` up to the first batch of the loader. It
            does not count as a wait.
        trainer_seconds: time of the trainer between batches, including the current step. The time
            between two passes is added when the second one begins.
        wait: time inside ``iter()`` and ``next()`` after the first batch of the loader, including a
            call that has not returned. The histogram has one wait for each batch.
        plan_wait_seconds: time in ``iter()`` and ``next()`` for the plan of an epoch. Like the next
            two, it includes that of the first batch.
        superbatch_wait_seconds: time in ``next()`` without a finished superbatch.
        transform_wait_seconds: time in ``next()`` for the transform: its own time, or the wait for
            its workers.
        without_room_seconds: time during which no superbatch was begun because ``prefetch_bytes``
            were in use.
        stages: seconds of threads by stage.
        queue: what is ready for the trainer now.
        storage: requests of this process to all stores since the loader was created.
        blocks_decoded: blocks decoded; a block that two passes need counts twice.
        superbatches: superbatches finished.
        tokens: tokens computed in decoded blocks. What ``plan="epoch"`` tokenizes to count it is
            not included.
        text_bytes: bytes of the encoded texts, rendered conversations included; 0 for a function.
        rows_without_labels: rows with tokens but no label.
        special_in_text: special tokens that are spelled out in texts, under every policy; for
            messages, those of the template are included.
        images_left_out: images that documents were delivered without, because they have no plan,
            see ``ImageOutput``, or because no pack has room for them, see ``Packing``.
        images_decoded: images whose pixels were decoded.
        cost_terms: the terms of the cost of delivered packs, if there is a balance; see
            ``Cost.fit``.
    """

    rank: int = state(0)
    world_size: int = state(1)
    epoch: int = state(0)
    threads: int = state(0)
    transform_workers: int = state(0)
    batches: int = 0
    rows: int = 0
    bytes_read: int = 0
    elapsed_seconds: float = 0.0
    startup_seconds: float = 0.0
    trainer_seconds: float = 0.0
    wait: WaitTimes = field(default_factory=WaitTimes)
    plan_wait_seconds: float = 0.0
    superbatch_wait_seconds: float = 0.0
    transform_wait_seconds: float = 0.0
    without_room_seconds: float = 0.0
    stages: StageSeconds = field(default_factory=StageSeconds)
    queue: QueueMetrics = field(default_factory=QueueMetrics)
    storage: StorageMetrics = field(default_factory=StorageMetrics)
    blocks_decoded: int = 0
    superbatches: int = 0
    tokens: int = 0
    text_bytes: int = 0
    rows_without_labels: int = 0
    special_in_text: int = 0
    images_left_out: int = 0
    images_decoded: int = 0
    cost_terms: CostTerms = field(default_factory=CostTerms)


#: Counters at one point in time, and the nanoseconds between passes up to then.
Mark = tuple[LoaderMetrics, int]

_STAGES = [item.name for item in fields(StageSeconds)]
_COUNTS = (
    "blocks_decoded",
    "superbatches",
    "tokens",
    "text_bytes",
    "rows_without_labels",
    "special_in_text",
    "images_left_out",
    "images_decoded",
)


class Counters:
    """Sums over all passes of a loader, in nanoseconds of ``clock``."""

    def __init__(self, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self.clock = clock
        self.time = TrainerTime(clock)
        self.rows = 0
        self.batches = 0
        self.cost_terms = CostTerms()
        #: Time of the transform, summed over its workers, and the part that the trainer waited for.
        self.transform = 0
        self.transform_wait = 0
        #: Time in which the calling thread planned.
        self.plan = 0
        self.storage_before = storage_metrics()
        #: Start of the time that ``diagnosis`` judges, and the last ``metrics(since_last=True)``.
        self.judged_from: Mark | None = None
        self.last_metrics: LoaderMetrics | None = None
        self._ended: dict[str, float] = {}
        self._running: dict[int, Any] = {}
        #: Held while a pass moves from those that run to those that ended: a report counts it once.
        self._lock = OwnLock()

    @contextmanager
    def planning(self) -> Iterator[None]:
        """Count the time of the block as planning, for which the trainer waits."""
        self.time.ask()
        try:
            yield
        finally:
            self.plan += self.time.planned()

    def received(self, rows: int, notes: list[Any]) -> None:
        """Count a batch that is delivered."""
        self.rows += rows
        self.batches += 1
        for note in notes:
            if isinstance(note, CostTerms):
                self.cost_terms += note

    def begin(self, native: Any) -> None:
        """Start a pass."""
        with self._lock():
            self._running[id(native)] = native

    def end(self, native: Any) -> None:
        """End a pass."""
        with self._lock():
            self._running.pop(id(native), None)
            _add(self._ended, native.metrics())

    def report(self, *, prefetch_bytes: int = 0, **given: Any) -> LoaderMetrics:
        """Return all totals, including those of running passes.

        ``given`` has the fields that the loader knows.
        """
        running: dict[str, float] = {}
        with self._lock():
            sums = dict(self._ended)
            for native in list(self._running.values()):
                _add(running, native.metrics())
            startup, wait, trainer = self.time.totals()
        _add(sums, running)
        stages = {name: float(sums.get(name, 0.0)) for name in _STAGES}
        stages["plan"] += self.plan / 1e9
        stages["transform"] += self.transform / 1e9
        return LoaderMetrics(
            rows=self.rows,
            batches=self.batches,
            cost_terms=self.cost_terms,
            elapsed_seconds=(startup + wait + trainer) / 1e9,
            startup_seconds=startup / 1e9,
            trainer_seconds=trainer / 1e9,
            wait=replace(self.time.waits.times(), seconds=wait / 1e9),
            plan_wait_seconds=self.plan / 1e9,
            superbatch_wait_seconds=sums.get("wait_seconds", 0.0),
            transform_wait_seconds=self.transform_wait / 1e9,
            without_room_seconds=sums.get("without_room_seconds", 0.0),
            stages=StageSeconds(**stages),
            queue=QueueMetrics(
                superbatches_ready=int(running.get("superbatches_ready", 0)),
                superbatches_ahead=int(running.get("superbatches_ahead", 0)),
                bytes=int(running.get("bytes_ahead", 0)),
                bytes_limit=prefetch_bytes,
            ),
            storage=storage_metrics() - self.storage_before,
            **{name: int(sums.get(name, 0)) for name in _COUNTS},
            **given,
        )

    def __getstate__(self) -> dict[str, Any]:
        # Another process counts from 0.
        return {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__()


def _add(sums: dict[str, float], more: dict[str, float]) -> None:
    for name, value in more.items():
        sums[name] = sums.get(name, 0) + value
