"""One job with a checkpoint in a process of its own.

    python resume_job.py KIND INPUT OUTPUT checkpoint=DIRECTORY [NAME=VALUE ...]

KIND is ``double``, ``explode`` or ``drop`` for tables with the columns ``id`` and ``n``, ``wds`` or
``parquet`` for documents. Prints ``go`` before the run, then one line of JSON with its outcome.
"""

import json
import os
import sys
import time
from pathlib import Path

TABLES = ("double", "explode", "drop")
DOCUMENTS = ("wds", "parquet")


class Work:
    """The function of a job: notes which rows it gets, and takes its time.

    It makes no row, one or several of each.
    """

    def __init__(self, kind: str, pace: float, calls: str) -> None:
        self.kind, self.pace, self.calls = kind, pace, calls

    def __call__(self, table):
        if self.calls:
            # One short write of one process is not torn by the next, nor by a kill.
            with Path(self.calls, str(os.getpid())).open("ab", buffering=0) as file:
                file.write("".join(f"{number}\n" for number in table["n"].to_pylist()).encode())
        time.sleep(self.pace)
        return table if self.kind in DOCUMENTS else made(self.kind, table)


def made(kind: str, table):
    import pyarrow as pa

    rows = [
        row
        for id, n in zip(*(table[name].to_pylist() for name in ("id", "n")))
        for row in made_of(kind, id, n)
    ]
    ids, numbers, copies = zip(*rows) if rows else ((), (), ())
    return pa.table(
        {
            "id": pa.array(ids, table.schema.field("id").type),
            "n": pa.array(numbers, pa.int64()),
            "copy": pa.array(copies, pa.int64()),
        }
    )


def made_of(kind: str, id, n: int) -> list[tuple]:
    """What becomes of one row; the oracle counts on it too."""
    if kind == "double":
        return [(id, 2 * n, 0)]
    if kind == "explode":
        return [(id, n, copy) for copy in range(n % 4)]
    return [(id, n, 0)] if n % 2 == 0 else []


def pipeline_of(
    kind: str,
    source: str,
    out: str,
    *,
    checkpoint: str,
    pace: str = "0",
    calls: str = "",
    id_column: str = "id",
    delete: str = "",
    version: str = "",
    mode: str = "resume",
):
    from shardmill.curate import (
        InterleavedParquetSource,
        Map,
        ParquetSink,
        Pipeline,
        TableSource,
        WebDatasetSource,
    )
    from shardmill.resume import Checkpoint

    work = Work(kind, float(pace), calls)
    if kind in TABLES:
        reader = TableSource(source, files_per_partition=1)
        stage = Map(work, batch_size=10)
    else:
        reader = {"wds": WebDatasetSource, "parquet": InterleavedParquetSource}[kind](
            source, files_per_partition=1
        )
        stage, id_column = Map(work), ""
    # An empty path is a job without one.
    state = (
        Checkpoint(checkpoint, id_column or None, delete_on_success=bool(delete), version=version)
        if checkpoint
        else None
    )
    return Pipeline(
        source=reader, stages=[stage], sink=ParquetSink(out, mode=mode), checkpoint=state
    )


def main(kind: str, source: str, out: str, *options: str) -> None:
    named = dict(option.split("=", 1) for option in options)
    executor, at_once = named.pop("executor", "local"), int(named.pop("workers", "2"))
    job = pipeline_of(kind, source, out, **named)
    if executor == "ray" and "RAY_ADDRESS" not in os.environ:
        import ray

        ray.init(address="local", num_cpus=at_once, include_dashboard=False, logging_level="error")
    print("go", flush=True)
    try:
        report = job.run(
            executor, **{"threads" if executor == "local" else "workers": at_once}, progress=False
        )
    except BaseException as error:
        print(json.dumps({"error": type(error).__name__, "message": str(error)}), flush=True)
        raise
    outcome = {
        "splits": len(report.splits),
        "before": report.committed_before,
        "rows": report.counts("output")["rows"],
    }
    print(json.dumps(outcome), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
