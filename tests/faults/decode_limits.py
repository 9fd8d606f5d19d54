"""Reads all rows of a path in a process of its own, and says what became of that and how much memory it took.

Usage: decode_limits.py PATH [NAME=VALUE ...], options of `sm.Dataset`.
"""

import json
import resource
import sys
from pathlib import Path


def peak_bytes() -> int:
    """Of this process since it began."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def main() -> None:
    import pyarrow  # noqa: F401 - its memory is none of the reader's
    import shardmill as sm

    path, *given = sys.argv[1:]
    options = dict(option.split("=", 1) for option in given)
    # A reader that asks for what a file states would be told no, and would abort.
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    before = peak_bytes()
    answer = {"rows": 0, "error": None, "message": ""}
    try:
        for batch in sm.Loader(
            sm.Dataset(path, **options), output="arrow", batch_size=1 << 16, runtime=sm.Runtime(threads=1)
        ):
            answer["rows"] += batch.num_rows
    except Exception as error:
        answer |= {"error": type(error).__name__, "message": str(error)}
    print(json.dumps(answer | {"peak": peak_bytes() - before}))


if __name__ == "__main__":
    main()
