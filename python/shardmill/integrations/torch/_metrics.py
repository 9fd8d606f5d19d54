"""Counters of a loader, in the terms of torch-dataloader-utils."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class WorkerMetrics:
    """Totals over the threads of one process.

    Attributes:
        worker_id: always 0, because threads share the work.
        rows_read: number of rows delivered.
        batches_read: number of batches delivered.
        bytes_read: bytes requested from storage, including footers and columns used by filters.
        files_read: number of files of the data set, if any rows were delivered.
        elapsed_sec: seconds since the first pass; see ``elapsed_seconds`` of ``LoaderMetrics``.
    """

    worker_id: int = 0
    rows_read: int = 0
    batches_read: int = 0
    bytes_read: int = 0
    files_read: int = 0
    elapsed_sec: float = 0.0

    @classmethod
    def _of(cls, loader: Any) -> WorkerMetrics:
        """Return the totals of a loader."""
        report = loader.metrics()
        return cls(
            rows_read=report.rows,
            batches_read=report.batches,
            bytes_read=report.bytes_read,
            files_read=len(loader.dataset.files) if report.rows else 0,
            elapsed_sec=report.elapsed_seconds,
        )

    def _minus(self, before: WorkerMetrics) -> WorkerMetrics:
        """Return the difference to ``before``."""
        return WorkerMetrics(
            rows_read=self.rows_read - before.rows_read,
            batches_read=self.batches_read - before.batches_read,
            bytes_read=self.bytes_read - before.bytes_read,
            files_read=self.files_read if self.rows_read > before.rows_read else 0,
            elapsed_sec=self.elapsed_sec - before.elapsed_sec,
        )
