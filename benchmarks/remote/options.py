"""The options of a remote benchmark script, the same for every system.

Enters: a command line. Leaves: ``Options``. Called by the entry scripts. Invariant: the standard library is enough.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.loader.options import write_json
from benchmarks.loader.sets import DataSet
from benchmarks.remote.sets import data_sets

SCENARIOS = ("reading", "opening", "cached", "ranks", "beside", "faults_loader", "faults_job")
FORMS = ("arrow", "torch", "mds")


@dataclass(frozen=True)
class Options:
    """A parsed command line; the field names are those of the options.

    Attributes:
        out: Folder of ``params.json`` and ``metrics.json``; files are written below its ``scratch``.
        data: Folder of the data set.
        share: Of the full size of the sets.
        tool: Of a script that runs several.
        form: What a batch is, or the format that is read.
        round_trip_s: Time before each answer where the store is far away.
        runs: Timed passes, after one that warms up.
        faults: That one job lives through.
    """

    out: Path
    data: Path
    scenario: str
    tool: str
    form: str
    share: float
    round_trip_s: float
    batch_size: int
    runs: int
    faults: int

    @property
    def rows(self) -> DataSet:
        """The set that is read, and what its rows are."""
        name = self.data.name
        return data_sets(self.share)["rows" if name == "mds" else name]

    @property
    def scratch(self) -> Path:
        """What an entry writes."""
        return self.out / "scratch"

    def write_params(self) -> None:
        """Writes ``params.json``; called before the run starts, so that a crash leaves it behind."""
        values = {name: value for name, value in asdict(self).items() if not isinstance(value, Path)}
        write_json(self.out / "params.json", values | {"set": self.data.name})

    def write_metrics(self, metrics: dict[str, Any]) -> None:
        """Replaces ``metrics.json``."""
        write_json(self.out / "metrics.json", metrics)


def parse_options(description: str, *, tools: Sequence[str], arguments: Sequence[str] | None = None) -> Options:
    """Reads the command line; the first of ``tools`` is the default."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", type=Path, required=True, help="folder of params and metrics")
    parser.add_argument("--data", type=Path, required=True, help="folder of a data set")
    parser.add_argument("--scenario", choices=SCENARIOS, required=True)
    parser.add_argument("--tool", choices=tools, default=tools[0])
    parser.add_argument("--form", choices=FORMS, default=FORMS[0])
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--round-trip-s", type=float, default=0.010)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--faults", type=int, default=1_000)
    return Options(**vars(parser.parse_args(arguments)))
