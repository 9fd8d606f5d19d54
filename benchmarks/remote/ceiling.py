"""What the server itself gives through the proxy: plain ranged GETs by a client that throws the bytes away.

Enters: a ``Store`` and what it holds. Leaves: bytes a second, by processes and connections. Called by ``reading``. Invariant: no
row is decoded; the clock runs from the first request to the last byte, and clients have started before it.
"""

from __future__ import annotations

import threading
import time

from benchmarks.remote.children import answer, job_of_child, ready, run_children
from benchmarks.remote.store import BUCKET, Store
from tests.remote.sigv4 import Client

_RANGE_BYTES = 8 << 20
#: Processes and the connections of each.
SETTINGS = ((1, 4), (1, 8), (2, 2), (2, 4), (2, 8))


def server_rates(store: Store, name: str, *, least_bytes: int) -> dict[str, float]:
    """Bytes a second of all objects under a name, each setting once over at least so many bytes."""
    ranges = _ranges(store.objects(name), least_bytes)
    return {
        f"{processes} × {connections}": _rate(store, ranges, processes, connections)
        for processes, connections in SETTINGS
    }


def _ranges(objects: list[tuple[str, int]], least_bytes: int) -> list[tuple[str, int, int]]:
    once = [
        (key, first, min(first + _RANGE_BYTES, size) - 1)
        for key, size in objects
        for first in range(0, size, _RANGE_BYTES)
    ]
    total = sum(size for _, size in objects)
    return once * max(1, -(-least_bytes // total))


def _rate(store: Store, ranges: list[tuple[str, int, int]], processes: int, connections: int) -> float:
    keys = {"endpoint": store.endpoint, "access_key": store.server.access_key, "secret_key": store.server.secret_key}
    jobs = [
        {"keys": keys, "connections": connections, "ranges": ranges[number::processes]} for number in range(processes)
    ]
    spans = run_children("benchmarks.remote.ceiling", jobs)
    # The clock is one for all processes of a machine.
    seconds = max(span["end"] for span in spans) - min(span["start"] for span in spans)
    return sum(span["bytes"] for span in spans) / seconds


def main() -> None:
    """One client process: its work comes as a line, then the word to go."""
    work = job_of_child()
    waiting = [tuple(one) for one in reversed(work["ranges"])]
    counts = [0] * work["connections"]
    clients = [Client(**work["keys"]) for _ in counts]
    for client in clients:
        # The connection is made here.
        key, first, _ = waiting[0]
        client.request("GET", f"/{BUCKET}/{key}", headers={"Range": f"bytes={first}-{first}"})

    def fetch(place: int) -> None:
        buffer = memoryview(bytearray(_RANGE_BYTES))
        while True:
            try:
                key, first, last = waiting.pop()
            except IndexError:
                return
            response = clients[place].open("GET", f"/{BUCKET}/{key}", headers={"Range": f"bytes={first}-{last}"})
            while count := response.readinto(buffer):
                counts[place] += count

    threads = [threading.Thread(target=fetch, args=(place,)) for place in range(len(counts))]
    ready()
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answer({"start": start, "end": time.perf_counter(), "bytes": sum(counts)})


if __name__ == "__main__":
    main()
