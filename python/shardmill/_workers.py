"""Worker processes that run a function of the user."""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shardmill._sent_errors import packed_error, unpacked_error
from shardmill.errors import ClosedError, EngineError, OptionError

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor

_function: Callable[..., Any]

#: In a forked child: pools of its parent. Their collection would take a lock that a thread of the
#: parent may have held at the fork.
_inherited: list[Any] = []


class WorkerPool:
    """Processes that each receive a function once.

    Ctrl-C does not reach them: the caller handles it and closes the pool.

    Args:
        function: the function of the user.
        workers: number of processes.

    Raises:
        ValueError: If the function cannot be sent to other processes.
    """

    def __init__(self, function: Callable[..., Any], workers: int) -> None:
        # Without workers these imports are not needed.
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        try:
            pickled = pickle.dumps(function)
        except Exception as error:
            raise OptionError(
                f"transform cannot be sent to other processes: {error}\n"
                "hint: define it at the top level of a module, or use workers=0"
            ) from error
        # This process already runs threads: a forked child could inherit a lock that stays held.
        method = (
            "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        )
        self._executor: ProcessPoolExecutor = ProcessPoolExecutor(
            workers,
            mp_context=multiprocessing.get_context(method),
            initializer=_start,
            initargs=(pickled,),
        )
        self._process = os.getpid()

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Run ``call(function, *arguments)`` in a worker.

        Raises:
            concurrent.futures.process.BrokenProcessPool: If a worker has died.
            RuntimeError: See ``check_process``.
        """
        self.check_process()
        if "torch" not in sys.modules:
            return self._executor.submit(_called, call, *arguments)
        from multiprocessing.reduction import ForkingPickler

        return self._executor.submit(_called_whole, call, bytes(ForkingPickler.dumps(arguments)))

    def check_process(self) -> None:
        """Check that this process started the workers.

        A forked child would wait for their results without end.

        Raises:
            RuntimeError: If it was forked from the one that did.
        """
        if self._process != os.getpid():
            raise ClosedError(
                "this iteration was begun before a fork, and its workers belong to another process"
                "\nhint: start a new iteration in this process"
            )

    def close(self, *, is_done: bool) -> None:
        """End the workers.

        Unless all results have arrived, running calls are stopped and not waited for. A forked
        child leaves the workers to its parent.
        """
        if self._process != os.getpid():
            _inherited.append(self._executor)
            return
        if not is_done:
            self._terminate()
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _terminate(self) -> None:
        for process in list((getattr(self._executor, "_processes", None) or {}).values()):
            process.terminate()
        # A worker that is stopped while it sends a result leaves a part of it in the pipe. Once no
        # writer is left, the reader stops waiting.
        if (results := getattr(self._executor, "_result_queue", None)) is not None:
            results._writer.close()


def worker_died(owner: str) -> EngineError:
    """Return the error for a worker process of ``owner`` that ended without a result."""
    return EngineError(
        f"a worker of {owner} died, or could not start\n"
        'hint: a script that starts workers needs `if __name__ == "__main__":`; '
        "if yours has it, the worker may have run out of memory"
    )


def packed_failure(error: Exception) -> bytes:
    """Pickle, in a worker, the exception of the function.

    One that cannot be unpickled would end the pool.
    """
    generic = EngineError(
        f"transform raised {type(error).__name__}, "
        f"which cannot be sent to another process: {error}\n"
        "hint: use workers=0 to get the exception itself, or make it picklable"
    )
    return packed_error(error, generic, traced=error)


def unpacked_failure(packed: bytes) -> Exception:
    """Return the exception of ``packed_failure``, with a note of where it was raised."""
    error, frames = unpacked_error(packed)
    if frames:
        error.add_note(frames)
    return error


def _start(pickled: bytes) -> None:
    """Run once in each worker."""
    global _function
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _function = pickle.loads(pickled)


def _called(call: Callable[..., Any], *arguments: Any) -> Any:
    return call(_function, *arguments)


def _called_whole(call: Callable[..., Any], packed: bytes) -> Any:
    # A thread of the parent hands over the memory of tensors. It prints a traceback if this process
    # is stopped meanwhile.
    stops: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stops.append(number))
    try:
        arguments = pickle.loads(packed)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for number in stops:
        signal.raise_signal(number)
    return call(_function, *arguments)
