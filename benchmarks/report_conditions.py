"""What every page says of the machine, the commit and the command of its session.

Enters: the results of a session. Leaves: lines of Markdown.
"""

from __future__ import annotations

from typing import Any

Results = dict[str, Any]


def failure_lines(results: Results) -> list[str]:
    """A line for each entry that failed."""
    return [
        f"* **failed**: {entry['name']}: {'; '.join(entry['failures'])}"
        for entry in results["entries"]
        if not entry["is_success"]
    ]


def machine_lines(results: Results, also: str = "") -> list[str]:
    """Where and when it ran, and on which commit; ``also`` stands behind the machine."""
    machine = results.get("machine", {})
    state = " with changes" if results["git"]["is_dirty"] else ""
    return [
        f"* {machine.get('cpu_cores', '?')} cores of {machine.get('cpu_model', '?')}, "
        f"{machine.get('memory_bytes', 0) / 1e9:.0f} GB memory, Linux {machine.get('kernel', '?')}{also}",
        f"* commit {results['git']['commit']}{state}, started {results['started_utc']}",
    ]


def row_set_lines(results: Results) -> list[str]:
    """A line for each data set of rows."""
    return [
        f"* `{place}`: {record['rows']:,} rows in {record['files']:,} files, {record['bytes'] / 1e6:,.1f} MB"
        for place, record in results.get("datasets", {}).items()
        if record and "rows" in record
    ]


def versions_of(results: Results, system: str) -> dict[str, str]:
    """Of what a system consists of; nothing when it did not take part."""
    entries = (entry for entry in results["entries"] if entry["name"].endswith(f"__{system}"))
    return next((entry["versions"] for entry in entries), {})


def command_lines(results: Results, target: str) -> list[str]:
    """How to repeat it: a target of the Makefile, and what that runs."""
    command = " ".join(results["command_line"])
    tail = "The numbers above are those of [results.json](results.json)."
    return ["", "```bash", f"make {target}", "# which runs", command, "```", "", tail]
