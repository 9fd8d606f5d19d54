"""What the server itself gives through the proxy.

Clients send plain ranged GETs and throw the bytes away. The clock runs from the first request to
the last byte, and clients have started before it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.client import HTTPConnection

from benchmarks.clock import at_once
from benchmarks.remote.store import BUCKET, Store
from tests.remote.sigv4 import Client

_RANGE_BYTES, _BUFFER_BYTES, _TAIL_BYTES = 8 << 20, 1 << 20, 16 << 10
#: Processes and the connections of each.
_SETTINGS = ((1, 4), (1, 8), (2, 2), (2, 4), (2, 8))


def server_rate(store: Store, name: str, *, least_bytes: int) -> float:
    """Bytes a second of all objects under a name, at best.

    Each setting runs once, over ``least_bytes`` or more.
    """
    objects = store.objects(name)
    once = [
        (key, first, min(first + _RANGE_BYTES, size) - 1)
        for key, size in objects
        for first in range(0, size, _RANGE_BYTES)
    ]
    ranges = once * max(1, -(-least_bytes // sum(size for _, size in objects)))
    runs = [_run(store, ranges, *setting) for setting in _SETTINGS]
    return max(count / seconds for seconds, count in runs)


def seconds_of_tails(store: Store, name: str) -> float:
    """Seconds of one request for the end of every object under a name.

    This is what opening them costs at least.
    """
    ranges = [(key, max(0, size - _TAIL_BYTES), size - 1) for key, size in store.objects(name)]
    return min(_run(store, ranges, 1, connections)[0] for connections in (16, 32, 64))


def _run(
    store: Store, ranges: list[tuple[str, int, int]], processes: int, connections: int
) -> tuple[float, int]:
    """Seconds and bytes of all ranges."""
    signer = Client(store.proxy.endpoint, store.server.access_key, store.server.secret_key)
    spans = at_once(
        "spawn",
        [
            partial(_fetch, signer, connections, ranges[number::processes])
            for number in range(processes)
        ],
    )
    # The clock is one for all processes of a machine.
    seconds = max(end for _, end, _ in spans) - min(start for start, _, _ in spans)
    return seconds, sum(count for _, _, count in spans)


def _fetch(
    signer: Client,
    connections: int,
    ranges: list[tuple[str, int, int]],
    ready: Callable[[], object],
) -> tuple[float, float, int]:
    """Fetches ranges of objects.

    Returns when the first request started, when the last one ended, and the bytes.
    """
    # Signed and connected before the clock.
    waiting = [
        (path, signer.sign("GET", path, "", {"Range": f"bytes={first}-{last}"}, b""))
        for path, first, last in (
            (f"/{BUCKET}/{key}", first, last) for key, first, last in reversed(ranges)
        )
    ]
    links = [HTTPConnection(signer.endpoint.removeprefix("http://")) for _ in range(connections)]
    for link in links:
        link.connect()

    def fetch(link: HTTPConnection) -> int:
        buffer, count = bytearray(_BUFFER_BYTES), 0
        while True:
            try:
                path, headers = waiting.pop()
            except IndexError:
                return count
            link.request("GET", path, headers=headers)
            with link.getresponse() as answer:
                if answer.status != 206:
                    raise ConnectionError(f"the store answers {answer.status} {answer.reason}")
                while part := answer.readinto(buffer):
                    count += part

    with ThreadPoolExecutor(len(links)) as pool:
        ready()
        start = time.perf_counter()
        count = sum(pool.map(fetch, links))
        return start, time.perf_counter(), count
