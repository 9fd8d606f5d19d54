"""Runs the user's function on each row, in worker processes, in order.

Rows are sent in chunks, whose size adapts to the duration of the function, and results are returned in row order.
"""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any

from shardmill._workers import worker_died
from shardmill.errors import OptionError

#: Target duration of a chunk, so that the cost of sending it is small.
_CHUNK_S = 0.05
_MOST_ROWS = 4096

_function: Callable[[Any], Any]


def transformed(rows: Iterable[Any], function: Callable[[Any], Any], workers: int) -> Generator[Any, None, None]:
    """Yield the results in row order; with no workers, the function runs in the calling process.

    An exception of ``function`` is raised at the position of its row, with a note that names the row.

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
    try:
        pickled = pickle.dumps(function)
    except Exception as error:
        raise OptionError(
            f"transform cannot be sent to other processes: {error}\n"
            "hint: define it at the top level of a module, or use workers=0"
        ) from error
    # This process already runs threads: a forked child could inherit a lock that is never released.
    method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    pool = ProcessPoolExecutor(
        workers, mp_context=multiprocessing.get_context(method), initializer=_start, initargs=(pickled,)
    )
    waiting: deque[tuple[int, int, Future[Any]]] = deque()
    source, size, first = iter(rows), 1, 0
    failure: BaseException | None = None
    is_done = False
    try:
        while waiting or failure is None:
            while failure is None and len(waiting) < 2 * workers:
                chunk: list[Any] = []
                try:
                    chunk.extend(islice(source, size))
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
            results, seconds, error = future.result()
            yield from results
            if error is not None:
                _note(error, number + len(results))
                raise error
            size = _next_size(size, count, seconds)
        if failure is not None:
            raise failure
        is_done = True
    except BrokenProcessPool as error:
        raise worker_died("write_rows") from error
    finally:
        if not is_done:
            _stop(pool)
        pool.shutdown(wait=True, cancel_futures=True)


def _next_size(size: int, count: int, seconds: float) -> int:
    fitting = int(count * _CHUNK_S / max(seconds, 1e-6))
    return max(1, min(fitting, 4 * size, _MOST_ROWS))


def _stop(pool: ProcessPoolExecutor) -> None:
    """Stop the workers without waiting for their work."""
    for process in list((getattr(pool, "_processes", None) or {}).values()):
        process.terminate()
    # A worker that is stopped while it sends a result leaves a part of it in the pipe. Once no writer is left, the pool's reader stops waiting.
    if (results := getattr(pool, "_result_queue", None)) is not None:
        results._writer.close()


def _start(pickled: bytes) -> None:
    """Run once in each worker. Ignore Ctrl-C, which the caller handles."""
    global _function
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _function = pickle.loads(pickled)


def _results(rows: list[Any]) -> tuple[list[Any], float, Exception | None]:
    """Run in a worker: return the results up to the first exception, and the elapsed time."""
    start, results = time.perf_counter(), []
    for row in rows:
        try:
            results.append(_function(row))
        except Exception as error:
            return results, time.perf_counter() - start, error
    return results, time.perf_counter() - start, None


def _note(error: Exception, row: int) -> None:
    error.add_note(f"while transform was called with row {row:,} of write_rows, counted from 0")
