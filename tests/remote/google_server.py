"""A server on loopback that answers readers as Google's store does: fake-gcs-server.

It keeps everything in memory.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.fs

from .binary import google_path
from .loopback import started
from .process import Process


class GoogleServer:
    """fake-gcs-server; it knows no credentials. Made by `serving_google`."""

    def __init__(self, process: Process, *, address: str) -> None:
        self.process = process
        self.address = address
        self.endpoint = f"http://{address}"

    def files(self) -> pyarrow.fs.GcsFileSystem:
        """What Arrow's own client, which is Google's, sees and writes there.

        The first part of a path is the bucket.
        """
        return pyarrow.fs.GcsFileSystem(
            anonymous=True, scheme="http", endpoint_override=self.address, project_id="shardmill"
        )

    def storage_options(self) -> dict[str, str]:
        """Options for a client, as object_store names them."""
        return {"base_url": self.endpoint, "allow_http": "true", "skip_signature": "true"}


@contextmanager
def serving_google() -> Iterator[GoogleServer]:
    """A server that ends with the block, or with this process."""
    program = google_path()
    options = ["-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-log-level", "error"]
    with tempfile.TemporaryDirectory(
        prefix="shardmill-google-", ignore_cleanup_errors=True
    ) as work:
        process, address = started(
            lambda port: [
                str(program),
                *options,
                "-port",
                str(port),
                "-public-host",
                f"127.0.0.1:{port}",
            ],
            log=Path(work) / "log",
            what="the server of Google's store",
        )
        try:
            yield GoogleServer(process, address=address)
        finally:
            process.stop()
