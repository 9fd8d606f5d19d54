"""An Azure blob server on loopback: Azurite, which Microsoft gives out for this.

It keeps everything in memory.
"""

import base64
import hashlib
import hmac
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode

import pyarrow.fs

from .binary import azurite_path
from .loopback import started
from .process import Process

ACCOUNT = "shardmill"
VERSION = "2021-12-02"


class AzureServer:
    """Azurite, with one account of its own. Made by `serving_azure`."""

    def __init__(self, process: Process, *, address: str, key: str) -> None:
        self.process = process
        self.address = address
        self.endpoint = f"http://{address}/{ACCOUNT}"
        self.key = key

    def files(self) -> pyarrow.fs.AzureFileSystem:
        """What Arrow's own client sees there. The first part of a path is the container."""
        return pyarrow.fs.AzureFileSystem(
            ACCOUNT,
            account_key=self.key,
            blob_storage_authority=self.address,
            dfs_storage_authority=self.address,
            blob_storage_scheme="http",
            dfs_storage_scheme="http",
        )

    def storage_options(self, *, endpoint: str | None = None) -> dict[str, str]:
        """Options for a client, as object_store names them; ``endpoint`` is that of a proxy."""
        return {
            "endpoint": f"{endpoint}/{ACCOUNT}" if endpoint else self.endpoint,
            "account_name": ACCOUNT,
            "account_key": self.key,
            "retry_timeout": "10",
        }

    def signature(self, container: str, *, rights: str, minutes: int = 60) -> str:
        """A shared access signature for a container, such as the portal makes.

        Rights are the letters of ``racwdl`` in that order.
        """
        expires = (datetime.now(UTC) + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
        fields = [rights, "", expires, f"/blob/{ACCOUNT}/{container}", "", "", "", VERSION, "c"]
        text = "\n".join([*fields, *[""] * 7])
        signed = hmac.new(base64.b64decode(self.key), text.encode(), hashlib.sha256).digest()
        signature = base64.b64encode(signed).decode()
        return urlencode({"sv": VERSION, "sr": "c", "sp": rights, "se": expires, "sig": signature})


@contextmanager
def serving_azure() -> Iterator[AzureServer]:
    """A server that ends with the block, or with this process."""
    program = azurite_path()
    key = base64.b64encode(secrets.token_bytes(48)).decode()
    options = ["--inMemoryPersistence", "--skipApiVersionCheck", "--silent", "--disableTelemetry"]
    with tempfile.TemporaryDirectory(prefix="shardmill-azure-", ignore_cleanup_errors=True) as work:
        process, address = started(
            lambda port: [
                "node",
                str(program),
                "--blobHost",
                "127.0.0.1",
                "--blobPort",
                str(port),
                *options,
            ],
            log=Path(work) / "log",
            what="the Azure server",
            environment={"AZURITE_ACCOUNTS": f"{ACCOUNT}:{key}"},
        )
        try:
            yield AzureServer(process, address=address, key=key)
        finally:
            process.stop()
