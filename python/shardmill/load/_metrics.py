"""Counters of a loader, and where its time was spent."""

from __future__ import annotations

import time
from typing import Any


class LoaderMetrics:
    """Totals over all passes of a loader."""

    def __init__(self) -> None:
        self.rows = 0
        self.batches = 0
        self._seconds = 0.0
        self._ended: dict[str, float] = {}
        self._running: dict[int, tuple[Any, float]] = {}

    def begin(self, native: Any) -> None:
        """Start a pass."""
        self._running[id(native)] = (native, time.monotonic())

    def end(self, native: Any) -> None:
        """End a pass."""
        _, start = self._running.pop(id(native), (native, time.monotonic()))
        self._seconds += time.monotonic() - start
        _add(self._ended, native.metrics())

    def report(self, bytes_read: int) -> dict[str, Any]:
        """Return all totals, including those of a running pass."""
        sums, seconds = dict(self._ended), self._seconds
        for native, start in list(self._running.values()):
            _add(sums, native.metrics())
            seconds += time.monotonic() - start
        counters = (
            "decode_seconds",
            "assemble_seconds",
            "render_seconds",
            "convert_seconds",
            "wait_seconds",
            "blocks_decoded",
            "superbatches",
            "tokens",
            "text_bytes",
            "tokenize_seconds",
            "rows_without_labels",
            "special_in_text",
        )
        return {
            "rows": self.rows,
            "batches": self.batches,
            "bytes_read": bytes_read,
            "elapsed_seconds": seconds,
            **{counter: sums.get(counter, 0) for counter in counters},
        }

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__()


def _add(sums: dict[str, float], more: dict[str, float]) -> None:
    for name, value in more.items():
        sums[name] = sums.get(name, 0) + value
