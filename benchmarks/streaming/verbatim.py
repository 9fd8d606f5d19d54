"""The eight rows of the streaming report, as it measured them: once, without a warm-up, in one process.

Enters: a system. Leaves: a figure a row. Called by ``measure``. Invariant: readers and loaders are made before the clock,
and what the report counted as time is inside of it: the source becoming Python objects, and workers that start.
"""

from __future__ import annotations

from typing import Any

from benchmarks.streaming.measure import (
    PARTS,
    WORKERS,
    Figures,
    Options,
    System,
    check_rows,
    count_labels,
    count_rows,
    timed,
)
from benchmarks.streaming.sets import Source


def measure(options: Options, system: System) -> dict[str, Any]:
    """All writes, then all reads, then all loaders."""
    source = Source.of(options.source)
    whole, parts = options.scratch / "whole", options.scratch / "parts"
    figures: Figures = {}
    figures["write"] = timed(len(source), lambda: system.write(source, whole, None))
    figures["parallel write + merge"] = timed(len(source), lambda: _write_parts(source, parts, system))
    for name, folder, is_shuffled in (
        ("read, sequential", whole, False),
        ("read, shuffled", whole, True),
        ("read, merged", parts, False),
    ):
        rows = system.rows(folder, is_shuffled)
        figures[name] = timed(len(source), lambda rows=rows: count_rows(rows))
    for workers in WORKERS:
        loader = system.loader(whole, workers, False)
        figures[f"DataLoader, {workers} workers"] = timed(len(source), lambda loader=loader: count_labels(loader))
    for folder, is_shuffled in ((whole, False), (whole, True), (parts, False)):
        check_rows(source, system.rows(folder, is_shuffled), in_order=not is_shuffled)
    return {"figures": figures, "shards": sum(path.stat().st_size > 0 for path in whole.glob("*.*"))}


def _write_parts(source: Source, out: Any, system: System) -> None:
    folders = [out / f"{number:05}" for number in range(PARTS)]
    write = system.write_again or system.write
    # One after the other, whatever the report calls it.
    for number, folder in enumerate(folders):
        write(source.part(number, PARTS), folder, None)
    system.merge(out, folders)
