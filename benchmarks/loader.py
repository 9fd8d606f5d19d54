"""Tables of 66 columns into training batches.

The clock, the counts and the ranks are the same for every system. The clock starts when the loader
is built, or before that with ``from_construction``, and stops when it is exhausted. A pass that
delivers another number of rows than the data set holds is an error; warm-ups also compare the sum
of ``row_id``, so that a row lost and another one doubled is an error too.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.clock import Pass, at_once, check, timed_pass
from benchmarks.measure import (
    Metrics,
    Options,
    WrongRowsError,
    forget_peak,
    prepare_caches,
    record_of,
    run_entry,
    status_bytes,
)
from benchmarks.tables import COLUMNS, LABELS, DataSet


@dataclass(frozen=True, kw_only=True)
class LoaderOptions(Options):
    """What is read, and how.

    Attributes:
        mode: ``stream``, ``first_batch``, ``memory``, or of several ranks: ``ranks``, ``rank_0``.
        files: Pattern of the file names that are read; the same for every system.
        label: Only rows with this label.
        threads: Threads of a loader in one process; none is the default of the system.
        workers: Worker processes of a torch ``DataLoader``.
        pad: Lists are padded to the longest of the batch.
        from_construction: The clock starts before the loader is built.
    """

    data: Path
    mode: str = "stream"
    files: str = "*.*"
    output: Any = "arrow"
    batch_size: int = 1024
    columns: tuple[str, ...] = ()
    label: int | None = None
    shuffle: bool = False
    pad: bool = False
    threads: int | None = None
    workers: int = 0
    ranks: int = 1
    split_rows: int | None = None
    split_bytes: str | None = None
    runs: int = 3
    warm_ups: int = 1
    epochs: int = 3
    cold: bool = False
    from_construction: bool = False

    @cached_property
    def set(self) -> DataSet:
        """What the record of the directory says of its files."""
        record = record_of(self.data)
        return DataSet(
            tuple(record["rows"]), record["row_group"], record["is_sorted"], record["kind"]
        )

    @property
    def format(self) -> str:
        """``parquet``, ``orc`` or ``csv``."""
        return self.set.suffix

    @property
    def pattern(self) -> str:
        """The files as a glob."""
        return str(self.data / (self.files if self.files != "*.*" else f"*.{self.format}"))

    def chosen(self) -> list[tuple[Path, range]]:
        """The files, in the order of their names, and the numbers of their rows."""
        return [
            (self.data / name, rows) for name, rows in self.set.files() if fnmatch(name, self.files)
        ]

    def paths(self) -> list[Path]:
        """The files, in the order of their names."""
        return [path for path, _ in self.chosen()]

    def expected(self) -> tuple[int, int]:
        """Rows that one pass delivers over all ranks, and the sum of their ``row_id``."""
        count, total = 0, 0
        for _, rows in self.chosen():
            numbers = (
                rows if self.label is None else rows[(self.label - rows.start) % LABELS :: LABELS]
            )
            count += len(numbers)
            # Gauss; a loop would take seconds for 25 million rows.
            total += (numbers[0] + numbers[-1]) * len(numbers) // 2 if numbers else 0
        return count, total


#: Builds the loader of one rank.
Build = Callable[[LoaderOptions, int], Iterable[Any]]


def measure(options: LoaderOptions, build: Build | None = None) -> Metrics:
    """Warms up, times passes with a fresh loader each, and returns the metrics."""
    # Imported before a clock starts, and only where it is needed: imports show in the peak memory.
    chosen: Build = (
        build
        or SYSTEMS.get(options.system)
        or import_module("benchmarks.peers.loader").load(options.system)
    )
    peaks: list[int] = []
    rounds: list[list[Pass]] = []
    is_memory = options.mode == "memory"
    warm_ups = 0 if is_memory else options.warm_ups
    for number in range(warm_ups + (options.epochs if is_memory else options.runs)):
        if options.cold:
            prepare_caches("cold", options.paths())
        if is_memory:
            forget_peak()
        passes = _one_round(options, chosen, sums=number < warm_ups)
        _check(options, passes)
        if number >= warm_ups:
            rounds.append(passes)
        if is_memory:
            peaks.append(status_bytes("VmHWM"))
    return (
        _summary(options, rounds)
        | _shares(rounds)
        | (_peaks(options, rounds, peaks) if peaks else {})
    )


def _one_round(options: LoaderOptions, build: Build, *, sums: bool) -> list[Pass]:
    if options.mode == "ranks":
        return _in_processes(options, build, range(options.ranks), sums)
    if options.mode == "rank_0":
        return _in_processes(options, build, [0], sums)
    return [_one_pass(options, build, 0, sums, lambda: None)]


def _in_processes(
    options: LoaderOptions, build: Build, ranks: Sequence[int], sums: bool
) -> list[Pass]:
    """Runs ranks at the same time.

    They are forked before this process has started a loader: none inherits threads or a
    cache of footers.
    """
    return at_once("fork", [partial(_one_pass, options, build, rank, sums) for rank in ranks])


def _one_pass(
    options: LoaderOptions, build: Build, rank: int, sums: bool, ready: Callable[[], object]
) -> Pass:
    is_first = options.mode == "first_batch"
    return timed_pass(
        lambda: build(options, rank),
        sums=sums and not is_first,
        most_batches=1 if is_first else None,
        at_start=None if options.from_construction else ready,
    )


def _check(options: LoaderOptions, passes: Sequence[Pass]) -> None:
    if options.mode not in ("first_batch", "rank_0"):
        check(options.expected(), *passes)
    elif not any(one.rows for one in passes):
        raise WrongRowsError(f"{options.system} delivered no batch of {options.pattern}")


def _summary(options: LoaderOptions, rounds: Sequence[Sequence[Pass]]) -> Metrics:
    """The run of all ranks: from the first start to the last end, with the sum of their bytes."""

    def seconds_of(ranks: Sequence[Pass]) -> float:
        if options.mode != "ranks":
            return max(one.seconds for one in ranks)
        return max(one.start + one.seconds for one in ranks) - min(one.start for one in ranks)

    def median(name: str, of_ranks: Callable[[Iterable[float]], float]) -> float:
        return statistics.median(of_ranks(getattr(one, name) for one in ranks) for ranks in rounds)

    seconds = [seconds_of(ranks) for ranks in rounds]
    rows = sum(one.rows for one in rounds[0])
    return {
        "rows": rows,
        "median_s": statistics.median(seconds),
        "min_s": min(seconds),
        **(
            {}
            if options.mode == "first_batch"
            else {"rows_per_s": rows / statistics.median(seconds)}
        ),
        **{name: median(name, max) for name in ("construct_s", "first_batch_s")},
        **{name: median(name, sum) for name in ("asked_bytes", "build_bytes", "disk_bytes")},
    }


def _shares(rounds: Sequence[Sequence[Pass]]) -> Metrics:
    """How evenly ranks share the rows."""
    rows, more = [one.rows for one in rounds[0]], {}
    if len(rows) > 1:
        more = {
            "share_error": max(abs(count / sum(rows) - 1 / len(rows)) for count in rows),
            # After construction, because every rank needs the footers of all files.
            "worst_rank_bytes": max(
                statistics.median(one[rank].asked_bytes - one[rank].build_bytes for one in rounds)
                for rank in range(len(rows))
            ),
        }
    imbalance = (max(rows) - min(rows)) * len(rows) / max(1, sum(rows))
    return {"imbalance": imbalance, **({"rows_of_ranks": rows} if len(rows) > 1 else {}), **more}


def _peaks(options: LoaderOptions, rounds: Sequence[Sequence[Pass]], peaks: list[int]) -> Metrics:
    return {
        "epoch_peak_mb": [peak / 1e6 for peak in peaks],
        "decoded_bytes": 4 * len(options.columns or COLUMNS) * rounds[0][0].rows,
        "peak_growth": max(peaks[1:], default=peaks[0]) / peaks[0],
    }


def shardmill(options: LoaderOptions, rank: int) -> Iterable[Any]:
    """``shardmill.Loader``."""
    import shardmill as sm

    output = sm.Output(options.output, pad="longest") if options.pad else options.output
    given: dict[str, Any] = {"columns": list(options.columns) or None, "output": output}
    if options.label is not None:
        given["filter"] = sm.col("label") == options.label
    if options.shuffle:
        given |= {"shuffle": True, "seed": 0}
    if options.ranks > 1:
        # As many lanes as ranks: each rank reads its own part of the files.
        given |= {
            "lanes": options.ranks,
            "rank": rank,
            "world_size": options.ranks,
            "tail": "uneven",
        }
    given = {name: value for name, value in given.items() if value is not None}
    return sm.Loader(
        options.pattern,
        batch_size=options.batch_size,
        runtime=sm.Runtime(threads=options.threads),
        **given,
    )


def shardmill_dataloader(options: LoaderOptions, rank: int) -> Iterable[Any]:
    """The call that is compatible with torch-dataloader-utils.

    Its ``num_workers`` are native threads.
    """
    from shardmill.integrations.torch import create_dataloader

    return create_dataloader(
        path=options.pattern,
        format=options.format,
        batch_size=options.batch_size,
        output_format=options.output,
        num_workers=options.threads or 0,
    )[0]


def pad_sequence(options: LoaderOptions, rank: int) -> Iterable[Any]:
    """``torch.nn.utils.rnn.pad_sequence`` over the lists that the loader delivers.

    One call of ``torch.split`` cuts them.
    """
    from torch.nn.utils.rnn import pad_sequence as padded

    for batch in shardmill(replace(options, pad=False), rank):
        lists, lengths = batch["tokens"], batch["tokens"].offsets.diff()
        rows = lists.values.split(lengths.tolist())
        yield batch | {"tokens": padded(rows, batch_first=True), "tokens__length": lengths}


SYSTEMS: dict[str, Build] = {
    "shardmill": shardmill,
    "shardmill_dataloader": shardmill_dataloader,
    "pad_sequence": pad_sequence,
}


if __name__ == "__main__":
    run_entry(LoaderOptions, measure)
