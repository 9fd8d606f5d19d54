"""The scenario that opens a long file: seconds, and how much the process grows.

Enters: ``Options`` and a ``System``. Leaves: figures, and resident bytes that the reader holds, of which some are
private, and took at most. Called
by ``measure``. Invariant: it is the first file that the process opens, so nothing is shared or warmed up; memory is
that of the kernel's books, pages of a mapped file that were touched included.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

from benchmarks.arrayrecord.measure import Figure, System, WrongRecordsError, check_records, timed
from benchmarks.arrayrecord.options import Options
from benchmarks.loader.proc import resident_bytes

_STATUS = Path("/proc/self/status")


def measure_open(options: Options, system: System) -> dict[str, Any]:
    """Opens the file once."""
    gc.collect()
    _forget_peak()
    before, private_before = resident_bytes(), _status_bytes("RssAnon")
    seconds, reader = timed(lambda: _opened(options, system))
    steady, peak, private = resident_bytes(), _status_bytes("VmHWM"), _status_bytes("RssAnon")
    if reader.num_records() != options.records:
        msg = f"{reader.num_records():,} of {options.records:,} records of {options.path} after opening"
        raise WrongRecordsError(msg)
    numbers = list(options.sample)
    check_records(options, "read(list)", zip(numbers, reader.read(numbers), strict=True))
    reader.close()
    return {
        "figures": {"open": Figure(options.records, seconds)},
        "steady_bytes": steady - before,
        "private_bytes": private - private_before,
        "peak_bytes": max(steady, peak) - before,
    }


def _opened(options: Options, system: System) -> Any:
    reader = system.reader(options.path)
    reader.num_records()
    return reader


def _forget_peak() -> None:
    """Makes the present size the largest that the kernel remembers; imports took more than they hold."""
    Path("/proc/self/clear_refs").write_text("5")


def _status_bytes(key: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(f"{key}:"))
    return int(line.split()[1]) * 1024
