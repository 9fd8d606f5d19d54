"""The store of one entry: an S3 server of its own over a temporary folder, and the proxy before it.

Enters: folders to publish. Leaves: a ``Store``, which says how it is reached, how far away it is, and what it was asked. Called by
the scenarios and the peers' scripts, before their clocks. Invariant: the standard library is enough; every system reaches the same
server through the same proxy.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.remote.fault_proxy import Fault, Proxy, network, proxying
from tests.remote.server import Server, serving

BUCKET = "bench"


@dataclass(frozen=True)
class Store:
    """A server and its proxy.

    Attributes:
        server: The first, with the keys.
        proxy: What clients talk to.
    """

    server: Server
    proxy: Proxy

    @property
    def endpoint(self) -> str:
        """Of the proxy."""
        return self.proxy.endpoint

    def publish(self, folder: Path) -> str:
        """Makes the visible files of a folder objects, and gives their path."""
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            key = file.relative_to(folder)
            if not any(part.startswith(".") for part in key.parts) and file.name != "manifest.json":
                self.server.publish(BUCKET, f"{folder.name}/{key.as_posix()}", file)
        return f"s3://{BUCKET}/{folder.name}/"

    def objects(self, name: str) -> list[tuple[str, int]]:
        """Keys and sizes of what was published under a name."""
        folder = self.server.folder / BUCKET
        files = sorted(path for path in (folder / name).rglob("*") if path.is_file())
        return [(path.relative_to(folder).as_posix(), path.stat().st_size) for path in files]

    def options(self, **more: Any) -> dict[str, Any]:
        """``storage_options`` of ours."""
        return {**self.server.storage_options(endpoint=self.endpoint), **more}

    def fsspec_options(self) -> dict[str, Any]:
        """Those of s3fs."""
        return {
            "key": self.server.access_key,
            "secret": self.server.secret_key,
            "endpoint_url": self.endpoint,
            "client_kwargs": {"region_name": self.server.region},
        }

    def environment(self) -> dict[str, str]:
        """For clients that ask the environment, as boto3 does."""
        return {
            "AWS_ACCESS_KEY_ID": self.server.access_key,
            "AWS_SECRET_ACCESS_KEY": self.server.secret_key,
            "AWS_DEFAULT_REGION": self.server.region,
            "AWS_REGION": self.server.region,
            "AWS_ENDPOINT_URL": self.endpoint,
            "S3_ENDPOINT_URL": self.endpoint,
        }

    def away(self, round_trip_s: float, *faults: Fault) -> None:
        """Puts so much time before the answer of every request; the counters start anew."""
        self.proxy.faults(*(network(round_trip_s=round_trip_s) if round_trip_s else ()), *faults)
        self.proxy.forget()

    def asked(self) -> dict[str, int]:
        """Requests and the bytes of their answers, since ``away``."""
        counters = self.proxy.counters()
        return {
            "requests": sum(counters["requests"].values()),
            "gets": counters["operations"].get("GetObject", 0),
            "bytes_sent": sum(counters["bytes_sent"].values()),
            "in_flight_max": counters["in_flight_max"],
        }


@contextmanager
def started() -> Iterator[Store]:
    """Server and proxy, which end with the block, or with this process."""
    with serving() as server, proxying(server.endpoint) as proxy:
        yield Store(server, proxy)
