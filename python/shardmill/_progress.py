"""What a run does, on the terminal, if it takes longer than two seconds.

It writes only to stderr.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Any, Self

from shardmill._terminal import Escaping

_PATIENCE_S = 2.0
#: For `announced`, before a job knows its splits.
PLANNING = "reading the schema of the inputs"


@contextmanager
def announced(text: str, *, is_shown: bool) -> Iterator[None]:
    """Say what a with-block does, for work whose end is not known."""
    timer = Timer(_PATIENCE_S, lambda: sys.stderr.write(f"{text} …\n"))
    timer.daemon = True
    if is_shown and sys.stderr.isatty():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Progress:
    """Show splits, samples and megabytes during a run.

    Args:
        total: number of splits.
        is_shown: whether to show the bar; it is never shown if stderr is not a terminal.
        noun: what is counted.
        content: what a split or file consists of.
    """

    def __init__(
        self, *, total: int, is_shown: bool, noun: str = "splits", content: str = "samples"
    ) -> None:
        self._total = total
        self._noun, self._content = noun, content
        self._is_shown = is_shown and sys.stderr.isatty()
        self._start = time.perf_counter()
        self._done = self._samples = self._bytes = 0
        self._width = 0

    def __enter__(self) -> Self:
        return self

    def advance(self, split: dict[str, Any]) -> None:
        """Count one finished split."""
        self.count(samples=split["output"]["samples"], size=split["input_bytes"])

    def count(self, *, samples: int, size: int) -> None:
        """Count one finished split or file of ``size`` bytes."""
        self._done += 1
        self._samples += samples
        self._bytes += size
        elapsed = time.perf_counter() - self._start
        if self._is_shown and elapsed >= _PATIENCE_S:
            self._draw(elapsed)

    def _draw(self, elapsed: float) -> None:
        filled = 30 * self._done // max(self._total, 1)
        left = elapsed / self._done * (self._total - self._done)
        line = (
            f"[{'#' * filled}{'.' * (30 - filled)}] {self._done}/{self._total} {self._noun}  "
            f"{self._samples:,} {self._content}  {self._bytes / 1e6 / elapsed:,.0f} MB/s  "
            f"{left:.0f} s left"
        )
        text = line.ljust(self._width)
        if isinstance(sys.stderr, Escaping):
            sys.stderr.redraw(text)
        else:
            sys.stderr.write("\r" + text)
        sys.stderr.flush()
        self._width = len(line)

    def __exit__(self, *_exception: object) -> None:
        if self._width:
            sys.stderr.write("\n")
