"""The metrics of a loader, and the diagnosis of what limits its speed."""

from __future__ import annotations

import logging

from shardmill.data._dataset import opened_files
from shardmill.load._diagnosis import Diagnosis, diagnose
from shardmill.load._metrics import LoaderMetrics, Mark
from shardmill.load._plan import LoaderPlan

_logger = logging.getLogger("shardmill.load")


class LoaderProgress(LoaderPlan):
    """The metrics of a ``shardmill.Loader``."""

    def metrics(self, *, since_last: bool = False) -> LoaderMetrics:
        """Return the counters of this loader. It may be called at any time and from any thread.

        Args:
            since_last: count from the last call with ``since_last=True`` instead of from the creation of the loader. Without it, the call has no
                side effects. The difference of any two results, ``later - earlier``, are the counters of the time between.

        Examples:
            >>> import pyarrow as pa, pyarrow.parquet as pq
            >>> pq.write_table(pa.table({"x": list(range(10))}), "ten.parquet")
            >>> import shardmill as sm
            >>> loader = sm.Loader("ten.parquet", batch_size=4, output="numpy")
            >>> batches = list(loader)
            >>> metrics = loader.metrics()
            >>> metrics.batches, metrics.rows, metrics.wait.count
            (3, 10, 2)
            >>> metrics.stages.decode > 0
            True
        """
        now = self._counters.report(
            prefetch_bytes=self._prefetch_bytes,
            rank=self._rank,
            world_size=self._world_size,
            epoch=self._position.epoch,
            threads=self._threads,
            transform_workers=0 if self._transform is None else self._transform.workers,
            bytes_read=opened_files(self._dataset).native.bytes_read,
        )
        if not since_last:
            return now
        before, self._counters.last_metrics = self._counters.last_metrics, now
        return now if before is None else now - before

    def diagnosis(self) -> Diagnosis:
        """Return how long the trainer waited for data in the current pass, or in the last one, and which stage held it.

        The time up to the first batch of the loader is not judged; ``startup_seconds`` has it. The first batch of a later epoch is, because the
        trainer is running then, and so is the time of the trainer since the pass before. At the end of each epoch, the logger ``shardmill.load``
        gets the diagnosis as a line of level INFO.

        Examples:
            >>> import pyarrow as pa, pyarrow.parquet as pq
            >>> pq.write_table(pa.table({"x": list(range(10))}), "ten.parquet")
            >>> import shardmill as sm
            >>> loader = sm.Loader("ten.parquet", batch_size=4, output="numpy")
            >>> print(loader.diagnosis())
            nothing to judge: fewer than two batches were taken
        """
        now, between = self._mark()
        before, between_before = self._counters.judged_from or (now, between)
        return diagnose(
            now - before,
            startup_seconds=now.startup_seconds,
            between_seconds=(between - between_before) / 1e9,
            is_remote=opened_files(self._dataset).native.is_remote,
        )

    def _mark(self) -> Mark:
        return self.metrics(), self._counters.time.between

    def _log_epoch(self, epoch: int) -> None:
        if _logger.isEnabledFor(logging.INFO):
            _logger.info("epoch %d on rank %d of %d: %s", epoch, self._rank, self._world_size, self.diagnosis())
