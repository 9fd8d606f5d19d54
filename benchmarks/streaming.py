"""The rows of the streaming report, by MosaicML Streaming, ChiniDataset and shardmill.

``verbatim`` repeats the report, ``fair`` shows what a system can do, ``first_use`` times the first
write of a process, ``first_rows`` the same without Arrow, and ``mds`` reads the files of MosaicML's
writer. A figure whose rows are not those of the source is an error.
"""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from benchmarks.measure import (
    Metrics,
    Options,
    WrongRowsError,
    in_processes,
    prepare_caches,
    run_entry,
    timed_rows,
)
from benchmarks.streaming_data import SHARD_BYTES, Source, dicts

BATCH_SIZE = 32
_PARTS, _WRITERS, _WORKERS = 4, 2, (0, 2, 4)

Rows = Iterable[Mapping[str, Any]]


class Write(Protocol):
    """Writes rows one by one.

    ``size_limit`` is that of a shard, the default of the system when ``None``.
    """

    def __call__(self, rows: Rows, out: Path, size_limit: int | None) -> None:
        """Makes the directory."""
        ...


@dataclass(frozen=True)
class System:
    """One system.

    Attributes:
        write: Into a directory of shards.
        merge: Makes one data set of parts that are sub-directories.
        rows: Opens a directory; iterating gives rows, each a dict, shuffled or not.
        loader: A torch ``DataLoader`` over a directory: its number of workers, and whether they are
            persistent.
        write_again: The same as the report wrote it: MosaicML's side makes each row twice in parts.
        more_writes: Further ways to write, by name; called with a list of rows and a directory.
        more_reads: Further ways to read, by name; called with a directory,
            gives the number of rows.
    """

    write: Write
    merge: Callable[[Path, list[Path]], Any]
    rows: Callable[[Path, bool], Iterable[Any]]
    loader: Callable[[Path, int, bool], Iterable[Any]]
    write_again: Write | None = None
    more_writes: Mapping[str, Callable[[list[dict[str, Any]], Path], None]] = field(
        default_factory=dict
    )
    more_reads: Mapping[str, Callable[[Path], int]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class StreamingOptions(Options):
    """The input: directories of the rows, and of the same rows as MDS.

    A slow system gets the first ``rows`` of them.
    """

    data: Path
    mds: Path | None = None
    rows: int | None = None
    plan_rows: int = 10_000_000
    image_bytes: int = 1_000_000_000

    @cached_property
    def source(self) -> Source:
        """The rows."""
        return Source(Source.of(self.data).table[: self.rows])

    def check(self, rows: Iterable[Any], *, in_order: bool) -> None:
        """Compares rows with those of the source, all of them.

        Raises:
            WrongRowsError: If one is missing, twice or other than it was written.
        """
        found = [(str(row["text"]), int(row["label"])) for row in rows]
        expected = [(row["text"], row["label"]) for row in self.source]
        if (found if in_order else sorted(found)) != (expected if in_order else sorted(expected)):
            raise WrongRowsError(f"{len(found):,} rows are not the {len(expected):,} of the source")


def count_rows(rows: Iterable[Any]) -> int:
    """As the report counts."""
    return sum(1 for _ in rows)


def count_labels(batches: Iterable[Any]) -> int:
    """As the report counts what a ``DataLoader`` gives."""
    return sum(len(batch["label"]) for batch in batches)


def verbatim(options: StreamingOptions, system: System) -> Metrics:
    """Once, without a warm-up.

    The source becoming Python objects is inside of the clock, and so are workers that start.
    """
    source, figures = options.source, {}
    whole, parts = options.scratch / "whole", options.scratch / "parts"

    def write_parts() -> None:
        directories = [parts / f"{number:05}" for number in range(_PARTS)]
        # One after the other, whatever the report calls it.
        for number, directory in enumerate(directories):
            (system.write_again or system.write)(source.part(number, _PARTS), directory, None)
        system.merge(parts, directories)

    figures["write"] = timed_rows(len(source), lambda: system.write(source, whole, None))
    figures["parallel write + merge"] = timed_rows(len(source), write_parts)
    reads = _reads(whole, parts)
    for name, given in reads.items():
        rows = system.rows(*given)
        figures[name] = timed_rows(len(source), lambda rows=rows: count_rows(rows))
    for workers in _WORKERS:
        loader = system.loader(whole, workers, False)
        figures[f"DataLoader, {workers} workers"] = timed_rows(
            len(source), lambda loader=loader: count_labels(loader)
        )
    for directory, is_shuffled in reads.values():
        options.check(system.rows(directory, is_shuffled), in_order=not is_shuffled)
    return {"figures": figures}


def fair(options: StreamingOptions, system: System) -> Metrics:
    """From a list of dicts, to ten shards or more, with a warm-up before each figure."""
    source, rows = options.source, list(options.source)
    whole, parts = options.scratch / "whole", options.scratch / "parts"

    def written(out: Path, write: Callable[[Path], None]) -> Metrics:
        return timed_write(len(rows), out, write)

    def read(directory: Path, action: Callable[[], int]) -> Metrics:
        prepare_caches("warm", [directory])
        action()
        return timed_rows(len(rows), action)

    figures = {
        "write, row by row": written(whole, lambda out: system.write(rows, out, SHARD_BYTES)),
        "parallel write + merge": written(parts, lambda out: _write_parts(source, out, system)),
    }
    for number, (name, write) in enumerate(system.more_writes.items()):
        figures[name] = written(
            options.scratch / f"more{number}", lambda out, write=write: write(rows, out)
        )
    options.check(system.rows(parts, False), in_order=True)
    options.check(system.rows(whole, True), in_order=False)
    for name, (directory, is_shuffled) in _reads(whole, parts).items():
        # Opened before the clock, as in the report.
        opened = system.rows(directory, is_shuffled)
        figures[name] = read(directory, lambda opened=opened: count_rows(opened))
        prepare_caches("cold", [directory])
        figures[f"{name}, cold"] = timed_rows(len(rows), lambda opened=opened: count_rows(opened))
    for name, action in system.more_reads.items():
        figures[name] = read(whole, lambda action=action: action(whole))
    starts = {}
    for workers in _WORKERS:
        # One epoch is gone through, so that workers have started; the next one is timed.
        loader = system.loader(whole, workers, True)
        first = timed_rows(len(rows), lambda loader=loader: count_labels(loader))
        second = timed_rows(len(rows), lambda loader=loader: count_labels(loader))
        figures[f"DataLoader, {workers} workers"] = second
        starts[f"start_{workers}_s"] = first["seconds"] - second["seconds"]
        # Its workers would take part in what comes next.
        del loader
    return {"figures": figures, **starts}


def timed_write(rows: int, out: Path, write: Callable[[Path], None]) -> Metrics:
    """The second write of the rows."""
    # A first one makes what a system makes once: threads, imports, code of the writer.
    write(out)
    shutil.rmtree(out)
    return timed_rows(rows, lambda: write(out))


def _reads(whole: Path, parts: Path) -> dict[str, tuple[Path, bool]]:
    """Figures, with what is read and whether it is shuffled."""
    return {
        "read, sequential": (whole, False),
        "read, shuffled": (whole, True),
        "read, merged": (parts, False),
    }


def _write_parts(source: Source, out: Path, system: System) -> None:
    """Several processes write at a time, which is what the name says."""
    directories = [out / f"{number:05}" for number in range(_PARTS)]

    def write(worker: int) -> None:
        for number in range(worker, _PARTS, _WRITERS):
            system.write(source.part(number, _PARTS), directories[number], SHARD_BYTES)

    in_processes("fork", [partial(write, worker) for worker in range(_WRITERS)])
    system.merge(out, directories)


def first_use(options: StreamingOptions, system: System) -> Metrics:
    """Writes of a fresh process, of which the first one imports and touches memory.

    The source becoming Python objects is inside of the clock.
    """
    source, figures = options.source, {}
    for name in ("first write", "second write", "third write"):
        # What earlier writes left to the disk is not part of this one.
        os.sync()
        before = resource.getrusage(resource.RUSAGE_SELF)
        figure = timed_rows(
            len(source), lambda out=options.scratch / name: system.write(source, out, None)
        )
        after = resource.getrusage(resource.RUSAGE_SELF)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        figures[name] = {**figure, "cpu_s": cpu, "page_faults": after.ru_minflt - before.ru_minflt}
    options.check(system.rows(options.scratch / "first write", False), in_order=True)
    return {"figures": figures}


def first_rows(options: StreamingOptions, system: System) -> Metrics:
    """The first write of a process that has imported the system alone, and no Arrow.

    The source is a list of dicts.
    """
    rows = dicts(options.rows or 0)
    figure = timed_rows(len(rows), lambda: system.write(rows, options.scratch / "rows", None))
    options.check(system.rows(options.scratch / "rows", False), in_order=True)
    return {"figures": {"first write": figure}}


def mds(options: StreamingOptions, system: System) -> Metrics:
    """The MDS shards that MosaicML wrote, each after a warm-up."""
    directory, figures = options.mds, {}
    assert directory is not None, "--mds names the directory"
    prepare_caches("warm", [directory])
    for name, is_shuffled in (("read, sequential", False), ("read, shuffled", True)):
        # Opened before the clock; the check is the warm-up.
        opened = system.rows(directory, is_shuffled)
        options.check(opened, in_order=not is_shuffled)
        figures[name] = timed_rows(len(options.source), lambda opened=opened: count_rows(opened))
    return {"figures": figures}


#: The rest is what no peer does.
SCENARIOS = {
    "verbatim": verbatim,
    "fair": fair,
    "first_use": first_use,
    "first_rows": first_rows,
    "mds": mds,
}


def measure(options: StreamingOptions) -> Metrics:
    """Runs the scenario once."""
    is_peer = options.system in ("mosaicml", "chinidataset")
    module = import_module("benchmarks.peers.streaming" if is_peer else "benchmarks.streaming_ours")
    scenario = SCENARIOS.get(options.scenario) or module.SCENARIOS[options.scenario]
    return scenario(options, module.SYSTEMS[options.system]())


if __name__ == "__main__":
    run_entry(StreamingOptions, measure)
