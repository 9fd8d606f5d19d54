"""ArrayRecord files: reading one record a call, many a call or in order, writing, and opening.

Grain over the data source is timed too. The same lines time both systems. Opening is outside of the
clock, except where it is what is timed; a figure whose records do not have the hashes of the data
set is an error. Record numbers are Python integers, in the order of the published benchmark.
"""

from __future__ import annotations

import gc
import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arrayrecord_data import CODECS, FILE, GROUPS, SEED, read_raw
from benchmarks.measure import (
    Metrics,
    Options,
    WrongRowsError,
    figure,
    forget_peak,
    record_of,
    run_entry,
    status_bytes,
    timed,
)

# Options of the original that change repeated read(); the third was its default up to 0.8.3.
_SEQUENTIAL = (
    "",
    "max_parallelism:0",
    "readahead_buffer_size:16M",
    "max_parallelism:2,readahead_buffer_size:1M",
)
# seek() and read() of the original start 64 tasks each time, so that a tenth of the calls takes
# long enough.
_SEEK_SHARE = 10
#: Records of some numbers, each by a call of its own.
_Each = Callable[[Iterable[int]], Iterable[Any]]
_PASSES, _WRITE_THREADS, _GRAIN_THREADS, _THREADED_CALLS, _COMPARED = 3, 2, 16, 5_000, 64


@dataclass(frozen=True)
class System:
    """Reader, writer and data source; ``writer`` takes a path, options and a number of threads."""

    reader: Callable[..., Any]
    writer: Callable[[str, str, int], Any]
    source: Callable[[str], Any]


@dataclass(frozen=True, kw_only=True)
class RecordOptions(Options):
    """What is read.

    Attributes:
        raw: Directory of the bare records; only for writing.
        calls: One-record calls that are timed; ``slow_calls`` of calls whose time grows
            with the file.
    """

    data: Path
    raw: Path | None = None
    calls: int = 65_536
    slow_calls: int = 65_536

    @property
    def path(self) -> str:
        """The file."""
        return str(self.data / FILE)

    @property
    def is_ours(self) -> bool:
        """Shardmill has calls that array_record has not."""
        return self.system == "shardmill"

    @cached_property
    def record(self) -> Metrics:
        """The description of the data set."""
        return record_of(self.data)

    @cached_property
    def sample(self) -> dict[int, str]:
        """Hashes of some records, by number."""
        return {int(number): value for number, value in self.record["sample"].items()}

    @cached_property
    def permutation(self) -> list[int]:
        """All record numbers in the order of the published benchmark."""
        return np.random.default_rng(SEED).permutation(self.record["records"]).tolist()

    def numbers(self, calls: int) -> list[int]:
        """The first of the permutation; over and over again where the file is short."""
        return (self.permutation * -(-calls // len(self.permutation)))[:calls]

    def check(self, call: str, records: Iterable[tuple[int, Any]]) -> None:
        """Compares numbered records with the sample, of which all must be there.

        Raises:
            WrongRowsError: If one is missing or has another content.
        """
        missing = set(self.sample)
        for number, record in records:
            if number in self.sample:
                missing.discard(number)
                # Arrow's scalars are not bytes yet.
                content = record if isinstance(record, bytes) else record.as_py()
                if digest(content) != self.sample[number]:
                    raise WrongRowsError(
                        f"{call} gave another record {number:,} than {self.path} was made of"
                    )
        if missing:
            raise WrongRowsError(f"{call} did not give record {min(missing):,} of {self.path}")


def digest(record: bytes) -> str:
    """The hash that a data set keeps of a record."""
    return hashlib.blake2b(record, digest_size=16).hexdigest()


def growth(options: RecordOptions, system: System) -> Metrics:
    """The documented way to one record: the data source by index."""
    with system.source(options.path) as source:
        return {
            "figures": {
                "ds[i]": _loop(
                    options, "ds[i]", partial(map, source.__getitem__), options.slow_calls
                )
            }
        }


def calls(options: RecordOptions, system: System) -> Metrics:
    """All ways to one record, documented or not."""
    with closing(system.reader(options.path)) as reader:
        ways: dict[str, tuple[_Each, int]] = {
            "read([i])": (
                lambda numbers: (reader.read([number])[0] for number in numbers),
                options.slow_calls,
            ),
            "read(i, i + 1)": (
                lambda numbers: (reader.read(number, number + 1)[0] for number in numbers),
                options.calls,
            ),
        }
        if options.is_ours:
            ways["reader[i]"] = (partial(map, reader.__getitem__), options.calls)
        figures = growth(options, system)["figures"]
        figures |= {name: _loop(options, name, *way) for name, way in ways.items()}
    for text, count in (
        ("max_parallelism:0", options.calls),
        ("", max(1, options.slow_calls // _SEEK_SHARE)),
    ):
        with closing(system.reader(options.path, text)) as seeker:
            name = f"seek + read, {text}" if text else "seek + read"
            figures[name] = _loop(options, name, partial(_sought, seeker), count)
    return {"figures": figures}


def _sought(seeker: Any, numbers: Iterable[int]) -> Iterator[bytes]:
    for number in numbers:
        seeker.seek(number)
        yield seeker.read()


def _loop(options: RecordOptions, name: str, each: _Each, count: int) -> Metrics:
    """Checks a one-record call, which warms it up too, and times it."""
    options.check(name, zip(options.sample, each(options.sample), strict=True))
    numbers = options.numbers(count)
    return figure(len(numbers), timed(lambda: _exhaust(each(numbers)))[0])


def _exhaust(records: Iterable[Any]) -> None:
    deque(records, maxlen=0)


def batch(options: RecordOptions, system: System) -> Metrics:
    """All records in one call, in the order of the permutation; the best of some passes."""
    numbers = options.permutation
    reader, source = system.reader(options.path), system.source(options.path)
    ways: dict[str, Callable[[list[int]], Any]] = {
        "read(list)": reader.read,
        "ds.__getitems__(list)": source.__getitems__,
    }
    if options.is_ours:
        ways["read_arrow(list)"] = reader.read_arrow
    figures = {}
    for name, call in ways.items():
        seconds = []
        for _ in range(_PASSES):
            spent, result = timed(lambda call=call: call(numbers))
            seconds.append(spent)
            options.check(name, zip(numbers, result, strict=True))
            # The next pass must not hold twice the memory.
            del result
        figures[name] = figure(len(numbers), min(seconds))
    reader.close()
    return {"figures": figures}


def sequential(options: RecordOptions, system: System) -> Metrics:
    """All records in the order of the file."""
    figures, total = {}, options.record["records"]
    if options.is_ours:
        with closing(system.reader(options.path)) as reader:
            options.check("for record in reader", enumerate(reader))
        with closing(system.reader(options.path)) as reader:
            figures["for record in reader"] = figure(total, timed(lambda: _exhaust(reader))[0])
    for text in _SEQUENTIAL[: 2 if options.is_ours else None]:
        name = f"read(), {text}" if text else "read()"
        with closing(system.reader(options.path, text)) as reader:
            options.check(name, zip(options.sample, _sought(reader, options.sample), strict=True))
        # A new one: what the other has read ahead would be in its favour.
        with closing(system.reader(options.path, text)) as reader:
            figures[name] = figure(
                total, timed(lambda: _exhaust(reader.read() for _ in range(total)))[0]
            )
            if reader.num_records() != total or reader.record_index() != total:
                raise WrongRowsError(
                    f"{name}: {reader.record_index():,} of {total:,} records of {options.path}"
                )
    with closing(system.reader(options.path)) as reader:
        seconds, result = timed(reader.read_all)
        options.check("read_all()", enumerate(result))
        figures["read_all()"] = figure(len(result), seconds)
    return {"figures": figures}


def write(options: RecordOptions, system: System) -> Metrics:
    """One call a record, from the constructor to the end of close(), in groups of 1 and of 256."""
    assert options.raw is not None, "--raw names the directory of the bare records"
    records, codec, sizes = read_raw(options.raw), CODECS[options.record["codec"]], {}
    ways = [(f"group {group}, write", group, _WRITE_THREADS, False) for group in GROUPS]
    if options.is_ours:
        ways += [
            ("group 1, write, threads=1", 1, 1, False),
            ("group 1, write_all", 1, _WRITE_THREADS, True),
        ]
    figures = {}
    for name, group, threads, at_once in ways:
        path = options.scratch / FILE

        def loop(
            path: Path = path, group: int = group, threads: int = threads, at_once: bool = at_once
        ) -> None:
            writer = system.writer(str(path), f"group_size:{group},{codec}", threads)
            if at_once:
                writer.write_all(records)
            else:
                for record in records:
                    writer.write(record)
            writer.close()

        figures[name] = figure(len(records), timed(loop)[0])
        sizes[f"group {group}"] = 100 * path.stat().st_size / options.record["raw_bytes"]
        reader, numbers = system.reader(str(path)), list(options.sample)
        options.check(name, zip(numbers, reader.read(numbers), strict=True))
        reader.close()
        path.unlink()
    return {"figures": figures, "size_percent": sizes}


def open_file(options: RecordOptions, system: System) -> Metrics:
    """Opens a long file, the first one of this process.

    Returns seconds, and how much the process grows, mapped pages included.
    """

    def opened() -> Any:
        reader = system.reader(options.path)
        reader.num_records()
        return reader

    gc.collect()
    # Imports took more than they hold.
    forget_peak()
    before, private_before = status_bytes(), status_bytes("RssAnon")
    seconds, reader = timed(opened)
    steady, peak, private = status_bytes(), status_bytes("VmHWM"), status_bytes("RssAnon")
    if reader.num_records() != options.record["records"]:
        raise WrongRowsError(f"{reader.num_records():,} records of {options.path} after opening")
    numbers = list(options.sample)
    options.check("read(list)", zip(numbers, reader.read(numbers), strict=True))
    reader.close()
    return {
        "figures": {"open": figure(options.record["records"], seconds)},
        "steady_bytes": steady - before,
        "private_bytes": private - private_before,
        "peak_bytes": max(steady, peak) - before,
    }


def grain(options: RecordOptions, system: System) -> Metrics:
    """A plain loop over ``MapDataset``, then iterators over it shuffled, with 0 and 16 threads."""
    import grain

    with system.source(options.path) as source:
        dataset = grain.MapDataset.source(source)
        figures = {
            "MapDataset[i]": _loop(
                options,
                "MapDataset",
                lambda numbers: map(dataset.__getitem__, numbers),
                options.slow_calls,
            )
        }
        shuffled = dataset.shuffle(SEED)
        # With threads, Grain itself takes half a millisecond for an element.
        for threads, most in ((0, len(shuffled)), (_GRAIN_THREADS, _THREADED_CALLS)):
            count = min(most, options.slow_calls, len(shuffled))
            elements = shuffled.to_iter_dataset(grain.ReadOptions(num_threads=threads))
            for number, element in enumerate(islice(elements, min(_COMPARED, len(shuffled)))):
                if element != shuffled[number]:
                    raise WrongRowsError(
                        f"Grain's iterator gave another element {number} than its data set"
                    )
            seconds, found = timed(
                lambda elements=elements, count=count: sum(1 for _ in islice(elements, count))
            )
            if found != count:
                raise WrongRowsError(f"Grain's iterator gave {found:,} of {count:,} records")
            figures[f"to_iter_dataset, num_threads={threads}"] = figure(count, seconds)
    return {"figures": figures}


def shardmill() -> System:
    """The public API with its defaults."""
    from shardmill.arrayrecord import ArrayRecordDataSource, ArrayRecordReader, ArrayRecordWriter

    def writer(path: str, options: str, threads: int) -> Any:
        return ArrayRecordWriter(path, options, threads=threads)

    return System(ArrayRecordReader, writer, ArrayRecordDataSource)


def array_record() -> System:
    """The original; its writer compresses in the calling thread, whatever max_parallelism says."""
    from array_record.python.array_record_data_source import ArrayRecordDataSource
    from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter

    return System(
        ArrayRecordReader,
        lambda path, options, _: ArrayRecordWriter(path, options),
        ArrayRecordDataSource,
    )


SYSTEMS = {"shardmill": shardmill, "array_record": array_record}
SCENARIOS: dict[str, Callable[[RecordOptions, System], Metrics]] = {
    "growth": growth,
    "calls": calls,
    "batch": batch,
    "sequential": sequential,
    "write": write,
    "open": open_file,
    "grain": grain,
}


def measure(options: RecordOptions) -> Metrics:
    """Runs the scenario once."""
    found = SCENARIOS[options.scenario](options, SYSTEMS[options.system]())
    return found | {"records": options.record["records"]}


if __name__ == "__main__":
    run_entry(RecordOptions, measure)
