"""Runs one scenario on one side: what a side is, the clock, and the check that the records are right.

Enters: ``Options`` and a ``System``. Leaves: ``params.json`` and ``metrics.json``, where ``figures`` maps the call as
it is written in Python to records and seconds. Called by the entry scripts. Invariant: both sides are timed by the same
lines; a figure whose records do not have the hashes of the manifest is an error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

from benchmarks.arrayrecord.options import Options
from benchmarks.arrayrecord.sets import digest

_Result = TypeVar("_Result")
# Imported by the scenario that runs: what one needs must not show in the memory of another.
_ROOMS = {
    "individual": "reading",
    "calls": "reading",
    "batch": "reading",
    "sequential": "reading",
    "write": "writing",
    "open": "opening",
    "grain": "pipeline",
}


@dataclass(frozen=True)
class System:
    """One side.

    Attributes:
        reader: Takes a path and options.
        writer: Takes a path, options and a number of threads, which the original does not know.
        source: Takes a path.
        is_ours: Has the calls that array_record has not.
        version: Of the package.
    """

    reader: Callable[..., Any]
    writer: Callable[[str, str, int], Any]
    source: Callable[[str], Any]
    is_ours: bool
    version: str


@dataclass(frozen=True)
class Figure:
    """So many records took so long."""

    records: int
    seconds: float

    def metrics(self) -> dict[str, float]:
        """As it stands in ``metrics.json``."""
        return {"records": self.records, "seconds": self.seconds}


class WrongRecordsError(AssertionError):
    """A call did not give the records of the file."""


def run_entry(options: Options, system: System) -> int:
    """Runs the scenario that the options name and returns the exit code."""
    options.write_params()
    try:
        room = import_module(f"benchmarks.arrayrecord.{_ROOMS[options.scenario]}")
        metrics = getattr(room, f"measure_{options.scenario}")(options, system)
    except Exception as error:
        options.write_metrics({"is_success": False, "error": f"{type(error).__name__}: {error}"})
        raise
    figures = {name: figure.metrics() for name, figure in metrics.pop("figures", {}).items()}
    basis = {"is_success": True, "version": system.version, "records": options.records}
    options.write_metrics({**basis, "figures": figures, **metrics})
    return 0


def timed(action: Callable[[], _Result]) -> tuple[float, _Result]:
    """Returns the seconds of a call, and its result."""
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


def check_records(options: Options, call: str, records: Iterable[tuple[int, Any]]) -> None:
    """Compares records with the hashes of the manifest.

    Args:
        options: Tell the sample.
        call: For the message.
        records: Number and content; all of the sample must be among them, others are passed over.

    Raises:
        WrongRecordsError: If one is missing or has another content.
    """
    missing = set(options.sample)
    for number, record in records:
        if number in options.sample:
            missing.discard(number)
            if digest(record) != options.sample[number]:
                msg = f"{call} gave another record {number:,} than {options.path} was made of"
                raise WrongRecordsError(msg)
    if missing:
        msg = f"{call} did not give record {min(missing):,} of {options.path}"
        raise WrongRecordsError(msg)
