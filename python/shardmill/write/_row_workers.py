"""Runs the user's function on each row, in worker processes, in order.

Rows are sent in chunks, whose size adapts to the duration of the function and the size of rows and
results. Results are returned in row order.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any

from shardmill._native.write import approximate_size
from shardmill._workers import WorkerPool, packed_failure, unpacked_failure, worker_died

#: Target duration of a chunk, so that the cost of sending it is small.
_CHUNK_S = 0.05
_MOST_ROWS = 4096
#: Target size of the rows of a chunk, and of its results: twice as many chunks
#: as workers are in memory.
_CHUNK_BYTES = 4 << 20


def transformed(
    rows: Iterable[Any], function: Callable[[Any], Any], workers: int
) -> Generator[Any, None, None]:
    """Yield the results in row order; with no workers, the function runs in the calling process.

    An exception of ``function`` is raised at the position of its row, with a note that names the
    row.

    Raises:
        ValueError: If the function cannot be sent to other processes.
        RuntimeError: If a worker dies.
    """
    if workers > 0:
        yield from _elsewhere(rows, function, workers)
        return
    for number, row in enumerate(rows):
        try:
            result = function(row)
        except Exception as error:
            _note(error, number)
            raise
        yield result


def _elsewhere(rows: Iterable[Any], function: Callable[[Any], Any], workers: int) -> Iterator[Any]:
    pool = WorkerPool(function, workers)
    waiting: deque[tuple[int, int, Future[Any]]] = deque()
    source, size, first = iter(rows), 1, 0
    failure: BaseException | None = None
    is_done = False
    try:
        while waiting or failure is None:
            while failure is None and len(waiting) < 2 * workers:
                chunk: list[Any] = []
                try:
                    _fill(chunk, islice(source, size))
                except Exception as error:
                    # It is raised after the rows that are in flight.
                    failure = error
                if not chunk:
                    break
                waiting.append((first, len(chunk), pool.submit(_results, chunk)))
                first += len(chunk)
            if not waiting:
                break
            number, count, future = waiting.popleft()
            results, seconds, packed = future.result()
            size = _next_size(size, count, seconds, approximate_size(results))
            yield from results
            if packed is not None:
                error = unpacked_failure(packed)
                _note(error, number + len(results))
                raise error
        if failure is not None:
            raise failure
        is_done = True
    except BrokenProcessPool as error:
        raise worker_died("write_rows") from error
    finally:
        pool.close(is_done=is_done)


def _fill(chunk: list[Any], rows: Iterable[Any]) -> None:
    """Add rows until there are no more, or the chunk has its size."""
    size = 0
    for row in rows:
        chunk.append(row)
        size += approximate_size(row)
        if size >= _CHUNK_BYTES:
            return


def _next_size(size: int, count: int, seconds: float, result_bytes: int) -> int:
    fitting = int(count * min(_CHUNK_S / max(seconds, 1e-6), _CHUNK_BYTES / max(result_bytes, 1)))
    return max(1, min(fitting, 4 * size, _MOST_ROWS))


def _results(
    function: Callable[[Any], Any], rows: list[Any]
) -> tuple[list[Any], float, bytes | None]:
    """Return the results up to the first exception, the elapsed time, and the exception, packed.

    Runs in a worker.
    """
    start, results = time.perf_counter(), []
    for row in rows:
        try:
            results.append(function(row))
        except Exception as error:
            return results, time.perf_counter() - start, packed_failure(error)
    return results, time.perf_counter() - start, None


def _note(error: Exception, row: int) -> None:
    error.add_note(f"while transform was called with row {row:,} of write_rows, counted from 0")
