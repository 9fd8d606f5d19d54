"""Ray clusters of several nodes on this machine, and drivers that join them."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from promptness import HANGS_S

#: Of a node; nothing large passes between tasks.
STORE_BYTES = 80 << 20
#: A lost node is noticed within seconds. Ray gives workers the lowest priority, so that on a busy
#: machine those of a new node would not get to run before a short job ends.
SETTINGS = {
    "worker_niceness": 0,
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 5000,
    "health_check_failure_threshold": 2,
}


class Nodes:
    """A head and two workers, each with one CPU.

    Args:
        workers: the number of workers.
        head_cpus: without any, all tasks come to workers. The head is ready first, and ends a short
            job alone.
    """

    def __init__(self, workers: int = 2, head_cpus: int = 1) -> None:
        from ray.cluster_utils import Cluster

        # Workers start with another search path than pytest has.
        os.environ["PYTHONPATH"] = os.pathsep.join(
            os.path.abspath(path) for path in sys.path if path
        )
        self.cluster = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": head_cpus,
                "object_store_memory": STORE_BYTES,
                "include_dashboard": False,
                "_system_config": SETTINGS,
            },
        )
        self.workers = [self._added() for _ in range(workers)]

    def _added(self):
        return self.cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES)

    @property
    def environment(self) -> dict[str, str]:
        """Of a driver."""
        return os.environ | {"RAY_ADDRESS": str(self.cluster.address)}

    def lose(self, number: int) -> None:
        """Kills a worker with all of its processes."""
        self.cluster.remove_node(self.workers.pop(number), allow_graceful=False)

    def lose_node(self, node: str) -> None:
        """As ``lose``, by the id of the node."""
        self.lose([worker.node_id for worker in self.workers].index(node))

    def replace(self) -> None:
        """A new worker for one that was lost."""
        self.workers.append(self._added())

    @contextmanager
    def apart(self, mount: str) -> Iterator[None]:
        """One more node, which sees other file systems than the rest: ``mount`` changes its own."""
        if (
            shutil.which("unshare") is None
            or subprocess.run(["unshare", "-m", "true"], check=False).returncode
        ):
            pytest.skip("this user may not have mounts of its own")
        ray = Path(sys.executable).parent / "ray"
        options = f"--num-cpus=1 --object-store-memory={STORE_BYTES} --disable-usage-stats --block"
        start = f"{mount} && exec {ray} start --address={self.cluster.address} {options}"
        expected = len(self.cluster.global_state._live_node_ids()) + 1
        process = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", start],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            deadline = time.monotonic() + HANGS_S
            while len(self.cluster.global_state._live_node_ids()) < expected:
                assert process.poll() is None, process.communicate()[0]
                assert time.monotonic() < deadline, "the node does not come up"
                time.sleep(0.05)
            yield
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    def close(self) -> None:
        """Ends all nodes."""
        self.cluster.shutdown()


def read_only(directory: Path) -> str:
    """Makes ``directory`` one that cannot be written."""
    path = shlex.quote(str(directory))
    return f"mount --bind {path} {path} && mount -o remount,bind,ro {path}"


def another(directory: Path) -> str:
    """Puts an empty directory in the place of ``directory``."""
    return f"mount -t tmpfs -o size=64m tmpfs {shlex.quote(str(directory))}"


class Driver:
    """A script that joins a cluster, in a process of its own."""

    def __init__(self, nodes: Nodes, arguments: list[str], log: Path, **environment: str) -> None:
        self.log_file = log
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, *arguments],
                env=nodes.environment | environment,
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    def log(self) -> str:
        return self.log_file.read_text()[-6000:]

    def is_running(self) -> bool:
        return self.process.poll() is None

    def wait_for(self, condition: Callable[[], object]) -> bool:
        """Whether the condition came to hold before the driver ended."""
        deadline = time.monotonic() + HANGS_S
        while not condition():
            if not self.is_running():
                return False
            assert time.monotonic() < deadline, f"nothing happens: {self.log()}"
            time.sleep(0.001)
        return True

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def finish(self) -> int:
        """The exit code."""
        try:
            return self.process.wait(timeout=2 * HANGS_S)
        except subprocess.TimeoutExpired:
            self.kill()
            pytest.fail(f"the driver hangs: {self.log()}")
