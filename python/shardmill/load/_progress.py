"""The metrics of a loader, and the diagnosis of what limits its speed."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from shardmill.data._dataset import opened_files
from shardmill.load._diagnosis import Diagnosis, diagnose
from shardmill.load._metrics import Counters, LoaderMetrics, Mark
from shardmill.load._options import Runtime, Transform
from shardmill.load._position import Cursor

_logger = logging.getLogger("shardmill.load")


@dataclass(eq=False)
class Progress:
    """What a loader has done, and how fast.

    Attributes:
        cursor: where the loader is.
        runtime: the runtime settings.
        threads: number of decoding threads.
        transform: the function on each batch, if there is one.
        counters: what the passes count.
    """

    cursor: Cursor
    runtime: Runtime
    threads: int
    transform: Transform | None
    counters: Counters = field(default_factory=Counters)

    def metrics(self, *, since_last: bool = False) -> LoaderMetrics:
        """Return the counters; see ``Loader.metrics``."""
        plan, counters = self.cursor.plan, self.counters
        now = counters.report(
            prefetch_bytes=int(self.runtime.prefetch_bytes),
            rank=plan.rank,
            world_size=plan.world_size,
            epoch=self.cursor.position.epoch,
            threads=self.threads,
            transform_workers=0 if self.transform is None else self.transform.workers,
            bytes_read=opened_files(plan.dataset).native.bytes_read,
        )
        if not since_last:
            return now
        before, counters.last_metrics = counters.last_metrics, now
        return now if before is None else now - before

    def mark(self) -> Mark:
        """Return the counters, and the time between passes."""
        return self.metrics(), self.counters.time.between

    def diagnosis(self) -> Diagnosis:
        """Return what limits the speed; see ``Loader.diagnosis``."""
        now, between = self.mark()
        before, between_before = self.counters.judged_from or (now, between)
        return diagnose(
            now - before,
            startup_seconds=now.startup_seconds,
            between_seconds=(between - between_before) / 1e9,
            is_remote=opened_files(self.cursor.plan.dataset).native.is_remote,
        )

    def log_epoch(self, epoch: int) -> None:
        """Log the diagnosis at the end of an epoch."""
        if _logger.isEnabledFor(logging.INFO):
            plan = self.cursor.plan
            _logger.info(
                "epoch %d on rank %d of %d: %s", epoch, plan.rank, plan.world_size, self.diagnosis()
            )
