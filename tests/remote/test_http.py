"""Single files by their addresses, from servers that know ranges and from one that does not."""

import functools
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from shardmill.curate import ParquetSink, Pipeline, TableSource
from shardmill.resume import Checkpoint

ROWS = 20_000


class Plain(SimpleHTTPRequestHandler):
    """What ``python -m http.server`` is: no ranges, no tags."""

    asked: list

    def send_head(self):
        self.asked.append((self.command, self.path, self.headers.get("Range")))
        return super().send_head()

    def log_message(self, *_):
        pass


class Ranged(BaseHTTPRequestHandler):
    """Ranges and tags, as most servers have."""

    protocol_version = "HTTP/1.1"
    asked: list
    directory: str

    def do_GET(self):
        self.asked.append((self.command, self.path, self.headers.get("Range")))
        if self.path.startswith("/moved/"):
            return self.answer(302, b"", {"Location": self.path.removeprefix("/moved")})
        if self.path.startswith("/closed/"):
            return self.answer(403, b"members only")
        try:
            with open(f"{self.directory}{unquote(self.path)}", "rb") as file:
                content = file.read()
        except OSError:
            return self.answer(404, b"nothing here")
        tag = {"ETag": f'"{hash(content)}"'}
        if self.headers.get("If-Match", tag["ETag"]) != tag["ETag"]:
            return self.answer(412, b"")
        wanted = self.headers.get("Range")
        if not wanted:
            return self.answer(200, content, tag)
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        start = int(first) if first else max(len(content) - int(last), 0)
        end = min(int(last) + 1, len(content)) if first and last else len(content)
        return self.answer(
            206,
            content[start:end],
            {**tag, "Content-Range": f"bytes {start}-{end - 1}/{len(content)}"},
        )

    do_HEAD = do_GET

    def answer(self, status, body, headers=None):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_):
        pass


class Untagged(Ranged):
    """Ranges, and nothing that tells versions of one size apart."""

    def answer(self, status, body, headers=None):
        if status == 206 and not body:
            return super().answer(416, b"")
        return super().answer(
            status, body, {name: value for name, value in (headers or {}).items() if name != "ETag"}
        )


@contextmanager
def serving(kind, directory):
    asked = []
    handler = type("Handler", (kind,), {"asked": asked, "directory": str(directory)})
    made = (
        functools.partial(handler, directory=str(directory)) if issubclass(kind, Plain) else handler
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), made)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def directory(tmp_path):
    table = pa.table(
        {"x": range(ROWS), "text": [f"row {number} {number**9}" for number in range(ROWS)]}
    )
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=1000)
    (tmp_path / "odd name%.csv").write_text("x\n1\n")
    (tmp_path / "other.csv").write_text("x\n2\n")
    return tmp_path


def rows(path):
    return [row["x"] for row in sm.Dataset(path)]


@pytest.mark.parametrize("kind", [Plain, Ranged])
def test_file_is_read_by_its_address(kind, directory):
    with serving(kind, directory) as (root, asked):
        data = sm.Dataset(f"{root}/rows.parquet")
        assert [row["x"] for row in data] == list(range(ROWS)) and data[ROWS - 1]["x"] == ROWS - 1
        assert data.take([19_999, 3]).column("x").to_pylist() == [19_999, 3]
        assert rows(f"{root}/odd%20name%25.csv") == [1]
        assert rows([f"{root}/other.csv", f"{root}/odd%20name%25.csv"]) == [2, 1]
        whole = [
            method
            for method, path, wanted in asked
            if (method, path, wanted) == ("GET", "/rows.parquet", None)
        ]
        # Once to see that it is there, and once to read it; nothing for its parts.
        assert len(whole) == (2 if kind is Plain else 0)


def test_epochs_of_a_server_without_ranges_are_those_of_the_file(directory):
    def epoch(path):
        return [
            batch["x"].tolist()
            for batch in sm.Loader(
                path, batch_size=333, shuffle=True, columns=["x"], output="numpy"
            )
        ]

    with serving(Plain, directory) as (root, _):
        assert epoch(f"{root}/rows.parquet") == epoch(directory / "rows.parquet")


def test_redirect_is_followed(directory):
    with serving(Ranged, directory) as (root, _):
        assert rows(f"{root}/moved/rows.parquet") == list(range(ROWS))


def test_large_file_of_a_server_without_ranges_is_refused(directory):
    with (directory / "large.parquet").open("wb") as file:
        file.truncate((64 << 20) + 1)
    with (
        serving(Plain, directory) as (root, _),
        pytest.raises(OSError, match="sends only whole files") as caught,
    ):
        rows(f"{root}/large.parquet")
    assert "hint: fetch the file" in str(caught.value)


@pytest.mark.parametrize("path", ["", "/", "/directory/", "/*.parquet"])
def test_directory_is_refused_with_what_to_do(path, directory):
    with (
        serving(Ranged, directory) as (root, asked),
        pytest.raises(OSError, match="cannot be listed") as caught,
    ):
        rows(f"{root}{path}")
    assert "hint: name each file" in str(caught.value)
    # A directory of MDS shards has one file that tells the others.
    assert {path.rpartition("/")[2] for _, path, _ in asked} <= {"index.json"}


def test_file_that_is_missing_or_closed_says_so(directory):
    with serving(Ranged, directory) as (root, _):
        with pytest.raises(FileNotFoundError, match="none.parquet"):
            rows(f"{root}/none.parquet")
        with pytest.raises(PermissionError, match="members only"):
            rows(f"{root}/closed/rows.parquet")


def test_file_that_is_replaced_while_it_is_read_is_an_error(directory):
    with serving(Ranged, directory) as (root, _):
        data = sm.Dataset(f"{root}/rows.parquet")
        pq.write_table(
            pa.table({"x": range(1, ROWS + 1), "text": ["other"] * ROWS}),
            directory / "rows.parquet",
            row_group_size=1000,
        )
        with pytest.raises(OSError, match="replaced"):
            list(data)


def test_file_without_a_tag_that_shrinks_while_it_is_read_was_replaced(directory):
    with serving(Untagged, directory) as (root, _):
        data = sm.Dataset(f"{root}/rows.parquet", storage_options={"retry_timeout": 5})
        (directory / "rows.parquet").write_bytes(b"PAR1")
        with pytest.raises(OSError, match="replaced"):
            list(data)


def test_file_without_tag_and_time_is_not_kept_in_the_cache(directory):
    options = {"cache_dir": str(directory / "cache")}
    with serving(Untagged, directory) as (root, _):
        for digit in (1, 2):
            (directory / "digits.csv").write_text("x\n" + f"{digit}\n" * 50_000)
            data = sm.Dataset(f"{root}/digits.csv", storage_options=options)
            assert {row["x"] for row in data} == {digit}


def test_answer_without_a_length_is_refused_at_once(directory):
    class Streaming(Plain):
        def end_headers(self):
            self._headers_buffer = [
                line
                for line in self._headers_buffer
                if not line.lower().startswith(b"content-length")
            ]
            super().end_headers()

    with serving(Streaming, directory) as (root, _), pytest.raises(OSError, match="Content-Length"):
        rows(f"{root}/rows.parquet")


def test_writing_is_refused_with_what_to_do(directory):
    refused = pytest.raises(OSError, match="read only")
    with (
        serving(Ranged, directory) as (root, _),
        refused as caught,
        sm.Writer(f"{root}/out.parquet") as writer,
    ):
        writer.write({"x": 1})
    assert "hint: write to a local directory" in str(caught.value)


@pytest.mark.parametrize("kind", [Plain, Ranged])
@pytest.mark.parametrize("name", ["done.parquet", "done.csv"])
def test_list_of_done_ids_is_read_by_its_address(kind, name, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    served, source = tmp_path / "served", tmp_path / "in"
    served.mkdir()
    source.mkdir()
    pq.write_table(pa.table({"id": range(10)}), source / "rows.parquet")
    pq.write_table(pa.table({"id": [2, 3]}), served / "done.parquet")
    (served / "done.csv").write_text("id\n2\n3\n")
    with serving(kind, served) as (root, _):
        checkpoint = Checkpoint(tmp_path / "state", "id", done=f"{root}/{name}")
        sink = ParquetSink(tmp_path / "out")
        report = Pipeline(
            source=TableSource(source), stages=[], sink=sink, checkpoint=checkpoint
        ).run(progress=False)
        assert report.rows_done == 2
        missing = Checkpoint(tmp_path / "other", "id", done=f"{root}/none.parquet")
        with pytest.raises(sm.OptionError, match="does not exist"):
            Pipeline(source=TableSource(source), stages=[], sink=sink, checkpoint=missing).run(
                progress=False
            )
    assert sorted(row["id"] for row in sm.Dataset(tmp_path / "out")) == [0, 1, 4, 5, 6, 7, 8, 9]
