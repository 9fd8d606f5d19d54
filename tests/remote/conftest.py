"""One server of each kind and one proxy for the whole run.

Each test has a bucket and a clean proxy.
"""

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from .azure_server import AzureServer, serving_azure
from .binary import (
    UnavailableError,
    azurite_path,
    gateway_path,
    google_path,
    proxy_path,
)
from .fault_proxy import Proxy, proxying
from .google_server import GoogleServer, serving_google
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
    directory: Path
    server: Server

    def publish(self, key: str, source: Path | bytes) -> None:
        """Makes an object without a request."""
        self.server.publish(self.name, key, source)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The S3 server, with a user ``reader`` that has no rights yet. Skips if it is not built."""
    try:
        gateway_path()
        proxy_path()
    except UnavailableError as error:
        _skip(error)
    with serving(users=("reader",)) as server:
        yield server


def _skip(reason: Exception) -> None:
    if str(reason) not in SKIPPED:
        SKIPPED.append(str(reason))
    pytest.skip(str(reason))


@pytest.fixture(scope="session")
def azure() -> Iterator[AzureServer]:
    """The Azure server. Skips if it is not built, or if there is no Node.js."""
    try:
        azurite_path()
    except UnavailableError as error:
        _skip(error)
    with serving_azure() as server:
        yield server


@pytest.fixture(scope="session")
def google() -> Iterator[GoogleServer]:
    """The server of Google's store. Skips if it is not built."""
    try:
        google_path()
    except UnavailableError as error:
        _skip(error)
    with serving_google() as server:
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
    name = _name_for(request)
    return Bucket(name, server.bucket(name), server)


@pytest.fixture
def container(azure: AzureServer, request: pytest.FixtureRequest) -> str:
    """The container of one test in the Azure server, empty at its start."""
    name = _name_for(request)
    azure.files().create_dir(name)
    return name


@pytest.fixture
def google_bucket(google: GoogleServer, request: pytest.FixtureRequest) -> str:
    """The bucket of one test in the server of Google's store, empty at its start."""
    name = _name_for(request)
    google.files().create_dir(name)
    return name


def _name_for(request: pytest.FixtureRequest) -> str:
    return (
        re.sub("[^a-z0-9]+", "-", request.node.name.lower())[:40].strip("-") + f"-{next(NUMBERS)}"
    )


@pytest.fixture
def connect(server: Server) -> Iterator[Callable[..., Client]]:
    """Makes clients that hide nothing, to the server or to the endpoint given.

    Other fields of a client are set by name.
    """
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
