"""The store of one entry.

It is an S3 server of its own over a temporary directory, and the proxy that every system talks to.
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
    """A server, with the keys, and its proxy."""

    server: Server
    proxy: Proxy

    def publish(self, directory: Path) -> str:
        """Makes the visible files of a directory objects, and gives their path."""
        for file in sorted(path for path in directory.rglob("*") if path.is_file()):
            key = file.relative_to(directory)
            if not any(part.startswith(".") for part in key.parts):
                self.server.publish(BUCKET, f"{directory.name}/{key.as_posix()}", file)
        return f"s3://{BUCKET}/{directory.name}/"

    def objects(self, name: str) -> list[tuple[str, int]]:
        """Keys and sizes of what was published under a name."""
        directory = self.server.directory / BUCKET
        files = sorted(path for path in (directory / name).rglob("*") if path.is_file())
        return [(path.relative_to(directory).as_posix(), path.stat().st_size) for path in files]

    def options(self, **more: Any) -> dict[str, Any]:
        """``storage_options`` of shardmill."""
        return {**self.server.storage_options(endpoint=self.proxy.endpoint), **more}

    def fsspec_options(self) -> dict[str, Any]:
        """Those of s3fs."""
        return {
            "key": self.server.access_key,
            "secret": self.server.secret_key,
            "endpoint_url": self.proxy.endpoint,
            "client_kwargs": {"region_name": self.server.region},
        }

    def environment(self) -> dict[str, str]:
        """For clients that ask the environment, as boto3 does."""
        return {
            "AWS_ACCESS_KEY_ID": self.server.access_key,
            "AWS_SECRET_ACCESS_KEY": self.server.secret_key,
            "AWS_DEFAULT_REGION": self.server.region,
            "AWS_REGION": self.server.region,
            "AWS_ENDPOINT_URL": self.proxy.endpoint,
            "S3_ENDPOINT_URL": self.proxy.endpoint,
        }

    def away(self, round_trip_s: float, *faults: Fault) -> None:
        """Sets the time before the answer of every request; the counters start anew."""
        self.proxy.faults(*(network(round_trip_s=round_trip_s) if round_trip_s else ()), *faults)
        self.proxy.forget()

    def asked(self) -> dict[str, int]:
        """Requests and the bytes of their answers, since ``away``."""
        counters = self.proxy.counters()
        return {
            "requests": sum(counters["requests"].values()),
            "bytes_sent": sum(counters["bytes_sent"].values()),
            "in_flight_max": counters["in_flight_max"],
        }


@contextmanager
def started() -> Iterator[Store]:
    """Server and proxy, which end with the block, or with this process."""
    with serving() as server, proxying(server.endpoint) as proxy:
        yield Store(server, proxy)
