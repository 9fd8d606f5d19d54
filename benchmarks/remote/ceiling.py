"""What the server itself gives through the proxy: plain ranged GETs by a client that throws the bytes away.

Enters: a ``Store`` and what it holds. Leaves: bytes a second, by processes and connections. Called by ``reading``. Invariant: no
row is decoded; the clock runs from the first request to the last byte, and clients have started before it.
"""

from __future__ import annotations

import socket
import threading
import time

from benchmarks.remote.children import answer, job_of_child, ready, run_children
from benchmarks.remote.store import BUCKET, Store
from tests.remote.sigv4 import Client

_RANGE_BYTES = 8 << 20
_BUFFER_BYTES = 1 << 20
_HEAD_BYTES = 16 << 10
#: Processes and the connections of each.
SETTINGS = ((1, 4), (1, 8), (2, 2), (2, 4), (2, 8))


def server_rates(store: Store, name: str, *, least_bytes: int) -> dict[str, float]:
    """Bytes a second of all objects under a name, each setting once over at least so many bytes."""
    ranges = _ranges(store.objects(name), least_bytes)
    return {
        f"{processes} × {connections}": _rate(store, ranges, processes, connections)
        for processes, connections in SETTINGS
    }


def seconds_of_tails(store: Store, name: str, *, tail_bytes: int, connections: int) -> float:
    """Seconds of one request for the end of every object under a name: what opening them costs at least."""
    ranges = [(key, max(0, size - tail_bytes), size - 1) for key, size in store.objects(name)]
    return _run(store, ranges, 1, connections)[0]


def _ranges(objects: list[tuple[str, int]], least_bytes: int) -> list[tuple[str, int, int]]:
    once = [
        (key, first, min(first + _RANGE_BYTES, size) - 1)
        for key, size in objects
        for first in range(0, size, _RANGE_BYTES)
    ]
    total = sum(size for _, size in objects)
    return once * max(1, -(-least_bytes // total))


def _rate(store: Store, ranges: list[tuple[str, int, int]], processes: int, connections: int) -> float:
    seconds, count = _run(store, ranges, processes, connections)
    return count / seconds


def _run(store: Store, ranges: list[tuple[str, int, int]], processes: int, connections: int) -> tuple[float, int]:
    """Seconds and bytes of all ranges."""
    keys = {"endpoint": store.endpoint, "access_key": store.server.access_key, "secret_key": store.server.secret_key}
    jobs = [
        {"keys": keys, "connections": connections, "ranges": ranges[number::processes]} for number in range(processes)
    ]
    spans = run_children("benchmarks.remote.ceiling", jobs)
    # The clock is one for all processes of a machine.
    seconds = max(span["end"] for span in spans) - min(span["start"] for span in spans)
    return seconds, sum(span["bytes"] for span in spans)


def main() -> None:
    """One client process: its work comes as a line, then the word to go."""
    work = job_of_child()
    signer = Client(**work["keys"])
    host, port = signer.endpoint.removeprefix("http://").split(":")
    # Signed before the clock, and sent over bare sockets: the client should cost next to nothing.
    waiting = [_request(signer, *one) for one in reversed(work["ranges"])]
    counts = [0] * work["connections"]
    sockets = [socket.create_connection((host, int(port))) for _ in counts]

    def fetch(place: int) -> None:
        buffer = memoryview(bytearray(_BUFFER_BYTES))
        while True:
            try:
                request = waiting.pop()
            except IndexError:
                return
            counts[place] += _fetched(sockets[place], request, buffer)

    threads = [threading.Thread(target=fetch, args=(place,)) for place in range(len(counts))]
    ready()
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answer({"start": start, "end": time.perf_counter(), "bytes": sum(counts)})


def _request(signer: Client, key: str, first: int, last: int) -> bytes:
    path = f"/{BUCKET}/{key}"
    headers = signer.sign("GET", path, "", {"Range": f"bytes={first}-{last}"}, b"")
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode()


def _fetched(connection: socket.socket, request: bytes, buffer: memoryview) -> int:
    """Bytes of the body, which nobody keeps."""
    connection.sendall(request)
    head = b""
    while b"\r\n\r\n" not in head:
        part = connection.recv(_HEAD_BYTES)
        if not part:
            raise ConnectionError("the proxy has closed a connection of the benchmark")
        head += part
    lines, _, body = head.partition(b"\r\n\r\n")
    if not lines.startswith(b"HTTP/1.1 206"):
        raise ConnectionError(f"the store answers {lines.splitlines()[0]!r}")
    length = next(int(line[15:]) for line in lines.splitlines() if line.lower().startswith(b"content-length:"))
    left = length - len(body)
    while left:
        count = connection.recv_into(buffer, min(left, len(buffer)))
        if not count:
            raise ConnectionError("the proxy has closed a connection of the benchmark")
        left -= count
    return length


if __name__ == "__main__":
    main()
