"""Runs one command in a process group of its own and measures the whole tree from outside."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

# One pass over /proc takes about two milliseconds. Short runs are sampled more often, or their peak
# would be missed.
_FIRST_INTERVAL_S, _LAST_INTERVAL_S = 0.01, 0.25


@dataclass(frozen=True)
class Outcome:
    """What was seen of a process from outside; ``failure`` is empty after a success."""

    failure: str
    process_seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_rss_bytes: int = 0


class ProcessTree:
    """The processes that belong to one session or descend from its leader.

    Attributes:
        peak_bytes: Largest memory at any sample: private pages summed, and the shared pages of the
            process that maps most of them.
        seconds: Processor time of each process when it was last seen.
    """

    def __init__(self, leader: int) -> None:
        self._leader = psutil.Process(leader)
        self.peak_bytes = 0
        self.seconds: dict[psutil.Process, float] = {}

    def sample(self) -> None:
        """Looks at the tree once."""
        private, shared = 0, 0
        for process in self._members():
            with contextlib.suppress(psutil.Error), process.oneshot():
                times, memory = process.cpu_times(), process.memory_info()
                self.seconds[process] = times.user + times.system
                private, shared = private + memory.rss - memory.shared, max(shared, memory.shared)
        self.peak_bytes = max(self.peak_bytes, private + shared)

    def kill(self) -> None:
        """Ends what is left, also processes that moved to a group of their own."""
        for process in self._members():
            with contextlib.suppress(psutil.Error):
                process.kill()

    def _members(self) -> Iterator[psutil.Process]:
        # The leader first: a short run ends before all processes are looked at.
        yield self._leader
        known = {self._leader.pid}
        # A child's id is nearly always above its parent's; a second pass catches ids
        # that wrapped around.
        for process in [*psutil.process_iter()] * 2:
            with contextlib.suppress(psutil.Error, ProcessLookupError):
                # Once seen is enough: a daemon leaves both its parent and its session.
                is_member = process in self.seconds or process.ppid() in known
                if process.pid not in known and (
                    is_member or os.getsid(process.pid) == self._leader.pid
                ):
                    known.add(process.pid)
                    yield process


def run_process(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    directory: Path,
    log: Path,
    timeout_s: float,
    grace_s: float = 10.0,
) -> Outcome:
    """Runs a command to its end, without a shell; afterwards no process of it is left.

    After ``timeout_s`` the group gets TERM, and KILL ``grace_s`` later.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    with log.open("wb") as out:
        try:
            process = subprocess.Popen(
                command,
                cwd=directory,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        except OSError as error:
            return Outcome(f"cannot start {command[0]}: {error}")
    tree = ProcessTree(process.pid)
    try:
        has_ended = _wait(process.pid, tree, start + timeout_s)
        seconds = time.perf_counter() - start
        if not has_ended:
            os.killpg(process.pid, signal.SIGTERM)
            _wait(process.pid, tree, time.perf_counter() + grace_s)
    finally:
        # Also after Ctrl-C: a benchmark that goes on in the background spoils the next one. The
        # leader is not reaped yet, so the group is still its own; its members cannot start others
        # while it is killed.
        os.killpg(process.pid, signal.SIGKILL)
        tree.kill()
        _, status, usage = os.wait4(process.pid, 0)
        # Popen must know, or it would wait for an id that may belong to another process by then.
        process.returncode = os.waitstatus_to_exitcode(status)
    # The kernel knows the peak of a single process without sampling, but a child inherits the peak
    # of its parent.
    own_peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    exact_peak = usage.ru_maxrss << 10 if usage.ru_maxrss > own_peak else 0
    return Outcome(
        "timed out"
        if not has_ended
        else f"exit code {process.returncode}"
        if process.returncode
        else "",
        seconds,
        max(sum(tree.seconds.values()), usage.ru_utime + usage.ru_stime),
        max(tree.peak_bytes, exact_peak),
    )


def _wait(pid: int, tree: ProcessTree, deadline: float) -> bool:
    """Samples until the process ends, which is seen at once and not at the next sample."""
    interval_s, handle = _FIRST_INTERVAL_S, os.pidfd_open(pid)
    try:
        poller = select.poll()
        poller.register(handle, select.POLLIN)
        while (left := deadline - time.perf_counter()) > 0:
            tree.sample()
            if poller.poll(max(1, 1000 * min(interval_s, left))):
                return True
            interval_s = min(_LAST_INTERVAL_S, interval_s * 1.2)
        return False
    finally:
        os.close(handle)
