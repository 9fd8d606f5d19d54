"""shardmill reads a store.

Enters: the options of ``benchmarks.remote.options``. Leaves: ``params.json`` and ``metrics.json``. Started by the runner.
Invariant: only the public API is used.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from benchmarks.remote.options import parse_options

# The peers' interpreter, which has torch, imports the checkout's package; so do the processes that it starts.
_PACKAGE = str(Path(__file__).resolve().parents[2] / "python")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one entry and returns the exit code."""
    sys.path.insert(0, _PACKAGE)
    os.environ["PYTHONPATH"] = os.pathsep.join([_PACKAGE, os.environ.get("PYTHONPATH", "")])
    options = parse_options("A store read by shardmill.", tools=("shardmill",), arguments=arguments)
    options.write_params()
    # What one scenario imports must not show in the memory of another.
    scenario = import_module(f"benchmarks.remote.{options.scenario}")
    try:
        metrics = scenario.measure(options)
    except Exception as error:
        options.write_metrics({"is_success": False, "error": f"{type(error).__name__}: {error}"})
        raise
    options.write_metrics({"is_success": True, **metrics})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
