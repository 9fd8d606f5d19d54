"""Google's store, before fake-gcs-server.

Arrow's own client, which is Google's, is the oracle: it writes what we read.

What this server cannot do, so that nothing here shows it: it takes no objects by the XML API that
object_store writes with, neither whole nor in parts (`POST ?uploads`), and so no conditions either
(`x-goog-if-generation-match`); its listings have one page whatever their length; it ignores
`If-Match`; it knows no credentials, so it rejects no request; and of a bucket that is not there it
says 500. Of writing, only that a refusal comes at once is shown.
"""

import json
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from promptness import HANGS_S
from shardmill.arrayrecord import ArrayRecordReader, ArrayRecordWriter

ROWS = 1000
FILES = 3
#: Of what is refused: asking for a machine of Google that has credentials takes far longer.
AT_ONCE_S = 30


def table(start: int = 0, rows: int = ROWS) -> pa.Table:
    numbers = range(start, start + rows)
    return pa.table({"id": list(numbers), "text": [f"row {number} " * 9 for number in numbers]})


@pytest.fixture
def files(google) -> pyarrow.fs.GcsFileSystem:
    return google.files()


@pytest.fixture
def root(google_bucket, google):
    sm.storage.configure(f"gs://{google_bucket}", google.storage_options())
    return f"gs://{google_bucket}"


@pytest.fixture
def train(google_bucket, root, files, tmp_path):
    for number in range(FILES):
        part = table(number * ROWS)
        remote = f"{google_bucket}/train/{number}.parquet"
        for system, path in ((files, remote), (None, tmp_path / f"{number}.parquet")):
            pq.write_table(part, path, row_group_size=300, filesystem=system)
    return f"{root}/train"


def ids(path, **options):
    return [row["id"] for row in sm.Dataset(path, **options)]


def test_rows_of_a_bucket_are_those_of_the_directory(train, tmp_path):
    ours, local = sm.Dataset(train), sm.Dataset(tmp_path)
    assert list(ours) == list(local) and ours.schema == local.schema
    assert [Path(path).name for path in ours.files] == [Path(path).name for path in local.files]
    loaders = (
        sm.Loader(path, batch_size=97, shuffle=True, seed=3, output="numpy")
        for path in (train, tmp_path)
    )
    first, second = ([batch["id"].tolist() for batch in loader] for loader in loaders)
    assert first == second


def test_the_other_scheme_is_the_same_bucket(train, google):
    path = train.replace("gs://", "gcs://")
    assert ids(path, storage_options=google.storage_options()) == list(range(FILES * ROWS))


def test_globs_and_single_files_and_strange_names_are_paths(train, google_bucket, root, files):
    assert ids(f"{train}/[01].parquet") == list(range(2 * ROWS))
    assert ids(f"{train}/2.parquet") == list(range(2 * ROWS, 3 * ROWS))
    for name in ("a b/ü%20.parquet", "q?/x+y.parquet"):
        pq.write_table(table(7, 3), f"{google_bucket}/{name}", filesystem=files)
        assert ids(f"{root}/{name}") == [7, 8, 9]


def test_an_object_larger_than_one_request_is_whole(google_bucket, root, files):
    batch = pa.table({"x": [os.urandom(1 << 20) for _ in range(40)]})
    pq.write_table(batch, f"{google_bucket}/large.parquet", compression="none", filesystem=files)
    assert (
        sm.Dataset(f"{root}/large.parquet").take(range(40)).column("x").to_pylist()
        == batch["x"].to_pylist()
    )


def test_second_epoch_with_a_cache_fetches_nothing(train, google, tmp_path):
    options = {**google.storage_options(), "cache_dir": tmp_path / "cache"}
    loader = sm.Loader(
        train, batch_size=100, output="numpy", columns=["id"], storage_options=options
    )
    first = [batch["id"].tolist() for batch in loader]
    before = sm.storage.metrics(train)
    assert before.bytes > 0
    assert [batch["id"].tolist() for batch in loader] == first
    after = sm.storage.metrics(train)
    assert (after.requests, after.bytes, after.cache_misses) == (
        before.requests,
        before.bytes,
        before.cache_misses,
    )


def test_object_that_is_replaced_while_it_is_read_is_an_error(train, google_bucket, files):
    # Small ones are kept from when they were opened.
    large = f"{google_bucket}/train/9.parquet"
    pq.write_table(
        table(0, 20 * ROWS), large, row_group_size=1000, compression="none", filesystem=files
    )
    data = sm.Dataset(train)
    len(data)
    pq.write_table(
        table(1, 20 * ROWS), large, row_group_size=1000, compression="none", filesystem=files
    )
    with pytest.raises(OSError, match="replaced"):
        list(data)


def test_object_that_is_not_there_is_named(train, root):
    for path in ("none.parquet", "none"):
        with pytest.raises(FileNotFoundError, match=f"{root}/none") as caught:
            ids(f"{root}/{path}")
        assert "\nhint: " in str(caught.value)


def test_writing_without_credentials_looks_for_none(root):
    begun = time.monotonic()
    with pytest.raises(OSError, match="uploadType"), sm.Writer(f"{root}/a.parquet") as writer:
        writer.write({"id": 1})
    assert time.monotonic() - begun < AT_ONCE_S


def test_keys_are_in_no_repr_no_pickle_and_no_error(train, root, google):
    key = {
        "gcs_base_url": google.endpoint,
        "disable_oauth": True,
        "client_email": "me",
        "private_key_id": "key-id-1",
    }
    for secret, given in (
        (
            "hunter2hunter2",
            {"service_account_key": json.dumps({**key, "private_key": "hunter2hunter2"})},
        ),
        ("ya29.hunter2", {"bearer_token": "ya29.hunter2", "base_url": google.endpoint}),
    ):
        data = sm.Dataset(train, storage_options={**given, "allow_http": True})
        assert len(list(data)) == FILES * ROWS
        with pytest.raises(FileNotFoundError) as caught:
            ids(f"{root}/none.parquet")
        assert secret not in repr(data) + str(caught.value) and secret.encode() not in pickle.dumps(
            data
        )


@pytest.mark.parametrize("named_by", ["STORAGE_EMULATOR_HOST", "CLOUD_STORAGE_EMULATOR_ENDPOINT"])
def test_emulator_of_the_environment_is_asked_where_there_are_no_options(named_by, train, google):
    code = "import sys, shardmill as sm; print(len(list(sm.Dataset(sys.argv[1]))))"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GOOGLE_")}
    environment = {**kept, named_by: google.endpoint}
    command = [sys.executable, "-c", code, train]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=HANGS_S, check=False
    )
    assert (done.stdout.strip(), done.stderr) == (str(FILES * ROWS), "")


@contextmanager
def listening() -> Iterator[tuple[str, list[str]]]:
    """A server without objects, and the headers of the requests that it got."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(str(self.headers))
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


def read_with_a_token(named_by: str, endpoint: str) -> subprocess.Popen[str]:
    code = (
        "import json, sys, shardmill as sm; "
        "sm.Dataset('gs://bucket/a.parquet', storage_options=json.loads(sys.argv[1]))"
    )
    options = {"endpoint": endpoint} if named_by == "endpoint" else {}
    environment = {**os.environ, "GOOGLE_OAUTH_ACCESS_TOKEN": "hunter2"}
    environment |= {} if named_by == "endpoint" else {named_by: endpoint}
    command = [sys.executable, "-c", code, json.dumps(options)]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_token_of_the_environment_goes_to_google_only():
    ways = (
        "STORAGE_EMULATOR_HOST",
        "CLOUD_STORAGE_EMULATOR_ENDPOINT",
        "GOOGLE_BASE_URL",
        "endpoint",
    )
    with ExitStack() as open_ones:
        listeners = [open_ones.enter_context(listening()) for _ in ways]
        # At once: those that look for a machine of Google wait for seconds.
        processes = [
            read_with_a_token(way, endpoint)
            for way, (endpoint, _) in zip(ways, listeners, strict=True)
        ]
        for way, process, (_, asked) in zip(ways, processes, listeners, strict=True):
            _out, errors = process.communicate(timeout=HANGS_S)
            assert process.returncode == 1 and "shardmill.errors" in errors, (way, errors)
            # Who needs credentials for an address looks for others, and may find none to ask with.
            assert asked or "EMULATOR" not in way, way
            assert "hunter2" not in "".join(asked) + errors, way


RECORDS = [bytes([number]) * 50_000 for number in range(40)]


class JsonEmulator:
    """One object by the JSON API, and the faults of the next answers.

    The object is told as scantly as array_record's own emulator tells it.
    """

    def __init__(self, content: bytes) -> None:
        self.content, self.generation = content, 7
        #: Each a status, or the number of bytes that are missing at the end.
        self.faults: list[int] = []
        self.asked: list[tuple[str, str]] = []
        #: What it should not be sent.
        self.keys: list[str] = []

    @contextmanager
    def serving(self) -> Iterator[str]:
        emulator = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                emulator.asked.append((self.path, self.headers["Range"]))
                emulator.keys += [
                    name for name in ("Authorization", "If-Match") if name in self.headers
                ]
                fault = emulator.faults.pop(0) if emulator.faults else 0
                start, end = self.headers["Range"].removeprefix("bytes=").split("-")
                size = len(emulator.content)
                first, last = (
                    (int(start), int(end)) if start else (max(size - int(end), 0), size - 1)
                )
                body = b"" if fault > 99 else emulator.content[first : last + 1]
                self.send_response(fault if fault > 99 else 206)
                self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
                self.send_header("X-Goog-Generation", str(emulator.generation))
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: len(body) - fault])
                self.close_connection = fault > 0

            def log_message(self, *_):
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield f"http://127.0.0.1:{server.server_port}"
            server.shutdown()


@pytest.fixture
def emulator(tmp_path, monkeypatch):
    with ArrayRecordWriter(tmp_path / "a", "group_size:1,uncompressed") as writer:
        writer.write_all(RECORDS)
    emulator = JsonEmulator((tmp_path / "a").read_bytes())
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "hunter2")
    with emulator.serving() as endpoint:
        monkeypatch.setenv("CLOUD_STORAGE_EMULATOR_ENDPOINT", endpoint)
        yield emulator


def emulated() -> ArrayRecordReader:
    return ArrayRecordReader("gs://emulated/a b/x")


def test_emulator_of_array_record_is_asked_by_json_for_the_tail_alone_and_for_the_rest_again(
    emulator,
):
    reader = emulated()
    assert len(reader) == len(RECORDS)
    assert emulator.asked == [("/storage/v1/b/emulated/o/a%20b%2Fx?alt=media", "bytes=-1048576")]
    emulator.faults = [5, 503]
    assert reader.read([0]) == RECORDS[:1]
    assert len(emulator.asked) == 4, (
        "a body that ends early and a store that is busy are asked again"
    )
    assert emulator.keys == []


def test_emulator_that_refuses_or_has_another_version_or_address_by_now_says_so(
    emulator, monkeypatch
):
    for status, error in ((404, FileNotFoundError), (401, PermissionError), (403, PermissionError)):
        emulator.faults = [status]
        with pytest.raises(error, match="gs://emulated/a b/x"):
            emulated()
    for change in ({"generation": 8}, {"content": emulator.content + bytes(9)}):
        emulator.generation = 7
        reader = emulated()
        vars(emulator).update(change)
        with pytest.raises(RuntimeError, match="replaced"):
            reader.read([0])
    monkeypatch.setenv("CLOUD_STORAGE_EMULATOR_ENDPOINT", "http://name:hunter2@host")
    with pytest.raises(OSError, match="CLOUD_STORAGE_EMULATOR_ENDPOINT") as caught:
        emulated()
    assert "hunter2" not in str(caught.value)
