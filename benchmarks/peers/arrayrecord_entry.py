"""array_record reads and writes its files: the side of the ArrayRecord benchmark that we want to beat.

Enters: the options of ``benchmarks.arrayrecord.options``. Leaves: ``params.json`` and ``metrics.json``. The runner
starts it with the interpreter of ``build.sh``. Invariant: the same lines time it as us; nothing is patched.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Any

from array_record.python.array_record_data_source import ArrayRecordDataSource
from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter

from benchmarks.arrayrecord.measure import System, run_entry
from benchmarks.arrayrecord.options import parse_options


def main() -> int:
    """Runs one entry and returns the exit code."""
    system = System(ArrayRecordReader, _writer, ArrayRecordDataSource, is_ours=False, version=version("array_record"))
    return run_entry(parse_options("ArrayRecord with array_record."), system)


def _writer(path: str, options: str, _threads: int) -> Any:
    """It compresses in the calling thread, whatever max_parallelism says."""
    return ArrayRecordWriter(path, options)


if __name__ == "__main__":
    sys.exit(main())
