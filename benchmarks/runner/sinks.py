"""Optional reporters that get the results of a finished session."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any


def print_summary(results: dict[str, Any], _options: dict[str, Any]) -> None:
    """Prints one line an entry."""
    for entry in results["entries"]:
        state = "ok" if entry["is_success"] else "FAILED: " + "; ".join(entry["failures"])
        print(f"{entry['name']:<45} {entry['process_seconds']:8.2f} s  {state}")


SINKS: dict[str, Callable[[dict[str, Any], dict[str, Any]], None]] = {"summary": print_summary}


def send_to_sinks(sinks: Iterable[dict[str, Any]], results: dict[str, Any]) -> None:
    """Hands the results to each sink; one that is unknown or fails is a warning, never a failed benchmark."""
    for sink in sinks:
        name = str(sink.get("name"))
        report = SINKS.get(name)
        if report is None:
            print(f"warning: unknown sink {name}; known: {', '.join(SINKS)}", file=sys.stderr)
            continue
        try:
            report(results, sink)
        except (OSError, LookupError, TypeError, ValueError) as error:
            print(f"warning: sink {name} failed: {error}", file=sys.stderr)
