"""Progress over all batches of a data set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shardmill._progress import Progress

#: Number of rows read at once, unless they are large.
_ROWS_AT_ONCE = 1024
_BYTES_AT_ONCE = 16 << 20


class BatchBar(Progress):
    """A bar for commands that read a data set, and perhaps what they wrote of it.

    Args:
        dataset: the rows.
        passes: how often as many rows are read.
        is_shown: whether to show the bar.
        threads: number of decoding threads.
    """

    def __init__(
        self, dataset: Any, *, passes: int, is_shown: bool, threads: int | None = None
    ) -> None:
        from shardmill.data._dataset import opened_files

        self._uncounted = len(dataset)
        rows = max(self._uncounted, 1)
        self._threads = threads
        self._row_bytes = opened_files(dataset).row_plan().decoded_bytes / rows
        self._batch_size = max(1, min(_ROWS_AT_ONCE, int(_BYTES_AT_ONCE / max(self._row_bytes, 1))))
        super().__init__(
            total=passes * -(-rows // self._batch_size),
            is_shown=is_shown,
            noun="batches",
            content="rows",
        )

    def batches(self, dataset: Any) -> Iterator[Any]:
        """Yield Arrow record batches in row order."""
        from shardmill import Loader, Runtime

        left = len(dataset)
        runtime = Runtime(threads=self._threads)
        for batch in Loader(
            dataset,
            batch_size=self._batch_size,
            output="arrow",
            rank=0,
            world_size=1,
            runtime=runtime,
        ):
            yield batch
            rows = min(left, self._batch_size)
            left -= rows
            # A row that is read again is not another row.
            new = min(rows, self._uncounted)
            self._uncounted -= new
            self.count(samples=new, size=int(rows * self._row_bytes))
