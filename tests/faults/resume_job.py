"""One job with a checkpoint in a process of its own.

    python resume_job.py KIND INPUT OUTPUT checkpoint=DIRECTORY [NAME=VALUE ...]

KIND is ``double``, ``explode`` or ``drop`` for tables with the columns ``id`` and ``n``, ``wds`` or
``parquet`` for documents. Prints ``go`` before the run, then one line of JSON with its outcome.
On Ray, ``stop=ROWS:PATH`` stops a worker that begins with row ``N * ROWS``, once, if the file
``PATH/N`` has a line ``CALL NUMBER``: at its system call ``CALL`` of this number from there. The
file ``PATH/N.worker`` names its process and its node, and ``PATH/N.log`` tells when it stands
still. With ``gather=NODES:ROWS:PATH``, work on rows from number ``ROWS`` on begins when ``NODES``
nodes have a worker; their names are in ``PATH``.
"""

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

#: Far longer than a worker takes to start.
HANGS_S = 600
TABLES = ("double", "explode", "drop")
DOCUMENTS = ("wds", "parquet")


class Work:
    """The function of a job: notes which rows it gets, and takes its time.

    It makes no row, one or several of each.
    """

    def __init__(
        self, kind: str, pace: float, calls: str, stop: str = "", gather: str = ""
    ) -> None:
        self.kind, self.pace, self.calls, self.stop = kind, pace, calls, stop
        self.gather = gather

    def __setstate__(self, state) -> None:
        self.__dict__.update(state)
        if self.gather:
            Path(self.gather.split(":", 2)[2], node_id()).touch()

    def __call__(self, table):
        if self.stop:
            rows, directory = self.stop.split(":", 1)
            file, row = divmod(table["n"][0].as_py(), int(rows))
            if row == 0:
                stop_once(Path(directory, str(file)))
        if self.gather:
            wait_for_nodes(table, *self.gather.split(":", 2))
        if self.calls:
            # One short write of one process is not torn by the next, nor by a kill.
            with Path(self.calls, str(os.getpid())).open("ab", buffering=0) as file:
                file.write("".join(f"{number}\n" for number in table["n"].to_pylist()).encode())
        time.sleep(self.pace)
        return table if self.kind in DOCUMENTS else made(self.kind, table)


def node_id() -> str:
    import ray

    return ray.get_runtime_context().get_node_id()


def wait_for_nodes(table, nodes: str, first: str, directory: str) -> None:
    """Waits until each node has got a task. A single task processes the first rows."""
    deadline = time.monotonic() + HANGS_S
    while table["n"][0].as_py() >= int(first) and len(os.listdir(directory)) < int(nodes):
        assert time.monotonic() < deadline, "no task comes to a node"
        time.sleep(0.01)


#: The one that this worker has.
tracers: list[subprocess.Popen] = []


def stop_once(moment: Path) -> None:
    """Lets this process be stopped at a given moment, unless another one was stopped."""
    for tracer in tracers:
        tracer.terminate()
        tracer.wait()
    tracers.clear()
    if not moment.exists():
        return
    with suppress(FileExistsError), moment.with_suffix(".worker").open("x") as file:
        file.write(f"{os.getpid()} {node_id()}")
        call, number = moment.read_text().split()
        what = ["-e", f"trace={call}", "-e", f"inject={call}:signal=STOP:when={number}"]
        log = ["-o", str(moment.with_suffix(".log"))]
        tracer = subprocess.Popen(
            ["strace", "-f", *log, *what, "-p", str(os.getpid())], stderr=subprocess.PIPE
        )
        assert tracer.stderr is not None
        assert b"attached" in (line := tracer.stderr.readline()), line
        tracers.append(tracer)


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
    stop: str = "",
    gather: str = "",
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

    work = Work(kind, float(pace), calls, stop, gather)
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
