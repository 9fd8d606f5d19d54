"""Runs one scenario on one system: what a system is, the clock, and the check that no row is missing.

Enters: ``Options`` and a ``System``. Leaves: ``params.json`` and ``metrics.json``, where ``figures`` maps a row of the
report to rows and seconds. Called by the entry scripts. Invariant: all systems are timed by the same lines, and a figure
whose rows are not those of the source is an error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from benchmarks.streaming.options import Options
from benchmarks.streaming.sets import Source

BATCH_SIZE = 32
PARTS = 4
WORKERS = (0, 2, 4)

Figures = dict[str, dict[str, float]]
Rows = Iterable[Mapping[str, Any]]


class Write(Protocol):
    """Writes rows one by one; ``size_limit`` is that of a shard, its default when ``None``."""

    def __call__(self, rows: Rows, out: Path, size_limit: int | None) -> None:
        """Makes the folder."""
        ...


@dataclass(frozen=True)
class System:
    """One system.

    Attributes:
        version: Of the package.
        write: Into a folder of shards.
        write_again: The same as the report wrote it: MosaicML's side makes each row twice in parts.
        merge: Makes one data set of parts that are sub-folders.
        rows: Opens a folder; iterating gives rows, each a dict, shuffled or not.
        loader: A torch ``DataLoader`` over a folder, with batches of 32 rows and so many workers.
        more_writes: Further ways to write, by name; called with a list of rows and a folder.
        more_reads: Further ways to read, by name; called with a folder, gives the number of rows.
    """

    version: str
    write: Write
    merge: Callable[[Path, list[Path]], Any]
    rows: Callable[[Path, bool], Iterable[Any]]
    loader: Callable[[Path, int, bool], Iterable[Any]]
    write_again: Write | None = None
    more_writes: Mapping[str, Callable[[list[dict[str, Any]], Path], None]] = field(default_factory=dict)
    more_reads: Mapping[str, Callable[[Path], int]] = field(default_factory=dict)


class MissingRowsError(AssertionError):
    """A system did not deliver each row once."""


def run_entry(options: Options, system: System) -> int:
    """Runs the scenario that the options name and returns the exit code."""
    options.write_params()
    # What one scenario imports must not show in the memory of another.
    scenario = import_module(f"benchmarks.streaming.{options.scenario}")
    try:
        metrics = scenario.measure(options, system)
    except Exception as error:
        options.write_metrics({"is_success": False, "error": f"{type(error).__name__}: {error}"})
        raise
    options.write_metrics({"is_success": True, "version": system.version, **metrics})
    return 0


def timed(rows: int, action: Callable[[], int | None]) -> dict[str, float]:
    """A figure: the seconds of a call, which may return how many rows it has seen.

    Raises:
        MissingRowsError: If these are not all.
    """
    start = time.perf_counter()
    seen = action()
    seconds = time.perf_counter() - start
    if seen is not None and seen != rows:
        msg = f"{seen:,} rows instead of {rows:,}"
        raise MissingRowsError(msg)
    return {"records": rows, "seconds": seconds}


def count_rows(rows: Iterable[Any]) -> int:
    """As the report counts."""
    count = 0
    for _ in rows:
        count += 1
    return count


def count_labels(batches: Iterable[Any]) -> int:
    """As the report counts what a ``DataLoader`` gives."""
    return sum(len(batch["label"]) for batch in batches)


def check_rows(source: Source, rows: Iterable[Any], *, in_order: bool) -> None:
    """Compares rows with those of the source, all of them.

    Raises:
        MissingRowsError: If one is missing, twice or other than it was written.
    """
    found = [(str(row["text"]), int(row["label"])) for row in rows]
    expected = [(row["text"], row["label"]) for row in source]
    if (found if in_order else sorted(found)) != (expected if in_order else sorted(expected)):
        msg = f"{len(found):,} rows are not the {len(expected):,} of the source"
        raise MissingRowsError(msg)
