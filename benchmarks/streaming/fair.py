"""The rows of the streaming report in a way that says what a system can do.

Enters: a system. Leaves: figures. Called by ``measure``. Invariant: the source is a list of dicts, there are at least ten
shards, each figure has a warm-up before it, and a ``DataLoader`` has started its workers before the clock: one epoch is
gone through, the next one is timed. The runner repeats the whole and takes medians.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.runner.caches import prepare_caches
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
from benchmarks.streaming.sets import SHARD_BYTES, Source

# Texts become words and texts again: what a writer with workers spreads over cores.
_WRITERS = 2


def measure(options: Options, system: System) -> dict[str, Any]:
    """Writes, reads, loaders; then the ways that only some systems have."""
    source = Source.of(options.source)
    rows = list(source)
    whole, parts = options.scratch / "whole", options.scratch / "parts"
    figures: Figures = {}
    figures["write, row by row"] = _written(whole, rows, lambda out: system.write(rows, out, SHARD_BYTES))
    figures["parallel write + merge"] = _written(parts, rows, lambda out: _write_parts(source, out, system))
    for number, (name, write) in enumerate(system.more_writes.items()):
        figures[name] = _written(options.scratch / f"more{number}", rows, lambda out, write=write: write(rows, out))
    check_rows(source, system.rows(parts, False), in_order=True)
    check_rows(source, system.rows(whole, True), in_order=False)
    for name, folder, is_shuffled in (
        ("read, sequential", whole, False),
        ("read, shuffled", whole, True),
        ("read, merged", parts, False),
    ):
        # Opened before the clock, as in the report.
        opened = system.rows(folder, is_shuffled)
        figures[name] = _read(folder, len(rows), lambda opened=opened: count_rows(opened))
        prepare_caches("cold", [folder])
        figures[f"{name}, cold"] = timed(len(rows), lambda opened=opened: count_rows(opened))
    for name, read in system.more_reads.items():
        figures[name] = _read(whole, len(rows), lambda read=read: read(whole))
    starts = {}
    for workers in WORKERS:
        loader = system.loader(whole, workers, True)
        start = time.perf_counter()
        count_labels(loader)
        first = time.perf_counter() - start
        figures[f"DataLoader, {workers} workers"] = timed(len(rows), lambda loader=loader: count_labels(loader))
        starts[f"start_{workers}_s"] = first - figures[f"DataLoader, {workers} workers"]["seconds"]
        # Its workers would take part in what comes next.
        del loader
    shards = sum(1 for path in whole.rglob("*") if path.is_file() and not path.name.startswith((".", "index")))
    return {"figures": figures, "shards": shards, **starts}


def _read(folder: Path, rows: int, read: Callable[[], int]) -> dict[str, float]:
    prepare_caches("warm", [folder])
    read()
    return timed(rows, read)


def _written(out: Path, rows: list[dict[str, Any]], write: Callable[[Path], None]) -> dict[str, float]:
    """A first write makes what a system makes once: threads, imports, code of the writer."""
    write(out)
    shutil.rmtree(out)
    return timed(len(rows), lambda: write(out))


def _write_parts(source: Source, out: Path, system: System) -> None:
    """Several processes write at a time, which is what the name says."""
    folders = [out / f"{number:05}" for number in range(PARTS)]
    global _job
    _job = (source, folders, system)
    import multiprocessing

    with ProcessPoolExecutor(_WRITERS, mp_context=multiprocessing.get_context("fork")) as pool:
        list(pool.map(_write_part, range(PARTS)))
    system.merge(out, folders)


_job: tuple[Source, list[Path], System] | None = None


def _write_part(number: int) -> None:
    assert _job is not None
    source, folders, system = _job
    system.write(source.part(number, PARTS), folders[number], SHARD_BYTES)
