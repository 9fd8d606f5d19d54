"""Servers on free local ports."""

import socket
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from .process import Process

ATTEMPTS = 5
TAKEN = ("address already in use", "EADDRINUSE")


def started(
    command: Callable[[int], list[str]],
    *,
    log: Path,
    what: str,
    environment: dict[str, str] | None = None,
) -> tuple[Process, str]:
    """A process that answers, and its host and port; ``command`` gets the port."""
    for attempt in range(ATTEMPTS):
        port = _free_port()
        address = f"127.0.0.1:{port}"
        process = Process(command(port), log=log, environment=environment)
        try:
            process.until(lambda address=address: _answers(address), what)
        except RuntimeError:
            # Another process may have taken the port between our look and its start.
            if attempt == ATTEMPTS - 1 or not any(text in process.output() for text in TAKEN):
                raise
            continue
        return process, address
    raise AssertionError("the loop returns or raises")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/", timeout=5):
            return True
    except urllib.error.HTTPError as refusal:
        # This is not signed.
        refusal.close()
        return True
    except OSError:
        return False
