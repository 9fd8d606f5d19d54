"""The options of an ArrayRecord benchmark script, the same for both sides.

Enters: a command line and the data set's ``manifest.json``. Leaves: ``Options``. Called by the entry scripts.
Invariant: both sides get the same record numbers in the same order.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arrayrecord.sets import FILE, MANIFEST
from benchmarks.loader.options import write_json

SCENARIOS = ("individual", "calls", "batch", "sequential", "write", "open", "grain")
_SEED = 42


@dataclass(frozen=True)
class Options:
    """A parsed command line; the field names are those of the options.

    Attributes:
        out: Folder of ``params.json`` and ``metrics.json``; files are written below its ``scratch``.
        data: Folder of a data set.
        raw: Folder of the bare records; only for writing.
        calls: One-record calls that are timed.
        slow_calls: The same for calls whose time grows with the file; fewer of them tell as much.
        passes: Timed batches, of which the best counts.
        threads: Threads of our writer.
    """

    out: Path
    data: Path
    raw: Path | None
    scenario: str
    calls: int
    slow_calls: int
    passes: int
    threads: int

    @property
    def path(self) -> str:
        """The file."""
        return str(self.data / FILE)

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """What the data set's folder says of itself."""
        return json.loads((self.data / MANIFEST).read_text())

    @property
    def records(self) -> int:
        """Records of the file."""
        return int(self.manifest["records"])

    @cached_property
    def sample(self) -> dict[int, str]:
        """Hashes of some records, by number."""
        return {int(number): value for number, value in self.manifest["sample"].items()}

    @cached_property
    def permutation(self) -> list[int]:
        """All record numbers in the order of the published benchmark, as Python integers."""
        return np.random.default_rng(_SEED).permutation(self.records).tolist()

    def numbers(self, calls: int) -> list[int]:
        """The first of the permutation; over and over again where the file is short."""
        times = -(-calls // self.records)
        return (self.permutation * times)[:calls]

    def write_params(self) -> None:
        """Writes ``params.json``; called before the run starts, so that a crash leaves it behind."""
        params = {name: value for name, value in asdict(self).items() if name not in ("out", "data", "raw")}
        write_json(self.out / "params.json", params | {"set": self.data.name})

    def write_metrics(self, metrics: dict[str, Any]) -> None:
        """Replaces ``metrics.json``."""
        write_json(self.out / "metrics.json", metrics)


def parse_options(description: str, arguments: Sequence[str] | None = None) -> Options:
    """Reads the command line.

    Args:
        description: First line of ``--help``.
        arguments: Instead of the process's own.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", type=Path, required=True, help="folder of params and metrics")
    parser.add_argument("--data", type=Path, required=True, help="folder of a data set with its manifest")
    parser.add_argument("--raw", type=Path, default=None, help="folder of the bare records")
    parser.add_argument("--scenario", choices=SCENARIOS, required=True)
    parser.add_argument("--calls", type=int, default=65_536)
    parser.add_argument("--slow-calls", type=int, default=None, help="default: as many as --calls")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2, help="of our writer")
    values = vars(parser.parse_args(arguments))
    if values["slow_calls"] is None:
        values["slow_calls"] = values["calls"]
    return Options(**values)
