"""What the server itself gives through the proxy: plain ranged GETs by a client that throws the bytes away.

Enters: a ``Store`` and what it holds. Leaves: bytes a second, by processes and connections. Called by ``reading``. Invariant: no
row is decoded; the clock runs from the first request to the last byte, and clients have started before it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.remote.store import BUCKET, Store
from tests.remote.sigv4 import Client

_RANGE_BYTES = 8 << 20
#: Processes and the connections of each.
SETTINGS = ((1, 4), (1, 8), (2, 2), (2, 4), (2, 8))
_ROOT = Path(__file__).resolve().parents[2]


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
    clients = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.remote.ceiling"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=_ROOT,
        )
        for _ in range(processes)
    ]
    spans: list[dict[str, Any]] = []
    try:
        for number, client in enumerate(clients):
            assert client.stdin is not None and client.stdout is not None
            work = {"keys": keys, "connections": connections, "ranges": ranges[number::processes]}
            client.stdin.write(json.dumps(work) + "\n")
            client.stdin.flush()
            client.stdout.readline()
        for client in clients:
            assert client.stdin is not None
            client.stdin.write("go\n")
            client.stdin.flush()
        for client in clients:
            assert client.stdout is not None
            spans.append(json.loads(client.stdout.readline()))
    finally:
        for client in clients:
            client.kill()
            client.wait()
    # The clock is one for all processes of a machine.
    seconds = max(span["end"] for span in spans) - min(span["start"] for span in spans)
    return sum(span["bytes"] for span in spans) / seconds


def main() -> None:
    """One client process: its work comes as a line, then the word to go."""
    work = json.loads(sys.stdin.readline())
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
            answer = clients[place].open("GET", f"/{BUCKET}/{key}", headers={"Range": f"bytes={first}-{last}"})
            while count := answer.readinto(buffer):
                counts[place] += count

    threads = [threading.Thread(target=fetch, args=(place,)) for place in range(len(counts))]
    print("ready", flush=True)
    sys.stdin.readline()
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({"start": start, "end": time.perf_counter(), "bytes": sum(counts)}), flush=True)


if __name__ == "__main__":
    main()
