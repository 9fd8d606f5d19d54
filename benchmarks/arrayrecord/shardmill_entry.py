"""shardmill reads and writes ArrayRecord files.

Enters: the options of ``benchmarks.arrayrecord.options``. Leaves: ``params.json`` and ``metrics.json``. Started by the
runner. Invariant: only the public API is used, with its defaults.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.arrayrecord.measure import System, run_entry
from benchmarks.arrayrecord.options import parse_options

# The peers' interpreter, which has Grain, imports the checkout's package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one entry and returns the exit code."""
    from shardmill import __version__
    from shardmill.arrayrecord import ArrayRecordDataSource, ArrayRecordReader, ArrayRecordWriter

    def writer(path: str, options: str, threads: int) -> Any:
        return ArrayRecordWriter(path, options, threads=threads)

    system = System(ArrayRecordReader, writer, ArrayRecordDataSource, is_ours=True, version=__version__)
    return run_entry(parse_options("ArrayRecord with shardmill.", arguments), system)


if __name__ == "__main__":
    raise SystemExit(main())
