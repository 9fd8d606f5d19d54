"""Counters of a writer, under the names of those of a loader."""

from __future__ import annotations

from dataclasses import dataclass

from shardmill.metrics._snapshot import Snapshot


@dataclass(frozen=True, kw_only=True)
class WriterMetrics(Snapshot):
    """Counters of a ``Writer``. They stop when it is closed, or when it fails.

    Attributes:
        rows: rows written so far.
        bytes_written: bytes of the published files and of their index; 0 before ``close``, and if
            nothing is published.
        files: published files, without the index; 0 before ``close``, and if nothing is published.
        elapsed_seconds: time from the creation of the writer until now, or until its end.
        publish_seconds: time of ``close``: encoding of the last rows, sync and renaming.
    """

    rows: int = 0
    bytes_written: int = 0
    files: int = 0
    elapsed_seconds: float = 0.0
    publish_seconds: float = 0.0
