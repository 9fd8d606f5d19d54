"""Counts input and output of a finished entry and checks every output file.

Enters: the folder of an entry, with ``params.json`` and ``metrics.json``. Leaves: ``check.json`` beside them, and a
non-zero exit code if something is wrong. The runner starts it after the timed process, for every system alike.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.interleaved.counting import count_folder
from benchmarks.interleaved.options import write_json


def main() -> int:
    """Checks the entry named on the command line."""
    folder = Path(sys.argv[1])
    params = json.loads((folder / "params.json").read_text())
    metrics = json.loads((folder / "metrics.json").read_text())
    checked = check_entry(params, metrics)
    write_json(folder / "check.json", checked)
    for failure in checked["check_failures"]:
        print(failure, file=sys.stderr)
    return 1 if checked["check_failures"] else 0


def check_entry(params: dict[str, Any], metrics: dict[str, Any]) -> dict[str, Any]:
    """Returns counts, throughput and validity of one entry."""
    is_filtered = not params["no_filter"]
    source = count_folder(Path(params["input_path"]), params["reader_type"], is_renumbered=False, has_own_members=False)
    output = count_folder(
        Path(params["output_path"]), params["writer_format"], is_renumbered=is_filtered, has_own_members=True
    )
    found = source.metrics("input") | output.metrics("output")
    failures = output.order_problems + output.layout_problems
    # What a run says of itself must be what lies on the disk.
    for name in ("output_num_rows", "output_num_samples", "input_num_rows", "input_num_samples"):
        if name in metrics and metrics[name] != found[name]:
            failures.append(f"the run counted {name} {metrics[name]}, the files hold {found[name]}")
    seconds = metrics.get("time_taken_s") or 0.0
    for unit in ("rows", "samples"):
        count = found[f"output_num_{unit}"]
        found[f"throughput_{unit}_per_sec"] = count / seconds if seconds else 0.0
    is_tar = params["writer_format"] == "wds"
    return found | {
        "ordering_valid": not output.order_problems,
        "wds_valid": not output.layout_problems if is_tar else None,
        "check_failures": failures,
    }


if __name__ == "__main__":
    raise SystemExit(main())
