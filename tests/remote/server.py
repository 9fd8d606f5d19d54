"""An S3 server on loopback, over a temporary directory.

A directory in it is a bucket, a file in that an object.
"""

import hashlib
import json
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .binary import gateway_path
from .loopback import started
from .process import Process

REGION = "us-east-1"
BUCKET_NAME = re.compile("[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")


@dataclass(frozen=True)
class Keys:
    """What a client signs with."""

    access_key: str
    secret_key: str


class Server:
    """versitygw, with keys of its own. Made by `serving`."""

    def __init__(
        self,
        process: Process,
        *,
        endpoint: str,
        keys: Keys,
        directory: Path,
        users: dict[str, Keys],
    ) -> None:
        self.process = process
        self.endpoint = endpoint
        self.keys = keys
        self.access_key = keys.access_key
        self.secret_key = keys.secret_key
        self.region = REGION
        self.directory = directory
        self.users = users

    def bucket(self, name: str) -> Path:
        """The directory of a bucket, made where it is missing.

        A file written into it is an object at once, but one without an ETag, which conditional puts
        take for missing; one written in place keeps the ETag of what was there. `publish` gives the
        right one.
        """
        if not BUCKET_NAME.fullmatch(name):
            raise ValueError(
                f"S3 refuses {name!r} as the name of a bucket; it must be 3 to 63 of a-z, 0-9 and -"
            )
        path = self.directory / name
        path.mkdir(exist_ok=True)
        return path

    def publish(self, bucket: str, key: str, source: Path | bytes) -> None:
        """Puts bytes, a file, or the files of a directory, at the speed of the disk.

        The outcome is that of a client's put.
        """
        if isinstance(source, Path) and source.is_dir():
            for file in sorted(path for path in source.rglob("*") if path.is_file()):
                self.publish(
                    bucket, f"{key}/{file.relative_to(source).as_posix()}".lstrip("/"), file
                )
            return
        target = self.bucket(bucket) / key
        target.parent.mkdir(parents=True, exist_ok=True)
        # Renamed, so that no request sees a half of it, and beside the buckets,
        # so that no listing does.
        unfinished = self.directory.parent / f"unfinished-{secrets.token_hex(8)}"
        if isinstance(source, bytes):
            unfinished.write_bytes(source)
        else:
            shutil.copyfile(source, unfinished)
        with unfinished.open("rb") as file:
            etag = hashlib.file_digest(file, "md5").hexdigest()
        _set_attribute(unfinished, "user.etag", f'"{etag}"'.encode())
        unfinished.rename(target)

    def storage_options(
        self, *, user: str | None = None, endpoint: str | None = None
    ) -> dict[str, str]:
        """Options for a client, as object_store names them; ``endpoint`` is that of a proxy."""
        keys = self.keys if user is None else self.users[user]
        return {
            "endpoint": endpoint or self.endpoint,
            "access_key_id": keys.access_key,
            "secret_access_key": keys.secret_key,
            "region": self.region,
            "allow_http": "true",
        }


@contextmanager
def serving(*, users: tuple[str, ...] = ()) -> Iterator[Server]:
    """A server that ends with the block, or with this process.

    Users have keys and no rights: a policy of a bucket (``PUT /bucket?policy``) gives them some.
    """
    program = gateway_path()
    with tempfile.TemporaryDirectory(prefix="shardmill-s3-", ignore_cleanup_errors=True) as work:
        accounts = {name: _random_keys() for name in users}
        start = _Start(Path(work), _random_keys(), accounts)
        server = start.run(program)
        try:
            yield server
        finally:
            server.process.stop()


@dataclass(frozen=True)
class _Start:
    work: Path
    keys: Keys
    users: dict[str, Keys]

    def run(self, program: Path) -> Server:
        data, accounts = self.work / "data", self.work / "accounts"
        data.mkdir()
        accounts.mkdir()
        listed = {
            keys.access_key: {"access": keys.access_key, "secret": keys.secret_key, "role": "user"}
            for keys in self.users.values()
        }
        (accounts / "users.json").write_text(json.dumps({"accessAccounts": listed}))
        _set_attribute(data, "user.shardmill", b"")
        # It makes a buffer anew for each request: at its own 1 MiB,
        # small ranges take six times as long.
        store = ["posix", "--io-buffer-size", str(64 << 10), str(data)]
        options = ["--region", REGION, "--iam-dir", str(accounts), "--keep-alive", "--quiet"]
        process, address = started(
            lambda port: [str(program), "--port", f"127.0.0.1:{port}", *options, *store],
            log=self.work / "log",
            what="the S3 server",
            environment={
                "ROOT_ACCESS_KEY": self.keys.access_key,
                "ROOT_SECRET_KEY": self.keys.secret_key,
            },
        )
        return Server(
            process, endpoint=f"http://{address}", keys=self.keys, directory=data, users=self.users
        )


def _random_keys() -> Keys:
    return Keys("SM" + secrets.token_hex(9).upper(), secrets.token_hex(20))


def _set_attribute(path: Path, name: str, value: bytes) -> None:
    try:
        os.setxattr(path, name, value)
    except OSError as error:
        message = (
            "the S3 server keeps ETags in extended attributes, which this disk lacks\n"
            "hint: set TMPDIR to a directory of another"
        )
        raise RuntimeError(f"{path}: {message}") from error
