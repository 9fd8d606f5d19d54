"""The options of a loader benchmark script, the same for every system under test.

Enters: a command line and the data set's ``manifest.json``. Leaves: ``Options``, and what a pass must deliver. Called
by the entry scripts. Invariant: the standard library is enough, because the peers' interpreters import this file too.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from benchmarks.loader.sets import LABELS, MANIFEST

# How a run goes over the data: see ``measure`` and ``ranks``.
MODES = ("stream", "first_batch", "memory", "ranks", "ranks_in_turn", "rank_0")
OUTPUTS = ("arrow", "torch", "numpy")


@dataclass(frozen=True)
class Options:
    """A parsed command line; the field names are those of the options.

    Attributes:
        out: Folder of ``params.json`` and ``metrics.json``.
        files: Pattern of the file names that are read; the same for every tool.
        label: Only rows with this label, if given.
        threads: Threads of a loader in one process; None is the tool's default.
        workers: Worker processes of a torch ``DataLoader``.
        by_worker: Batches come with the number of the worker that read them.
        timed_from_construction: The clock starts before the loader is built.
    """

    out: Path
    data: Path
    tool: str
    mode: str
    files: str
    output: str
    batch_size: int
    columns: tuple[str, ...] | None
    label: int | None
    shuffle: bool
    threads: int | None
    workers: int
    by_worker: bool
    ranks: int
    split_rows: int | None
    split_bytes: str | None
    runs: int
    warm_ups: int
    epochs: int
    cold: bool
    timed_from_construction: bool

    @property
    def manifest(self) -> dict[str, Any]:
        """What the data set's folder says of itself."""
        return json.loads((self.data / MANIFEST).read_text())

    @property
    def format(self) -> str:
        """``parquet``, ``orc`` or ``csv``."""
        return str(self.manifest["format"])

    @property
    def pattern(self) -> str:
        """The files as a glob, without the manifest."""
        return str(self.data / self.files)

    def paths(self) -> list[Path]:
        """The files, in the order of their names."""
        return [self.data / file["name"] for file in self._chosen()]

    def expected(self) -> tuple[int, int]:
        """Rows that one pass delivers over all ranks, and the sum of their ``row_id``."""
        rows, total = 0, 0
        for file in self._chosen():
            first, step = file["first_row"], 1
            end = first + file["rows"]
            if self.label is not None:
                first, step = first + (self.label - first) % LABELS, LABELS
            numbers = range(first, end, step)
            rows += len(numbers)
            # Gauss; a loop would take seconds for 25 million rows.
            total += (numbers[0] + numbers[-1]) * len(numbers) // 2 if numbers else 0
        return rows, total

    def write_params(self) -> None:
        """Writes ``params.json``; called before the run starts, so that a crash leaves it behind."""
        params = {name: value for name, value in asdict(self).items() if name not in ("out", "data")}
        write_json(self.out / "params.json", params | {"set": self.data.name})

    def write_metrics(self, metrics: dict[str, Any]) -> None:
        """Replaces ``metrics.json``."""
        write_json(self.out / "metrics.json", metrics)

    def _chosen(self) -> list[dict[str, Any]]:
        chosen = [file for file in self.manifest["files"] if fnmatch(file["name"], self.files)]
        if not chosen:
            msg = f"{self.data}: no file matches {self.files}\nhint: {MANIFEST} lists the names"
            raise FileNotFoundError(msg)
        return sorted(chosen, key=lambda file: file["name"])


def parse_options(description: str, *, tools: Sequence[str], arguments: Sequence[str] | None = None) -> Options:
    """Reads the command line.

    Args:
        description: First line of ``--help``.
        tools: Values of ``--tool``; the first is the default.
        arguments: Instead of the process's own.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", type=Path, required=True, help="folder of params and metrics")
    parser.add_argument("--data", type=Path, required=True, help="folder of a data set with its manifest")
    parser.add_argument("--tool", choices=tools, default=tools[0])
    parser.add_argument("--mode", choices=MODES, default=MODES[0])
    parser.add_argument("--files", default=None, help="pattern of file names (default: all of the set)")
    parser.add_argument("--output", choices=OUTPUTS, default="arrow")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--columns", nargs="+", default=None)
    parser.add_argument("--label", type=int, default=None, help="filter: label == N")
    parser.add_argument("--shuffle", action="store_true", help="rows, not files")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--by-worker", action="store_true", help="report the rows of each worker")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--split-rows", type=int, default=None)
    parser.add_argument("--split-bytes", default=None)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--warm-ups", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=3, help="mode memory only")
    parser.add_argument("--cold", action="store_true", help="drop the files from the page cache before each run")
    parser.add_argument("--timed-from-construction", action="store_true")
    values = vars(parser.parse_args(arguments))
    values["columns"] = tuple(values["columns"]) if values["columns"] else None
    if values["files"] is None:
        values["files"] = f"*.{json.loads((values['data'] / MANIFEST).read_text())['format']}"
    return Options(**values)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Replaces a JSON file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    staging = path.with_name(f".{path.name}.partial")
    staging.write_text(json.dumps(content, indent=2, default=str) + "\n")
    staging.replace(path)
