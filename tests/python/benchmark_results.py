"""What a benchmark session leaves behind, without its entries."""

from __future__ import annotations

from typing import Any


def results_with(*entries: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The results of a session with these entries; ``more`` are keys in place of the usual ones, or beside them."""
    return {
        "started_utc": "2026-01-01T00:00:00+00:00",
        "command_line": ["python", "-m", "benchmarks.run", "--config", "/home/someone/extra.yaml"],
        "machine": {"cpu_cores": 2},
        "git": {"commit": "c0ffee", "is_dirty": False},
        "repository": "/home/someone/shardmill",
        "paths": {"datasets_path": "/home/someone/data"},
        "datasets": {},
        "entries": list(entries),
        **more,
    }
