"""Counters of a pipeline, under the names of those of a loader."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from shardmill.metrics._snapshot import Snapshot, StorageMetrics


@dataclass(frozen=True, kw_only=True)
class PipelineMetrics(Snapshot):
    """Counters of a run of a ``Pipeline``, equal for native threads and for Ray.

    Attributes:
        splits: splits processed.
        rows_read: rows of the input.
        rows: rows of the output.
        bytes_read: bytes of the input files.
        bytes_written: bytes of the output files.
        files: files of the output.
        elapsed_seconds: wall time.
        stages: seconds of threads or tasks by the name of a stage: the source, the stages and the
            sink.
        storage: requests to stores during the run: those of this process, and those of the tasks of
            Ray that returned.
    """

    splits: int = 0
    rows_read: int = 0
    rows: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    files: int = 0
    elapsed_seconds: float = 0.0
    stages: dict[str, float] = field(default_factory=dict)
    storage: StorageMetrics = field(default_factory=StorageMetrics)

    def __sub__(self, earlier: Any) -> Any:
        # The counters of a run have no earlier ones.
        return NotImplemented


def metrics_of(
    splits: list[dict[str, Any]], *, elapsed_seconds: float, storage: StorageMetrics
) -> PipelineMetrics:
    """Return the counters of a run from the reports of its splits."""
    stages: dict[str, float] = {}
    for stage in (stage for split in splits for stage in split["stages"]):
        stages[stage["name"]] = stages.get(stage["name"], 0.0) + stage["seconds"]
    outputs = [output for split in splits for output in split["outputs"]]
    return PipelineMetrics(
        splits=len(splits),
        rows_read=sum(split["input"]["rows"] for split in splits),
        rows=sum(split["output"]["rows"] for split in splits),
        bytes_read=sum(split["input_bytes"] for split in splits),
        bytes_written=sum(output["bytes"] for output in outputs),
        files=len(outputs),
        elapsed_seconds=elapsed_seconds,
        stages=stages,
        storage=storage,
    )
