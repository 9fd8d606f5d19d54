"""What the kernel counts of this process: bytes read, resident memory; and the page cache of files.

Called by ``measure`` and ``ranks``. Invariant: the standard library is enough.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def io_counters() -> dict[str, int]:
    """``/proc/self/io``; children count from the moment they were waited for.

    ``rchar`` is what was asked for with read calls, from whatever cache; it also holds what came through pipes.
    ``read_bytes`` is what the disk gave.
    """
    lines = Path("/proc/self/io").read_text().splitlines()
    return {name: int(value) for name, value in (line.split(": ") for line in lines)}


def resident_bytes() -> int:
    """Memory of this process now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES


def drop_from_cache(paths: Iterable[Path]) -> None:
    """Asks the kernel to forget files; dirty pages cannot be dropped, so they are flushed first."""
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class ResidentSampler:
    """Samples the memory of this process in a thread while a block runs.

    Attributes:
        samples: Pairs of ``time.perf_counter()`` and bytes.
    """

    def __init__(self, interval_s: float = 0.02) -> None:
        self.samples: list[tuple[float, int]] = []
        self._interval_s = interval_s
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> ResidentSampler:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()

    def peak_between(self, start: float, end: float) -> int:
        """Largest sample of a time span that has just ended."""
        # The thread may not have had its turn within a short span.
        return max([resident_bytes(), *(size for moment, size in self.samples if start <= moment <= end)])

    def _sample(self) -> None:
        while not self._end.wait(self._interval_s):
            self.samples.append((time.perf_counter(), resident_bytes()))
