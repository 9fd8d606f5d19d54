"""The options of a streaming benchmark script, the same for every system.

Enters: a command line. Leaves: ``Options``. Called by the entry scripts. Invariant: the standard library is enough.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.loader.options import write_json

SCENARIOS = ("verbatim", "fair", "mds", "ceiling", "plan")


@dataclass(frozen=True)
class Options:
    """A parsed command line; the field names are those of the options.

    Attributes:
        out: Folder of ``params.json`` and ``metrics.json``; files are written below its ``scratch``.
        source: Folder of the rows.
        mds: Folder of the same rows as MosaicML writes them; for the scenario of that name.
        plan_rows: How many rows are planned.
        jpeg_bytes: How many bytes of images are shuffled.
    """

    out: Path
    scenario: str
    source: Path
    mds: Path | None
    plan_rows: int
    jpeg_bytes: int

    @property
    def scratch(self) -> Path:
        """What an entry writes."""
        return self.out / "scratch"

    def write_params(self) -> None:
        """Writes ``params.json``; called before the run starts, so that a crash leaves it behind."""
        values = {name: value for name, value in asdict(self).items() if not isinstance(value, Path)}
        write_json(self.out / "params.json", values)

    def write_metrics(self, metrics: dict[str, Any]) -> None:
        """Replaces ``metrics.json``."""
        write_json(self.out / "metrics.json", metrics)


def parse_options(description: str, arguments: Sequence[str] | None = None) -> tuple[Options, argparse.Namespace]:
    """Reads the command line; the second value has ``tool``, which some scripts need."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", type=Path, required=True, help="folder of params and metrics")
    parser.add_argument("--scenario", choices=SCENARIOS, required=True)
    parser.add_argument("--source", type=Path, required=True, help="folder of the rows")
    parser.add_argument("--mds", type=Path, default=None, help="folder of the same rows as MDS")
    parser.add_argument("--tool", default="shardmill", help="of a script that runs several")
    parser.add_argument("--plan-rows", type=int, default=10_000_000)
    parser.add_argument("--jpeg-bytes", type=int, default=1_000_000_000)
    values = parser.parse_args(arguments)
    names = ("out", "scenario", "source", "mds", "plan_rows", "jpeg_bytes")
    return Options(**{name: getattr(values, name) for name in names}), values
