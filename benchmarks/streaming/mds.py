"""Reads the MDS shards that MosaicML wrote.

Enters: a system that can. Leaves: figures. Called by ``measure``. Invariant: as for ``fair``.
"""

from __future__ import annotations

from typing import Any

from benchmarks.runner.caches import prepare_caches
from benchmarks.streaming.measure import Options, System, check_rows, count_rows, timed
from benchmarks.streaming.sets import Source


def measure(options: Options, system: System) -> dict[str, Any]:
    """Sequential and shuffled, each after a warm-up."""
    assert options.mds is not None, "--mds names the folder"
    folder, source = options.mds, Source.of(options.source)
    prepare_caches("warm", [folder])
    figures = {}
    for name, is_shuffled in (("read, sequential", False), ("read, shuffled", True)):
        check_rows(source, system.rows(folder, is_shuffled), in_order=not is_shuffled)
        figures[name] = timed(len(source), lambda s=is_shuffled: count_rows(system.rows(folder, s)))
    return {"figures": figures}
