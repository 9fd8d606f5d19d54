"""Counters of a loader, and where its time was spent."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from shardmill.metrics._snapshot import Snapshot, StageSeconds, StorageMetrics, state
from shardmill.metrics._waits import Histogram, WaitTimes
from shardmill.storage._configure import metrics as storage_metrics


@dataclass(frozen=True, kw_only=True)
class QueueMetrics(Snapshot):
    """What a running pass has ready for the trainer, now. A superbatch is several consecutive batches in one piece.

    Attributes:
        superbatches_ready: finished superbatches that wait for the trainer.
        superbatches_ahead: those, and the ones that threads are working on.
        bytes: memory of superbatches ahead and of the decoded blocks that they need.
        bytes_limit: ``prefetch_bytes`` of the loader.
    """

    superbatches_ready: int = state(0)
    superbatches_ahead: int = state(0)
    bytes: int = state(0)
    bytes_limit: int = state(0)


@dataclass(frozen=True, kw_only=True)
class LoaderMetrics(Snapshot):
    """Counters of a ``Loader``, over all its passes or between two calls.

    Attributes:
        rank: rank of this process.
        world_size: number of ranks.
        epoch: epoch of the next batch.
        threads: decoding threads; 0 means the calling thread.
        transform_workers: worker processes of the transform; 0 means the calling thread.
        batches: batches delivered.
        rows: rows delivered, or packs.
        bytes_read: bytes of files that were asked for since the data set was opened: footers, columns of the filter and data, for all loaders of
            this ``Dataset`` or ``Mixture``. Ranges found in the local cache count as well. ``storage.bytes`` counts what stores have sent.
        elapsed_seconds: seconds during which a pass was running.
        startup_seconds: time up to the first batch of the loader. It does not count as a wait.
        trainer_seconds: time between two calls of ``next()`` within a pass.
        wait: time inside ``next()``, except for the first batch of the loader.
        superbatch_wait_seconds: time in ``next()`` without a finished superbatch; it includes that of the first batch.
        transform_wait_seconds: time in ``next()`` for the transform: its own time, or the wait for its workers.
        without_room_seconds: time during which no superbatch was begun because ``prefetch_bytes`` were in use.
        stages: seconds of threads by stage.
        queue: what is ready for the trainer now.
        storage: requests of this process to all stores since the loader was created.
        blocks_decoded: blocks decoded; a block that two passes need counts twice.
        superbatches: superbatches finished.
        tokens: tokens computed in decoded blocks. What ``plan="epoch"`` tokenizes to count it is not included.
        text_bytes: bytes of the encoded texts, rendered conversations included; 0 for a function.
        rows_without_labels: rows with tokens but no label.
        special_in_text: special tokens that are spelled out in texts, whatever becomes of them; for messages those of the template are included.
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


_STAGES = [item.name for item in fields(StageSeconds)]
_COUNTS = ("blocks_decoded", "superbatches", "tokens", "text_bytes", "rows_without_labels", "special_in_text")


class Counters:
    """Sums over all passes of a loader, in nanoseconds of ``clock``."""

    def __init__(self, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self.clock = clock
        self.rows = 0
        self.batches = 0
        self.startup = 0
        self.trainer = 0
        self.waits = Histogram()
        #: Time of the transform, summed over its workers, and the part for which the trainer waited.
        self.transform = 0
        self.transform_wait = 0
        self.plan = 0
        #: When the trainer asked for a batch, and when it got the one before; 0 outside of a pass.
        self.asked = self.returned = 0
        self.has_started = False
        self.storage_before = storage_metrics()
        #: Start of the time that ``diagnosis`` judges, and the last ``metrics(since_last=True)``.
        self.judged_from: LoaderMetrics | None = None
        self.last_metrics: LoaderMetrics | None = None
        self._elapsed = 0
        self._ended: dict[str, float] = {}
        #: By identity: the pass, and when it began; ``None`` once a newer pass has superseded it.
        self._running: dict[int, tuple[Any, int | None]] = {}
        self._process, self._own_lock = os.getpid(), threading.RLock()

    @property
    def _lock(self) -> threading.RLock:
        """Held while a pass moves from those that run to those that ended: a report counts it once."""
        if self._process != os.getpid():
            # A thread that a fork left behind may have held it.
            self._process, self._own_lock = os.getpid(), threading.RLock()
        return self._own_lock

    def begin(self, native: Any) -> None:
        """Start a pass."""
        with self._lock:
            now = self.clock()
            for older, start in self._running.values():
                self._elapsed += _since(start, now)
                self._running[id(older)] = (older, None)
            self._running[id(native)] = (native, now)

    def end(self, native: Any) -> None:
        """End a pass."""
        with self._lock:
            _, start = self._running.pop(id(native), (native, None))
            self._elapsed += _since(start, self.clock())
            _add(self._ended, native.metrics())

    def waited(self) -> None:
        """The trainer gets the batch that it asked for. One call a batch, so this is written for speed."""
        asked, returned, ended = self.asked, self.returned, self.clock()
        if self.has_started:
            if returned:
                self.trainer += asked - returned
            self.waits.add(ended - asked)
        else:
            self.has_started = True
            self.startup += ended - asked
        # What was counted here is not time of the trainer.
        self.returned = self.clock()

    def finish(self) -> None:
        """The trainer asked for a batch, and there is none."""
        if self.returned:
            self.trainer += self.asked - self.returned
            self.returned = 0

    def report(self, **given: Any) -> LoaderMetrics:
        """Return all totals, including those of running passes, with the fields that the loader knows."""
        running: dict[str, float] = {}
        with self._lock:
            sums, elapsed = dict(self._ended), self._elapsed
            for native, start in list(self._running.values()):
                _add(running, native.metrics())
                elapsed += _since(start, self.clock())
        _add(sums, running)
        stages = {name: float(sums.get(name, 0.0)) for name in _STAGES}
        stages["plan"] += self.plan / 1e9
        stages["transform"] += self.transform / 1e9
        return LoaderMetrics(
            rows=self.rows,
            batches=self.batches,
            elapsed_seconds=elapsed / 1e9,
            startup_seconds=self.startup / 1e9,
            trainer_seconds=self.trainer / 1e9,
            wait=self.waits.times(),
            superbatch_wait_seconds=sums.get("wait_seconds", 0.0),
            transform_wait_seconds=self.transform_wait / 1e9,
            without_room_seconds=sums.get("without_room_seconds", 0.0),
            stages=StageSeconds(**stages),
            queue=QueueMetrics(
                superbatches_ready=int(running.get("superbatches_ready", 0)),
                superbatches_ahead=int(running.get("superbatches_ahead", 0)),
                bytes=int(running.get("bytes_ahead", 0)),
                bytes_limit=int(running.get("bytes_limit", 0)),
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


def _since(start: int | None, now: int) -> int:
    return 0 if start is None else now - start


def _add(sums: dict[str, float], more: dict[str, float]) -> None:
    for name, value in more.items():
        sums[name] = sums.get(name, 0) + value
