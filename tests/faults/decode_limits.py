"""What becomes of reading all rows of a path, and how much memory it takes."""

import json
import resource
from pathlib import Path
from typing import Any

# Their memory is none of the reader's, and neither is the time of the imports of each reader.
import pyarrow  # noqa: F401
from shardmill import Dataset, Loader, Runtime


def peak_bytes() -> int:
    """Of this process since it began."""
    line = next(
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM:")
    )
    return int(line.split()[1]) * 1024


def read(path: str, options: dict[str, Any]) -> None:
    """Prints a line of JSON. For a process of its own."""
    # A reader that asks for what a file states would be told no, and would abort.
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    before = peak_bytes()
    answer = {"rows": 0, "error": None, "message": ""}
    try:
        for batch in Loader(
            Dataset(path, **options), output="arrow", batch_size=1 << 16, runtime=Runtime(threads=1)
        ):
            answer["rows"] += batch.num_rows
    except Exception as error:
        answer |= {"error": type(error).__name__, "message": str(error)}
    print(json.dumps(answer | {"peak": peak_bytes() - before}))
