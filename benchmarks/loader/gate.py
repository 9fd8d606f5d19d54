"""Compares a session with the published one: ``python -m benchmarks.loader.gate RESULTS.json STORED.json``.

Exit code 1 if one of our entries gives less than 90 % of the stored rows a second. Only figures of the same machine
can be compared, so it is a command and no test.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.loader.report import measured_entries

_KEPT = 0.9


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints what became slower and returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loader.gate", description=__doc__)
    parser.add_argument("results", type=Path, help="results.json of a session")
    parser.add_argument("stored", type=Path, help="such as docs/benchmarks/loader/results.json")
    options = parser.parse_args(arguments)
    slower = regressions(*(json.loads(path.read_text()) for path in (options.results, options.stored)))
    print("\n".join(slower) or "nothing is slower than 90 % of the stored rate")
    return 1 if slower else 0


def regressions(results: dict[str, Any], stored: dict[str, Any]) -> list[str]:
    """One line for each of our entries that is below the gate, or that ran before and is missing now."""
    rates = {_key(one): one.metrics["rows_per_s"] for one in measured_entries(results)}
    lines = []
    for one in measured_entries(stored):
        before, now = one.metrics["rows_per_s"], rates.get(_key(one))
        if not one.system.startswith("shardmill"):
            continue
        if now is None:
            lines.append(f"{_key(one)}: missing, {before:,.0f} rows/s before")
        elif now < _KEPT * before:
            lines.append(f"{_key(one)}: {now:,.0f} rows/s, {before:,.0f} before")
    return lines


def _key(one: Any) -> str:
    return f"{one.scenario}__{one.setting}__{one.system}"


if __name__ == "__main__":
    raise SystemExit(main())
