"""Shuffled rows to batches of two ranks, whose states are resumed in the middle of the epoch.

As many ranks resume them, and another number of ranks. Each rank is a process of torch.distributed.
If a system cannot do something, its own message is shown, or the number of rows that it lost or
doubled. An epoch of one rank is timed from the creation of the loader to the last batch, in a
process that has imported everything.
"""

from __future__ import annotations

import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.measure import (
    Metrics,
    Options,
    WrongRowsError,
    figure,
    in_processes,
    prepare_caches,
    run_entry,
)
from benchmarks.streaming_data import Source

GLOBAL_BATCH, _RANKS, _OTHERS = 64, 2, 1


@dataclass(frozen=True)
class Reader:
    """Batches of texts, and the state after those that were taken."""

    batches: Iterable[Sequence[str]]
    state: Callable[[], Any]


@dataclass(frozen=True)
class System:
    """One system.

    Attributes:
        write: Makes a data set of rows.
        read: Opens a directory for one of several ranks; continues from the states of all ranks of
            an earlier run, if they are given.
    """

    write: Callable[[Source, Path], None]
    read: Callable[[Path, int, int, list[Any] | None], Reader]


@dataclass(frozen=True, kw_only=True)
class ElasticOptions(Options):
    """Directory of the rows; a slow system reads the first ``rows`` of them."""

    data: Path
    rows: int | None = None


@dataclass(frozen=True)
class _Run:
    texts: list[str]
    state: Any = None
    first_batch_s: float = 0.0
    seconds: float = 0.0
    error: str = ""


def _run(system: str, directory: Path, rank: int, ranks: int, port: int, *given: Any) -> _Run:
    """One rank, in its own process."""
    import torch

    os.environ |= {
        "RANK": f"{rank}",
        "LOCAL_RANK": f"{rank}",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": f"{port}",
    }
    os.environ |= {"WORLD_SIZE": f"{ranks}", "LOCAL_WORLD_SIZE": f"{ranks}"}
    made = load(system)
    torch.distributed.init_process_group("gloo")
    return read_some(made, directory, rank, ranks, *given)


def read_some(
    made: System, directory: Path, rank: int, ranks: int, states: list[Any] | None, most: int | None
) -> _Run:
    """The first batches of a rank, and its state after them; all batches if ``most`` is none."""
    texts: list[str] = []
    start = time.perf_counter()
    first = last = 0.0
    try:
        reader = made.read(directory, rank, ranks, states)
        for batch in islice(reader.batches, most):
            last = time.perf_counter() - start
            first = first or last
            texts.extend(map(str, batch))
        return _Run(texts, None if most is None else reader.state(), first, last)
    except Exception as error:
        return _Run(texts, error=f"{type(error).__name__}: {str(error).splitlines()[0]}")


def _at_once(
    system: str, directory: Path, ranks: int, states: list[Any] | None, most: int | None
) -> list[_Run]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    return in_processes(
        "spawn",
        [
            partial(_run, system, directory, rank, ranks, port, states, most)
            for rank in range(ranks)
        ],
    )


def load(system: str) -> System:
    """The system, with what it imports."""
    return (
        shardmill()
        if system == "shardmill"
        else import_module("benchmarks.peers.elastic").SYSTEMS[system]()
    )


def shardmill() -> System:
    """The public API, Parquet shards."""
    # What a loader imports when it is made: the other systems import it before their clock starts.
    import numpy  # noqa: F401
    import pyarrow  # noqa: F401
    import shardmill as sm
    from shardmill import Loader, Writer  # noqa: F401

    def write(source: Source, out: Path) -> None:
        with sm.Writer(
            str(out), columns={"text": "str", "label": "int32"}, shard_bytes=3_000_000
        ) as writer:
            writer.write_batch(source.table)

    def read(directory: Path, rank: int, ranks: int, states: list[Any] | None) -> Reader:
        size = GLOBAL_BATCH // ranks
        loader = sm.Loader(
            str(directory),
            batch_size=size,
            shuffle=True,
            seed=7,
            output="dict",
            rank=rank,
            world_size=ranks,
        )
        if states:
            loader.load_state_dict(states[0])
        return Reader((batch["text"] for batch in loader), loader.state_dict)

    return System(write, read)


def _told(expected: Counter[str], before: list[_Run], after: list[_Run]) -> str:
    """What happened to the rows of an interrupted epoch."""
    if error := next((run.error for run in after if run.error), ""):
        return error.replace("|", "/")
    seen = Counter(text for run in [*before, *after] for text in run.texts)
    lost, doubled = (expected - seen).total(), (seen - expected).total()
    return f"{lost:,} rows lost, {doubled:,} doubled" if lost or doubled else "each row once"


def measure(options: ElasticOptions) -> Metrics:
    """Writes the rows, reads an epoch, interrupts one, and resumes it twice."""
    source = Source.of(options.data)
    rows = min(options.rows or len(source), len(source)) // (2 * GLOBAL_BATCH) * 2 * GLOBAL_BATCH
    source = Source(source.table.slice(0, rows).combine_chunks())
    expected, directory = Counter(source.table["text"].to_pylist()), options.scratch / "rows"
    load(options.system).write(source, directory)
    prepare_caches("warm", [directory])
    run = partial(_at_once, options.system, directory)
    (whole,) = run(1, None, None)
    if whole.error or Counter(whole.texts) != expected:
        raise WrongRowsError(
            whole.error or f"{len(whole.texts):,} rows are not the {rows:,} of the source"
        )
    half = run(_RANKS, None, rows // GLOBAL_BATCH // 2)
    if error := next((one.error for one in half if one.error), ""):
        raise RuntimeError(error)
    states = [one.state for one in half]
    same, other = run(_RANKS, states, None), run(_OTHERS, states, None)
    return {
        "figures": {"epoch": figure(rows, whole.seconds)},
        "first_batch_s": whole.first_batch_s,
        # For a system that resumes.
        **(
            {}
            if any(one.error for one in same)
            else {"resume_s": max(one.first_batch_s for one in same)}
        ),
        "told": {"same": _told(expected, half, same), "other": _told(expected, half, other)},
    }


if __name__ == "__main__":
    run_entry(ElasticOptions, measure)
