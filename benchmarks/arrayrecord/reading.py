"""Scenarios that read: one record a call, many records a call, one after another.

Enters: ``Options`` and a ``System``. Leaves: figures by call. Called by ``measure``. Invariant: opening and the check
are outside of the clock; the check is made with the same call, before it or on what was timed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.arrayrecord.measure import Figure, System, WrongRecordsError, check_records, timed
from benchmarks.arrayrecord.options import Options

# Options of the original that change repeated read(); the third was its default up to 0.8.3.
SEQUENTIAL_OPTIONS = (
    "",
    "max_parallelism:0",
    "readahead_buffer_size:16M",
    "max_parallelism:2,readahead_buffer_size:1M",
)
NO_READAHEAD = "max_parallelism:0"
# seek() and read() of the original start 64 tasks each time, so that a tenth of the calls takes long enough.
_SEEK_SHARE = 10
# Calls that go over a list of record numbers.
Loop = Callable[[list[int]], None]


def measure_individual(options: Options, system: System) -> dict[str, Any]:
    """The documented way: the data source by index."""
    with system.source(options.path) as source:

        def loop(numbers: list[int]) -> None:
            for number in numbers:
                source[number]

        return {"figures": {"ds[i]": _loop(options, "ds[i]", loop, source.__getitem__, options.slow_calls)}}


def measure_calls(options: Options, system: System) -> dict[str, Any]:
    """All other ways to one record, documented or not."""
    figures: dict[str, Figure] = {}
    reader = system.reader(options.path)

    def by_list(numbers: list[int]) -> None:
        for number in numbers:
            reader.read([number])

    def by_range(numbers: list[int]) -> None:
        for number in numbers:
            reader.read(number, number + 1)

    def by_index(numbers: list[int]) -> None:
        for number in numbers:
            reader[number]

    name = "read([i])"
    figures[name] = _loop(options, name, by_list, lambda number: reader.read([number])[0], options.slow_calls)
    name = "read(i, i + 1)"
    figures[name] = _loop(options, name, by_range, lambda number: reader.read(number, number + 1)[0], options.calls)
    if system.is_ours:
        figures["reader[i]"] = _loop(options, "reader[i]", by_index, reader.__getitem__, options.calls)
    reader.close()
    for text, calls in ((NO_READAHEAD, options.calls), ("", max(1, options.slow_calls // _SEEK_SHARE))):
        name = f"seek + read, {text}" if text else "seek + read"
        figures[name] = _seek(options, system, name, text, calls)
    return {"figures": figures}


def measure_batch(options: Options, system: System) -> dict[str, Any]:
    """All records in one call, in the order of the permutation; the best of some passes."""
    numbers = options.permutation
    reader = system.reader(options.path)
    calls: dict[str, Callable[[], Any]] = {"read(list)": lambda: reader.read(numbers)}
    source = system.source(options.path)
    calls["ds.__getitems__(list)"] = lambda: source.__getitems__(numbers)
    if system.is_ours:
        calls["read_arrow(list)"] = lambda: reader.read_arrow(numbers)
    figures = {}
    for name, call in calls.items():
        seconds = []
        for _ in range(options.passes):
            spent, result = timed(call)
            seconds.append(spent)
            check_records(options, name, _sampled(options, numbers, result))
            # The next pass must not hold twice the memory.
            del result
        figures[name] = Figure(len(numbers), min(seconds))
    reader.close()
    return {"figures": figures}


def measure_sequential(options: Options, system: System) -> dict[str, Any]:
    """All records in the order of the file."""
    figures = {}
    if system.is_ours:
        reader = system.reader(options.path)
        check_records(options, "for record in reader", enumerate(reader))
        reader.close()
        reader = system.reader(options.path)
        figures["for record in reader"] = Figure(options.records, timed(lambda: _exhaust(reader))[0])
        reader.close()
    for text in SEQUENTIAL_OPTIONS[: 2 if system.is_ours else None]:
        name = f"read(), {text}" if text else "read()"
        checked = system.reader(options.path, text)
        check_records(options, name, _sought(options, checked))
        checked.close()
        # A new one: what the other has read ahead would be in its favour.
        reader = system.reader(options.path, text)
        count = reader.num_records()
        figures[name] = Figure(count, timed(lambda reader=reader, count=count: _read_times(reader, count))[0])
        if count != options.records or reader.record_index() != count:
            msg = f"{name}: {reader.record_index():,} of {options.records:,} records of {options.path}"
            raise WrongRecordsError(msg)
        reader.close()
    reader = system.reader(options.path)
    seconds, result = timed(reader.read_all)
    check_records(options, "read_all()", enumerate(result))
    figures["read_all()"] = Figure(len(result), seconds)
    reader.close()
    return {"figures": figures}


def _loop(options: Options, name: str, loop: Loop, one: Callable[[int], bytes], calls: int) -> Figure:
    """Checks a one-record call, which warms it up too, and times it."""
    check_records(options, name, ((number, one(number)) for number in options.sample))
    numbers = options.numbers(calls)
    return Figure(len(numbers), timed(lambda: loop(numbers))[0])


def _seek(options: Options, system: System, name: str, text: str, calls: int) -> Figure:
    reader = system.reader(options.path, text)

    def one(number: int) -> bytes:
        reader.seek(number)
        return reader.read()

    def loop(numbers: list[int]) -> None:
        for number in numbers:
            reader.seek(number)
            reader.read()

    figure = _loop(options, name, loop, one, calls)
    reader.close()
    return figure


def _sampled(options: Options, numbers: list[int], result: Any) -> Iterable[tuple[int, bytes]]:
    if len(result) != len(numbers):
        msg = f"{len(result):,} records came for {len(numbers):,} numbers"
        raise WrongRecordsError(msg)
    for place, number in enumerate(numbers):
        if number in options.sample:
            record = result[place]
            # Arrow's scalars are no bytes yet.
            yield number, record if isinstance(record, bytes) else record.as_py()


def _sought(options: Options, reader: Any) -> Iterable[tuple[int, bytes]]:
    for number in options.sample:
        reader.seek(number)
        yield number, reader.read()


def _exhaust(reader: Any) -> None:
    for _record in reader:
        pass


def _read_times(reader: Any, count: int) -> None:
    for _ in range(count):
        reader.read()
