"""Runs one command in a process group of its own and measures the whole tree from outside.

Enters: a command, its environment, a time limit. Leaves: the exit code, wall time, processor time, peak memory.
Called by ``session``. Invariant: when ``run_process`` returns, no process of the command is left; only one that
left both its parent and its session between two samples escapes.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

TIMEOUT_EXIT_CODE = 124
LAUNCH_FAILURE_EXIT_CODE = 127

# One pass over /proc takes about two milliseconds, so this costs less than one percent of one core.
_SAMPLE_INTERVAL_S = 0.25
# Short runs are sampled more often, or their peak would be missed.
_FIRST_SAMPLE_INTERVAL_S = 0.01
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Outcome:
    """What was seen of a process from outside.

    Attributes:
        exit_code: 124 after a timeout, 127 if the command could not be started, negative for a signal.
        process_seconds: From the start of the process to its end; imports and shutdown are included.
        cpu_seconds: User and system time of all processes of the tree, as last seen.
        peak_rss_bytes: Largest memory of the tree: private pages summed, shared pages of the process that
            maps most of them counted once.
    """

    exit_code: int
    timed_out: bool
    process_seconds: float
    cpu_seconds: float
    peak_rss_bytes: int


@dataclass
class ProcessTree:
    """The processes that belong to one session id or descend from one process.

    Attributes:
        root: Id of the process, and of the session if it leads one.
        peak_bytes: Largest memory of the tree at any sample, as in :class:`Outcome`.
    """

    root: int
    peak_bytes: int = 0
    ticks: dict[tuple[int, int], int] = field(default_factory=dict)

    def sample(self) -> None:
        """Looks at the tree once."""
        private, shared = 0, 0
        for pid, fields in self._members().items():
            self.ticks[pid, int(fields[19])] = int(fields[11]) + int(fields[12])
            with contextlib.suppress(OSError, ValueError):
                resident, mapped = Path(f"/proc/{pid}/statm").read_text().split()[1:3]
                private += int(resident) - int(mapped)
                shared = max(shared, int(mapped))
        self.peak_bytes = max(self.peak_bytes, (private + shared) * _PAGE_BYTES)

    def kill(self) -> None:
        """Ends what is left, also processes that moved to a group of their own."""
        for pid in self._members():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _members(self) -> dict[int, list[str]]:
        everything: dict[int, list[str]] = {}
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                with contextlib.suppress(OSError):
                    stat = (folder / "stat").read_text()
                    # The command's name, in parentheses, may itself hold spaces and parentheses.
                    everything[int(folder.name)] = stat[stat.rindex(")") + 2 :].split()
        known = {self.root}
        members: dict[int, list[str]] = {}
        # A child's id is nearly always above its parent's; a second pass catches ids that wrapped around.
        for _ in range(2):
            for pid, fields in sorted(everything.items()):
                # Once seen is enough: a daemon leaves both its parent and its session.
                is_known = pid == self.root or (pid, int(fields[19])) in self.ticks
                if is_known or int(fields[1]) in known or int(fields[3]) == self.root:
                    known.add(pid)
                    if fields[0] != "Z":
                        members[pid] = fields
        return members


def run_process(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path,
    log: Path,
    timeout_s: float,
    grace_s: float = 10.0,
) -> Outcome:
    """Runs a command to its end.

    Args:
        command: Program and arguments; no shell is involved.
        environment: The whole environment of the process.
        folder: Working directory.
        log: File that gets standard output and standard error.
        timeout_s: After this time the group gets TERM, and KILL ``grace_s`` later.
        grace_s: Time between TERM and KILL.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            output.write(f"cannot start {command[0]}: {error}\n".encode())
            return Outcome(LAUNCH_FAILURE_EXIT_CODE, False, 0.0, 0.0, 0)
        tree = ProcessTree(process.pid)
        try:
            has_ended = _wait(process.pid, tree, start + timeout_s)
            seconds = time.perf_counter() - start
            if not has_ended:
                _end_group(process, grace_s)
        finally:
            # Also after Ctrl-C: a benchmark that goes on in the background spoils the next one.
            tree.kill()
            exit_code, usage = _reap(process)
    # The kernel knows the peak of a single process without sampling, but a child inherits the peak of its parent.
    own_peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    exact_peak_bytes = usage.ru_maxrss * 1024 if usage.ru_maxrss > own_peak else 0
    return Outcome(
        exit_code=exit_code if has_ended else TIMEOUT_EXIT_CODE,
        timed_out=not has_ended,
        process_seconds=seconds,
        cpu_seconds=max(sum(tree.ticks.values()) / _TICKS_PER_S, usage.ru_utime + usage.ru_stime),
        peak_rss_bytes=max(tree.peak_bytes, exact_peak_bytes),
    )


def _wait(pid: int, tree: ProcessTree, deadline: float) -> bool:
    """Samples until the process ends, which is seen at once and not at the next sample."""
    interval_s = _FIRST_SAMPLE_INTERVAL_S
    process_file = os.pidfd_open(pid)
    try:
        poller = select.poll()
        poller.register(process_file, select.POLLIN)
        while True:
            tree.sample()
            left = deadline - time.perf_counter()
            if left <= 0:
                return False
            if poller.poll(max(1, 1000 * min(interval_s, left))):
                return True
            interval_s = min(_SAMPLE_INTERVAL_S, interval_s * 1.2)
    finally:
        os.close(process_file)


def _reap(process: subprocess.Popen[bytes]) -> tuple[int, resource.struct_rusage]:
    _, status, usage = os.wait4(process.pid, 0)
    # Popen must know, or it would wait for a process id that may belong to another process by then.
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage


def _end_group(process: subprocess.Popen[bytes], grace_s: float) -> None:
    process_file = os.pidfd_open(process.pid)
    try:
        os.killpg(process.pid, signal.SIGTERM)
        poller = select.poll()
        poller.register(process_file, select.POLLIN)
        poller.poll(1000 * grace_s)
    finally:
        os.close(process_file)
    # The leader may have ended while others of its group ignore TERM; it is not reaped yet, so its group id is ours.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
