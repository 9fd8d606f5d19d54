"""Counters of a loader, in the terms of torch-dataloader-utils."""

from __future__ import annotations

from dataclasses import dataclass


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
