"""The cost of bytes and processes without a format.

``cat`` reads files, ``cp`` copies and syncs them, ``empty`` is a DataLoader without data. They are
entries next to the systems that they limit. They count the rows of the data set, so that their
rates are comparable with the others.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import (
    RECORD,
    Metrics,
    Options,
    figure,
    prepare_caches,
    record_of,
    run_entry,
    timed,
)

_BLOCK = 8 << 20


@dataclass(frozen=True, kw_only=True)
class LimitOptions(Options):
    """What is read.

    Attributes:
        written: Part of each file that ``cp`` writes, for jobs that drop some.
        cold: Without the page cache.
        batch: Rows that a batch of the empty ``DataLoader`` stands for.
    """

    data: Path
    written: float = 1.0
    cold: bool = False
    batch: int = 32

    @property
    def files(self) -> list[Path]:
        """The files of the data set."""
        return [
            path for path in sorted(self.data.rglob("*")) if path.is_file() and path.name != RECORD
        ]

    @property
    def rows(self) -> int:
        """Rows, records or samples of the data set."""
        record = record_of(self.data)
        return next(
            record[name] for name in ("num_rows", "records", "samples", "rows") if name in record
        )


def _pass(options: LimitOptions, write: Callable[[Path], int] | None) -> Metrics:
    buffer, size, written = memoryview(bytearray(_BLOCK)), 0, 0
    start = time.perf_counter()
    for number, path in enumerate(options.files):
        target = write(options.scratch / str(number)) if write else None
        with path.open("rb", buffering=0) as file:
            while count := file.readinto(buffer):
                size += count
                if target is not None and written < size * options.written:
                    written += os.write(target, buffer[:count])
        if target is not None:
            os.fsync(target)
            os.close(target)
    seconds = time.perf_counter() - start
    return {
        "rows_per_s": options.rows / seconds,
        "bytes_per_s": size / seconds,
        "seconds": seconds,
        "bytes": size,
    }


def cat(options: LimitOptions) -> Metrics:
    """Reads every byte into a buffer that is used again."""
    if options.cold:
        prepare_caches("cold", [options.data])
    return _pass(options, None)


def cp(options: LimitOptions) -> Metrics:
    """Reads every byte, and writes and syncs the part that is asked for."""
    return _pass(options, lambda path: os.open(path, os.O_WRONLY | os.O_CREAT, 0o644))


def empty(options: LimitOptions) -> Metrics:
    """Empty batches of a torch ``DataLoader`` whose workers have started."""
    from torch.utils.data import DataLoader, IterableDataset, get_worker_info

    batches = -(-options.rows // options.batch)

    class Nothing(IterableDataset):
        def __iter__(self):  # noqa: ANN204
            info = get_worker_info()
            return (
                None
                for _ in range(info.id if info else 0, batches, info.num_workers if info else 1)
            )

    figures = {}
    for workers in (0, 2, 4):
        loader = DataLoader(
            Nothing(), batch_size=None, num_workers=workers, persistent_workers=workers > 0
        )
        # Workers start in the first pass.
        passes = [timed(lambda loader=loader: sum(1 for _ in loader)) for _ in range(2)]
        assert passes[1][1] == batches
        figures[f"DataLoader, {workers} workers"] = figure(options.rows, passes[1][0])
    return {"figures": figures}


if __name__ == "__main__":
    run_entry(
        LimitOptions,
        lambda options: {"cat": cat, "cp": cp, "empty": empty}[options.system](options),
    )
