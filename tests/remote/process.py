"""A process that cannot outlive the one that started it."""

import os
import signal
import subprocess
import time
from pathlib import Path

from promptness import HANGS_S

# The watcher waits for the end of our pipe, which comes however we end; then it kills what it
# stands beside.
HELD = 'exec 3<&0; (read -r _ <&3; kill -9 $$) & exec "$@" 3<&- </dev/null'


class Process:
    """A program of a group of its own, so that Ctrl-C reaches the tests and not it."""

    def __init__(
        self, command: list[str], *, log: Path, environment: dict[str, str] | None = None
    ) -> None:
        self.log = log
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                ["sh", "-c", HELD, "sh", *command],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                # Both are programs of Go that make much garbage, and share their cores with
                # what is measured.
                env={"GOGC": "400", **os.environ, **(environment or {})},
                start_new_session=True,
            )

    @property
    def id(self) -> int:
        """Of the process."""
        return self._process.pid

    def output(self) -> str:
        """What it printed so far."""
        return self.log.read_text(errors="replace")

    def is_running(self) -> bool:
        """Whether it has not ended by itself."""
        return self._process.poll() is None

    def cpu_s(self) -> float:
        """Processor time so far, of user and system."""
        fields = Path(f"/proc/{self.id}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def pause(self) -> None:
        """Stops it where it is; its connections stay open."""
        os.kill(self.id, signal.SIGSTOP)

    def resume(self) -> None:
        """Lets it go on."""
        os.kill(self.id, signal.SIGCONT)

    def stop(self) -> None:
        """Kills it and its watcher, and returns when it is gone."""
        if self._process.returncode is None:
            os.killpg(self.id, signal.SIGKILL)
            self._process.wait()
        self._process.stdin.close()

    def until(self, is_ready, what: str):
        """What ``is_ready`` gives as soon as that is true; raises when the process ends before."""
        end = time.monotonic() + HANGS_S
        while True:
            # Asked first: another process may have got the port and be the one that is ready.
            is_running = self.is_running()
            if is_running and (found := is_ready()):
                return found
            if not is_running or time.monotonic() > end:
                self.stop()
                raise RuntimeError(f"{what} did not start:\n{self.output()[-2000:]}")
            time.sleep(0.01)
