"""One server and one proxy for the whole run; a bucket and a clean proxy for each test."""

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from .binary import MissingGoError, gateway_path, proxy_path
from .fault_proxy import Proxy, proxying
from .server import Server, serving
from .sigv4 import Client

NUMBERS = itertools.count(1)
#: Why tests of this run were skipped, if they were.
SKIPPED = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for reason in SKIPPED:
        terminalreporter.write_line(f"tests of remote storage are skipped: {reason}")


@dataclass(frozen=True)
class Bucket:
    """The bucket of one test, empty at its start."""

    name: str
    folder: Path
    server: Server

    def publish(self, key: str, source: Path | bytes) -> None:
        """Makes an object without a request."""
        self.server.publish(self.name, key, source)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The S3 server, with a user ``reader`` that has no rights yet. Skips where there is no Go to build it; a broken build fails."""
    try:
        gateway_path()
        proxy_path()
    except MissingGoError as error:
        SKIPPED.append(str(error))
        pytest.skip(str(error))
    with serving(users=("reader",)) as server:
        yield server


@pytest.fixture(scope="session")
def running_proxy(server: Server) -> Iterator[Proxy]:
    with proxying(server.endpoint) as proxy:
        yield proxy


@pytest.fixture
def proxy(running_proxy: Proxy) -> Iterator[Proxy]:
    """The proxy before the server, without faults and with its counters at nothing."""
    running_proxy.reset()
    yield running_proxy
    running_proxy.reset()


@pytest.fixture
def bucket(server: Server, request: pytest.FixtureRequest) -> Bucket:
    name = re.sub("[^a-z0-9]+", "-", request.node.name.lower())[:40].strip("-") + f"-{next(NUMBERS)}"
    return Bucket(name, server.bucket(name), server)


@pytest.fixture
def connect(server: Server) -> Iterator[Callable[..., Client]]:
    """Makes clients that hide nothing, to the server or to the endpoint given; other fields of a client by name."""
    made = []

    def make(endpoint: str | None = None, **fields) -> Client:
        keys = {"access_key": server.access_key, "secret_key": server.secret_key}
        made.append(Client(endpoint or server.endpoint, **{**keys, **fields}))
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture
def s3(connect: Callable[..., Client]) -> Client:
    """Straight to the server."""
    return connect()


@pytest.fixture
def spoiled(connect: Callable[..., Client], proxy: Proxy) -> Client:
    """Through the proxy."""
    return connect(proxy.endpoint, timeout_s=30)
