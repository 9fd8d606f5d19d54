"""One job in a process of its own that waits twice for a line.

It waits before it starts, and at the first call of its function.

``python held_job.py ROOT OPTIONS``, with storage options as JSON. Prints lines of JSON: ready,
working, and the outcome.
"""

import json
import sys
import threading


def tell(**line) -> None:
    print(json.dumps(line), flush=True)


class Held:
    def __init__(self) -> None:
        self.lock, self.is_told = threading.Lock(), False

    def __call__(self, batch):
        with self.lock:
            if not self.is_told:
                self.is_told = True
                tell(**{"is": "working"})
                sys.stdin.readline()
        return batch


def main(root: str, options: str) -> None:
    import shardmill as sm
    from shardmill.curate import Map, ParquetSink, Pipeline, TableSource

    if given := json.loads(options):
        sm.storage.configure(root, given)
    job = Pipeline(
        source=TableSource(f"{root}/in", files_per_partition=1),
        stages=[Map(Held(), batch_size=5)],
        sink=ParquetSink(f"{root}/out"),
        checkpoint={"path": f"{root}/state", "id_column": "id"},
    )
    tell(**{"is": "ready"})
    sys.stdin.readline()
    try:
        report = job.run(threads=2, progress=False)
    except sm.Error as error:
        tell(error=type(error).__name__, message=str(error))
        return
    tell(rows=report.counts("output")["rows"])


if __name__ == "__main__":
    main(*sys.argv[1:])
