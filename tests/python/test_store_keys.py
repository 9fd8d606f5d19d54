"""Keys of a store that are not paths: `a//b`, `a/./b`, `/a` and `a/`.

Other objects remain readable.
"""

import io
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm


def parquet(value: int) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"x": [value]}), buffer)
    return buffer.getvalue()


class Store(ThreadingHTTPServer):
    """The read requests of S3, for objects in memory. Paths are not normalized."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects: dict[str, bytes] = {}
        self.listings: list[str] = []

    def options(self) -> dict[str, Any]:
        address = f"http://127.0.0.1:{self.server_port}"
        return {
            "endpoint": address,
            "region": "us-east-1",
            "skip_signature": True,
            "retry_timeout": 2,
        }


class Handler(BaseHTTPRequestHandler):
    server: Store
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Nothing."""

    def reply(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), "ETag": '"1"', **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        bucket, _, key = unquote(url.path)[1:].partition("/")
        if "list-type" in query:
            self.server.listings.append(query.get("prefix", [""])[0])
            return self.reply(200, self.listing(bucket, query))
        body = self.server.objects.get(key)
        if body is None:
            return self.reply(404, b"<Error><Code>NoSuchKey</Code><Message>none</Message></Error>")
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range") or "")
        if asked is None or not body:
            return self.reply(200, body)
        first, last = asked[1], asked[2]
        start = int(first) if first else max(len(body) - int(last), 0)
        end = min(int(last) + 1 if first and last else len(body), len(body))
        return self.reply(
            206, body[start:end], Content_Range=f"bytes {start}-{end - 1}/{len(body)}"
        )

    do_HEAD = do_GET

    def listing(self, bucket: str, query: dict[str, list[str]]) -> bytes:
        prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        contents, common = [], set()
        for key, body in sorted(self.server.objects.items()):
            if not key.startswith(prefix):
                continue
            rest = key[len(prefix) :]
            if delimiter and delimiter in rest:
                common.add(prefix + rest.partition(delimiter)[0] + delimiter)
                continue
            contents.append(
                f"<Contents><Key>{escape(key)}</Key>"
                "<LastModified>2024-01-01T00:00:00.000Z</LastModified>"
                f"<ETag>1</ETag><Size>{len(body)}</Size></Contents>"
            )
        parts = "".join(
            f"<CommonPrefixes><Prefix>{escape(part)}</Prefix></CommonPrefixes>"
            for part in sorted(common)
        )
        return (
            '<?xml version="1.0" encoding="UTF-8"?>'
            '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix>"
            f"<IsTruncated>false</IsTruncated>{''.join(contents)}{parts}</ListBucketResult>"
        ).encode()


@pytest.fixture
def store() -> Iterator[Store]:
    with Store() as server:
        thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        thread.start()
        yield server
        server.shutdown()
        thread.join()


NUMBER = iter(range(1000))


def opened(store: Store, path: str, **options: Any) -> sm.Dataset:
    return sm.Dataset(path, storage_options=store.options(), **options)


@pytest.fixture
def bucket() -> str:
    """A unique name, because the options of a bucket apply to the whole process."""
    return f"keys-{next(NUMBER)}"


def test_empty_parts_of_a_key_are_read_by_its_own_name(store: Store, bucket: str) -> None:
    keys = ["a/0.parquet", "a//1.parquet", "a//b//2.parquet", "a/c d//3 %20.parquet"]
    store.objects = {key: parquet(number) for number, key in enumerate(keys)}
    dataset = opened(store, f"s3://{bucket}/a/")
    assert sorted(row["x"] for row in dataset) == [0, 1, 2, 3]
    assert sorted(dataset.files) == sorted(f"s3://{bucket}/{key}" for key in keys)
    assert dataset.skipped == []
    for number, key in enumerate(keys):
        assert [row["x"] for row in opened(store, f"s3://{bucket}/{key}")] == [number]
    assert sorted(row["x"] for row in opened(store, f"s3://{bucket}/a//b/")) == [2]
    assert sorted(row["x"] for row in opened(store, f"s3://{bucket}/a/*.parquet")) == [0]


@pytest.mark.parametrize(
    "odd", ["a/./1.parquet", "a/../1.parquet", "a/b/", "a/1.parquet/", "a/b\tc.parquet"]
)
def test_key_that_cannot_be_requested_is_reported(store: Store, bucket: str, odd: str) -> None:
    store.objects = {"a/0.parquet": parquet(0), odd: parquet(1)}
    with pytest.warns(UserWarning, match="1 file is left out"):
        dataset = opened(store, f"s3://{bucket}/a/")
    assert [row["x"] for row in dataset] == [0]
    [(path, reason)] = dataset.skipped
    assert path == f"s3://{bucket}/{odd}"
    assert "its key cannot be requested" in reason


def test_key_with_a_slash_at_its_start_is_reported(store: Store, bucket: str) -> None:
    store.objects = {"0.parquet": parquet(0), "/1.parquet": parquet(1)}
    with pytest.warns(UserWarning, match="1 file is left out"):
        dataset = opened(store, f"s3://{bucket}")
    assert [row["x"] for row in dataset] == [0]
    assert [path for path, _ in dataset.skipped] == [f"s3://{bucket}//1.parquet"]


@pytest.mark.filterwarnings("error")
def test_empty_objects_for_directories_are_not_files(store: Store, bucket: str) -> None:
    store.objects = {
        "a/": b"",
        "a/0.parquet": parquet(0),
        "a/sub/": b"",
        "a/sub/1.parquet": parquet(1),
        "a/none/": b"",
    }
    dataset = opened(store, f"s3://{bucket}/a")
    assert (sorted(row["x"] for row in dataset), dataset.skipped) == ([0, 1], [])


def test_tables_in_a_store_are_refused_with_one_request_more(store: Store, bucket: str) -> None:
    for mark in ("_delta_log/0.json", "metadata/v1.metadata.json", ".hoodie/hoodie.properties"):
        store.objects = {
            f"t/{mark}": b"{}",
            "t/0.parquet": parquet(0),
            "t/data/1.parquet": parquet(1),
        }
        for path in ("t/", "t", "t/data/", "t/*.parquet", "t/data/*", ""):
            with pytest.raises(sm.PlanError, match=f"s3://{bucket}/t` is the directory of an?"):
                opened(store, f"s3://{bucket}/{path}")
        files = [f"s3://{bucket}/t/0.parquet", f"s3://{bucket}/t/data/1.parquet"]
        assert [row["x"] for row in opened(store, files)] == [0, 1]
    store.objects = {"p/t/0.parquet": parquet(0), "p/t//1.parquet": parquet(1), "p/x/./y": b""}
    store.listings.clear()
    assert len(opened(store, f"s3://{bucket}/p/t/")) == 2
    assert store.listings == ["p/t/", "p/"]
    store.listings.clear()
    assert len(opened(store, f"s3://{bucket}/p/t/*.parquet")) == 1
    assert sorted(store.listings) == ["p/", "p/t/", "p/t/"]


def test_names_are_escaped_as_the_store_wants_it(store: Store, bucket: str) -> None:
    keys = ["a//ü &<.parquet", "a/%2F//x.parquet"]
    store.objects = {key: parquet(number) for number, key in enumerate(keys)}
    assert sorted(row["x"] for row in opened(store, f"s3://{bucket}/a/")) == [0, 1]
