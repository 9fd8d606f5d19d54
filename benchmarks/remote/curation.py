"""Interleaved shards from bucket to bucket: starts a store, then the script of a system, and checks what it wrote.

Enters: a system, whose interpreter this is, and a folder of shards. Leaves: ``params.json`` and ``metrics.json``, with the seconds
of the script's process in ``job_s``. Started by the runner. Invariant: shards are objects before the clock starts; the script is
that of the local benchmark, with other paths; one program counts and checks every object that was written, for every system alike.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.interleaved.check import check_entry
from benchmarks.interleaved.options import write_json
from benchmarks.remote.store import BUCKET, Store, started

_ROOT = Path(__file__).resolve().parents[2]
_SCRIPTS = {
    "shardmill": "benchmarks/interleaved_io.py",
    "nemo_curator": "benchmarks/peers/nemo_curator_interleaved_io.py",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one path and returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of params and metrics")
    parser.add_argument("--data", type=Path, required=True, help="folder of shards")
    parser.add_argument("--system", choices=_SCRIPTS, required=True)
    parser.add_argument("--reader-type", choices=("wds", "parquet"), required=True)
    parser.add_argument("--writer-format", choices=("wds", "parquet"), required=True)
    parser.add_argument("--round-trip-s", type=float, default=0.010)
    options = parser.parse_args(arguments)
    try:
        metrics = measure(options)
    except Exception as error:
        write_json(options.out / "metrics.json", {"is_success": False, "error": f"{type(error).__name__}: {error}"})
        raise
    write_json(options.out / "metrics.json", {"is_success": not metrics["check_failures"], **metrics})
    return 1 if metrics["check_failures"] else 0


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """One run with an empty output."""
    with started() as store:
        path = store.publish(options.data)
        store.away(options.round_trip_s)
        job = options.out / "job"
        start = time.perf_counter()
        subprocess.run(_command(options, path, job), cwd=_ROOT, env=_environment(options, store), check=True)
        seconds = time.perf_counter() - start
        asked = store.asked()
        params = json.loads((job / "params.json").read_text())
        write_json(options.out / "params.json", params)
        found = json.loads((job / "metrics.json").read_text())
        # The server keeps an object as a file.
        folder = store.server.folder / BUCKET
        places = {"input_path": str(folder / options.data.name), "output_path": str(folder / "out")}
        checked = check_entry(params | places, found)
    return found | checked | {"job_s": seconds, **asked}


def _command(options: argparse.Namespace, path: str, job: Path) -> list[str]:
    # The names of NeMo Curator's options; overwriting what is not there is what both can do, but we give only new names in a store.
    return [
        sys.executable,
        _SCRIPTS[options.system],
        f"--benchmark-results-path={job}",
        f"--input-path={path}",
        f"--output-path=s3://{BUCKET}/out",
        f"--reader-type={options.reader_type}",
        f"--writer-format={options.writer_format}",
        "--on-materialize-error=error",
        f"--mode={'error' if options.system == 'shardmill' else 'overwrite'}",
    ]


def _environment(options: argparse.Namespace, store: Store) -> dict[str, str]:
    is_ours = options.system == "shardmill"
    given = store.options() if is_ours else store.fsspec_options()
    more = {} if is_ours else store.environment()
    package = [str(_ROOT / "python")] if is_ours else []
    paths = os.pathsep.join([*package, str(_ROOT)])
    return {**os.environ, **more, "PYTHONPATH": paths, "BENCHMARK_STORAGE_OPTIONS": json.dumps(given)}


if __name__ == "__main__":
    raise SystemExit(main())
