"""One job from bucket to bucket in a process of its own.

Called as ``python kill_job.py ROOT OPTIONS PACE``, with storage options as JSON. Prints ``go``
before the run, then one line of JSON with its outcome.
"""

import json
import sys
import time


class Paced:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, batch):
        time.sleep(self.seconds)
        return batch


def pipeline_of(root: str, options: dict, pace: float):
    import shardmill as sm
    from shardmill.curate import Map, ParquetSink, Pipeline, TableSource

    sm.storage.configure(root, options)
    return Pipeline(
        source=TableSource(f"{root}/in", files_per_partition=1, storage_options=options),
        stages=[Map(Paced(pace), batch_size=25)],
        sink=ParquetSink(f"{root}/out"),
        checkpoint={"path": f"{root}/state", "id_column": "id", "version": "1"},
    )


def main(root: str, options: str, pace: str) -> None:
    job = pipeline_of(root, json.loads(options), float(pace))
    print("go", flush=True)
    try:
        report = job.run(threads=2, progress=False)
    except BaseException as error:
        print(json.dumps({"error": type(error).__name__, "message": str(error)}), flush=True)
        raise
    print(json.dumps({"rows": report.counts("output")["rows"]}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
