"""What a loader has done, in the words of torch-dataloader-utils."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class WorkerMetrics:
    """Sums over the threads of one process.

    Attributes:
        worker_id: 0; threads share out the work among themselves.
        rows_read: rows that were delivered.
        batches_read: batches that were delivered.
        bytes_read: bytes that were asked of the storage, footers and columns of filters included.
        files_read: files of the data set, when rows were delivered.
        elapsed_sec: seconds in which a pass was under way.
    """

    worker_id: int = 0
    rows_read: int = 0
    batches_read: int = 0
    bytes_read: int = 0
    files_read: int = 0
    elapsed_sec: float = 0.0

    @classmethod
    def of(cls, loader: Any) -> WorkerMetrics:
        """All that a loader has done."""
        report = loader.metrics()
        return cls(
            rows_read=report["rows"],
            batches_read=report["batches"],
            bytes_read=report["bytes_read"],
            files_read=len(loader.dataset.files) if report["rows"] else 0,
            elapsed_sec=report["elapsed_seconds"],
        )

    def minus(self, before: WorkerMetrics) -> WorkerMetrics:
        """What came after ``before``."""
        return WorkerMetrics(
            rows_read=self.rows_read - before.rows_read,
            batches_read=self.batches_read - before.batches_read,
            bytes_read=self.bytes_read - before.bytes_read,
            files_read=self.files_read if self.rows_read > before.rows_read else 0,
            elapsed_sec=self.elapsed_sec - before.elapsed_sec,
        )
