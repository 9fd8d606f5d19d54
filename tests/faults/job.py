"""One curation job in a process of its own, so that it can be killed.

    python job.py KIND INPUT OUTPUT [NAME=VALUE ...]

KIND is ``wds-parquet``, ``wds-wds``, ``parquet-parquet`` or ``parquet-wds``. Prints ``go`` before
the run, then one line of JSON with its outcome.
"""

import json
import os
import resource
import sys
import threading
import time
from pathlib import Path

#: Of 20 ms: longer than any test, so that one that fails leaves no process for ever.
STEPS = 10_000
READERS, WRITERS = ("wds", "parquet"), ("parquet", "wds")
KINDS = ("wds-parquet", "wds-wds", "parquet-parquet", "parquet-wds")


def slow_map(table):
    """Python code that says when it begins, and goes on for minutes, in small steps."""
    # Lines of several threads do not mix when each is one call.
    os.write(1, b"at work\n")
    for _ in range(STEPS):
        time.sleep(0.02)
    return table


class Held:
    """Lets one table of each thread pass, so that a file is begun.

    The next ones wait in small steps until there is a file with the name of the gate.
    """

    def __init__(self, gate: str) -> None:
        self.gate, self.seen = gate, set()

    def __call__(self, table):
        # A file is begun once the first split has a result, on whichever thread it runs.
        is_first = threading.get_ident() not in self.seen
        self.seen.add(threading.get_ident())
        for _ in range(0 if is_first else STEPS):
            if Path(self.gate).exists():
                break
            time.sleep(0.02)
        return table


def pipeline_of(
    kind: str,
    source: str,
    out: str,
    *,
    map: str = "",
    memory_bytes: str = str(32 << 20),
    **options: str,
):
    """``map`` is ``slow``, or ``held:`` and a path."""
    from shardmill.curate import (
        InterleavedParquetSource,
        Map,
        ParquetSink,
        Pipeline,
        WebDatasetSink,
        WebDatasetSource,
    )

    reader, writer = kind.split("-")
    sources = {"wds": WebDatasetSource, "parquet": InterleavedParquetSource}
    sinks = {"wds": WebDatasetSink, "parquet": ParquetSink}
    return Pipeline(
        source=sources[reader](source),
        stages=[Map(slow_map if map == "slow" else Held(map.removeprefix("held:")), name="map")]
        if map
        else [],
        sink=sinks[writer](out, **{"mode": "resume", **options}),
        memory_bytes=int(memory_bytes),
    )


def peak_memory_bytes() -> int:
    """Of this program alone; ``ru_maxrss`` starts with what the parent had at the fork."""
    status = Path("/proc/self/status")
    if status.exists():
        return next(
            int(line.split()[1]) << 10
            for line in status.read_text().splitlines()
            if line.startswith("VmHWM")
        )
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def main(kind: str, source: str, out: str, *options: str) -> None:
    named = dict(option.split("=", 1) for option in options)
    workers = int(named.pop("workers", "2"))
    job = pipeline_of(kind, source, out, **named)
    print("go", flush=True)
    try:
        report = job.run(threads=workers, progress=False)
    except BaseException as error:
        outcome = {
            "error": type(error).__name__,
            "message": str(error),
            "seen_at": time.monotonic(),
        }
        print(json.dumps(outcome), flush=True)
        raise
    outputs = {Path(output["path"]).name: output["rows"] for output in report.outputs}
    print(
        json.dumps(
            {"outputs": outputs, "quarantined": report.quarantined, "peak": peak_memory_bytes()}
        ),
        flush=True,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
