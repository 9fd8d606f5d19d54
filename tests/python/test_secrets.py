"""No secret is in what a user, a log or another process sees.

Whatever option it was given by and whatever goes wrong.
"""

import base64
import copy
import io
import json
import logging
import os
import pickle
import re
import socket
import subprocess
import sys
import traceback
import urllib.parse
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import shardmill as sm
from breadth import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shardmill._native import storage as native
from shardmill.curate import (
    InterleavedJsonlSource,
    InterleavedParquetSource,
    ParquetSink,
    Pipeline,
    TableSource,
    WebDatasetSink,
    WebDatasetSource,
)
from shardmill.resume import Checkpoint

#: Names that stores, fsspec and obstore have for what is secret, besides generic ones.
ALIASES = {
    "s3": [
        "access_key_id",
        "aws_access_key_id",
        "secret_access_key",
        "aws_secret_access_key",
        "session_token",
        "aws_session_token",
        "token",
        "aws_token",
        "key",
        "secret",
        "aws_sse_customer_key_base64",
        "sse_customer_key_base64",
        "web_identity_token_file",
        "container_authorization_token_file",
    ],
    "gs": [
        "service_account",
        "google_service_account",
        "google_service_account_path",
        "service_account_path",
        "service_account_key",
        "google_service_account_key",
        "application_credentials",
        "google_application_credentials",
        "bearer_token",
        "token",
    ],
    "az": [
        "account_key",
        "access_key",
        "azure_storage_account_key",
        "azure_storage_access_key",
        "azure_storage_master_key",
        "master_key",
        "sas_token",
        "sas_key",
        "azure_storage_sas_key",
        "azure_storage_sas_token",
        "client_secret",
        "azure_client_secret",
        "azure_storage_client_secret",
        "bearer_token",
        "token",
        "azure_storage_token",
        "connection_string",
        "azure_storage_connection_string",
    ],
    "hf": ["token", "hub_token", "api_key"],
    "http": [
        "default_headers",
        "proxy_url",
        "proxy_ca_certificate",
        "bearer_token",
        "password",
        "cookie",
    ],
}
ALIASES = {
    scheme: [*names, "private_key", "passphrase", "colour", "x-api-key", "Authorization"]
    for scheme, names in ALIASES.items()
}

secrets = st.text(
    st.characters(min_codepoint=33, max_codepoint=0x2FFF, exclude_categories=["Cs", "Cc", "Cn"]),
    min_size=10,
    max_size=40,
).filter(lambda text: len(set(text)) > 5)
# Secrets stay hidden in this process, so they must not stand in other tests' messages. Hypothesis
# draws strings of the code as well.
secrets = secrets.map(lambda text: f"{text}\u2021")
#: Without a part that an address ends at. `http://user:80/x@host` is the address of a port.
plain_secrets = st.text("abcXYZ0189-_~+/=%é", min_size=12, max_size=40).filter(
    lambda text: len(set(text)) > 5 and re.match(r"\d{1,5}/", text) is None
)


def forms(secret: str) -> set[str]:
    """As programs write it."""
    data = secret.encode()
    found = {
        secret,
        urllib.parse.quote(secret),
        urllib.parse.quote(secret, safe=""),
        urllib.parse.quote_plus(secret),
    }
    found |= {
        form.lower() for form in found if "%" in form and not any(mark.isupper() for mark in secret)
    }
    found |= {
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
    }
    found |= {
        base64.b64encode(data).decode().rstrip("=")[:-1],
        base64.urlsafe_b64encode(data).decode().rstrip("=")[:-1],
    }
    return {form for form in found if len(form) >= 8}


def assert_absent(secret: str, text: str) -> None:
    for form in forms(secret):
        assert form not in text, f"{form!r} is in {text[:2000]!r}"


class Refusing(BaseHTTPRequestHandler):
    """Refuses everything, and tells what it was asked, as some servers do."""

    def refuse(self) -> None:
        told = (
            "<Error><Code>AccessDenied</Code>"
            f"<Message>no: {self.path} {dict(self.headers)}</Message></Error>"
        ).encode()
        self.send_response(403)
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(told)

    do_GET = do_HEAD = do_PUT = do_POST = refuse

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def refusing() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def nobody() -> str:
    """An address of this machine where no one listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


@contextmanager
def witness() -> Iterator[list[str]]:
    """All that is said: what is raised, with its causes and frames, printed, logged or warned."""
    said: list[str] = []
    out, handler = io.StringIO(), logging.StreamHandler(stream := io.StringIO())
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    with warnings.catch_warnings(record=True) as raised, redirect_stdout(out), redirect_stderr(out):
        warnings.simplefilter("always")
        try:
            yield said
        except Exception as error:
            said += [str(error), repr(error), repr(getattr(error, "args", None))]
            # Source lines are of the test, which has the secret in it only by name.
            said.append("".join(traceback.format_exception(error)))
            said.append(pickle.dumps(error).decode("latin-1"))
        finally:
            root.removeHandler(handler)
            root.setLevel(before)
    said += [out.getvalue(), stream.getvalue(), *(str(warning.message) for warning in raised)]


def endpoint_of(scheme: str, address: str) -> dict[str, str]:
    return {
        "s3": {"endpoint": address, "allow_http": "true"},
        "az": {"azure_storage_endpoint": address, "account_name": "account", "allow_http": "true"},
        "gs": {"base_url": address},
        "hf": {"endpoint": address},
    }.get(scheme, {})


def users(path: str, options: Any, directory: Path) -> Iterator[Any]:
    """Everything that takes storage options, made and used."""
    yield lambda: sm.storage.configure(path, options)
    yield lambda: len(sm.Dataset(path, storage_options=options))
    yield lambda: list(sm.Loader(path, batch_size=2, storage_options=options))
    for kind in (InterleavedParquetSource, WebDatasetSource, TableSource):
        yield lambda kind=kind: kind(path, storage_options=options)
    yield lambda: ParquetSink(path, storage_options=options)
    yield lambda: WebDatasetSink(path, storage_options=options)
    yield lambda: Checkpoint(path, storage_options=options)
    yield lambda: Pipeline(
        source=InterleavedParquetSource(path, storage_options=options),
        sink=ParquetSink(directory / "out"),
    ).run()
    yield lambda: sm.Writer(f"{path}.array_record", storage_options=options)


@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_secret_of_an_option_is_nowhere(
    tmp_path: Path, refusing: str, nobody: str, data: st.DataObject
) -> None:
    scheme = data.draw(st.sampled_from(sorted(ALIASES)))
    names = data.draw(
        st.lists(st.sampled_from(ALIASES[scheme]), min_size=1, max_size=3, unique=True)
    )
    values = [data.draw(secrets) for _ in names]
    shape = data.draw(st.sampled_from(["text", "json", "broken json", "upper"]))
    given_values = {
        "text": values,
        "upper": values,
        "json": [
            json.dumps({"type": "service_account", "private_key": value, "client_email": "a@b"})
            for value in values
        ],
        "broken json": ['{"private_key": ' + json.dumps(value) for value in values],
    }[shape]
    options = {
        (name.upper() if shape == "upper" else name): value
        for name, value in zip(names, given_values, strict=True)
    }
    options |= endpoint_of(scheme, data.draw(st.sampled_from([refusing, nobody])))
    options |= {"retry_timeout": "0.2", "request_timeout": "0.2"}
    # A bucket that is named like the secret is not one.
    buckets = st.text("abcdefgh", min_size=8, max_size=12)
    bucket = data.draw(buckets.filter(lambda name: not any(value in name for value in values)))
    root = (
        f"{refusing}/{bucket}"
        if scheme == "http"
        else "hf://datasets/o/" + bucket
        if scheme == "hf"
        else f"{scheme}://{bucket}"
    )
    use = data.draw(st.sampled_from(list(users(f"{root}/x.parquet", options, tmp_path))))
    with witness() as said:
        made = use()
        said += [
            repr(made),
            str(made),
            pickle.dumps(made).decode("latin-1"),
            repr(vars(copy.copy(made)) if hasattr(made, "__dict__") else ""),
        ]
    for value in values:
        for text in said:
            assert_absent(value, text)
    with witness() as said:
        said.append(
            repr(native.without_secrets({name: str(value) for name, value in options.items()}))
        )
    for value in values:
        for text in said:
            assert_absent(value, text)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_secret_of_an_address_is_nowhere(tmp_path: Path, data: st.DataObject) -> None:
    secret = data.draw(plain_secrets)
    quoted = urllib.parse.quote(secret, safe="")
    scheme = data.draw(
        st.sampled_from(
            ["s3", "gs", "az", "http", "https", "ftp", "hf", "abfss", "memory", "weird"]
        )
    )
    path = data.draw(
        st.sampled_from(
            [
                f"{scheme}://user:{secret}@host.invalid/x.parquet",
                f"{scheme}://user:{quoted}@host.invalid/x.parquet",
                f"{scheme}://host.invalid/x.parquet?X-Amz-Signature={quoted}&a=b",
                f"{scheme}://host.invalid/x.parquet?sig={quoted}",
                f"{scheme}://host.invalid/x.parquet?sv=1&token={quoted}#x",
                f"{scheme}://user:{quoted}@/x",
                f"{scheme}:/user:{quoted}@host.invalid/x",
            ]
        )
    )
    uses = [
        *users(path, None, tmp_path),
        lambda: sm.Dataset([path, path]),
        lambda: sm.Loader(path, batch_size=1),
        lambda: sm.ArrayRecordReader(path),
        lambda: sm.storage.configure(path, {"region": "x"}),
        lambda: sm.storage.configure("s3://bucket-of-addresses", {"endpoint": path}),
        lambda: sm.storage.configure("s3://bucket-of-addresses", {"cache_dir": path}),
        lambda: sm.storage.configure("s3://bucket-of-addresses", {"proxy_url": path}),
        lambda: Checkpoint("state", id_column="id", done=path),
        lambda: InterleavedParquetSource("in", allowed_roots=path),
        lambda: sm.storage.cache_entries(path),
        lambda: Pipeline(source=TableSource(path), sink=ParquetSink(path), checkpoint=path).run(),
    ]
    with witness() as said:
        made = data.draw(st.sampled_from(uses))()
        said += [repr(made), pickle.dumps(made).decode("latin-1")]
    for text in said:
        assert_absent(secret, text)


def command(*arguments: str, **environment: str) -> str:
    """Output and errors of a process of the command line."""
    script = "import sys; from shardmill.cli import main; sys.argv[0] = 'shardmill'; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        env={**os.environ, **environment},
        check=False,
    )
    return (done.stdout + done.stderr).decode()


SECRET = 'hunter2/hunter+2 ä"\\'


@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("s3://bucket/x.parquet", ["secret_access_key={}", "access_key_id={}"]),
        ("gs://bucket/x.parquet", ['service_account_key={{"private_key": "{}"}}']),
        ("gs://bucket/x.parquet", ["service_account={}"]),
        ("az://container/x.parquet", ["account_key={}", "account_name=a"]),
        ("s3://bucket/x.parquet", ["{}"]),
        ("s3://user:{}@bucket/x.parquet", []),
        ("https://host.invalid/x.parquet?sig={}", []),
    ],
)
def test_command_line_shows_no_secret(
    tmp_path: Path, nobody: str, path: str, options: list[str]
) -> None:
    path = path.replace("{}", urllib.parse.quote(SECRET, safe=""))
    given_options = [option.format(SECRET.replace('"', "")) for option in options]
    reached = ["retry_timeout=0.1", "request_timeout=0.1", f"endpoint={nobody}"] if options else []
    flags = [part for option in [*given_options, *reached] for part in ("--storage-option", option)]
    for words in (
        ["head", path],
        [
            "curate",
            path,
            str(tmp_path / "out"),
            "--to",
            "parquet",
            "--report",
            str(tmp_path / "report"),
        ],
    ):
        output = command(*words, *flags)
        assert output
        for form in (*forms(SECRET), *forms(SECRET.replace('"', ""))):
            assert form not in output
    for file in (tmp_path / "report").glob("*"):
        assert_absent(SECRET, file.read_text())


def test_signature_of_an_address_in_a_row_is_not_in_the_report(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    document = {"texts": ["a", None], "images": [None, "https://host.invalid/x.jpg?sig=h9v2q7k4"]}
    (tmp_path / "in" / "a.jsonl").write_text(json.dumps(document))
    sink = ParquetSink(tmp_path / "out", on_materialize_error="warn")
    pipeline = Pipeline(source=InterleavedJsonlSource(tmp_path / "in"), sink=sink)
    report = pipeline.run(progress=False)
    assert len(report.row_errors) == 1
    assert "h9v2q7k4" not in json.dumps(report.to_dict()) + repr(report)


@pytest.mark.parametrize(
    ("scheme", "name", "shape"),
    [
        ("s3", "AWS_SECRET_ACCESS_KEY", "{}"),
        ("s3", "AWS_SESSION_TOKEN", "{}"),
        ("gs", "GOOGLE_SERVICE_ACCOUNT_KEY", '{{"private_key": {}}}'),
        (
            "gs",
            "GOOGLE_APPLICATION_CREDENTIALS",
            '{{"type": "service_account", "private_key": {}}}',
        ),
        ("gs", "GOOGLE_SERVICE_ACCOUNT", '{{"private_key": {}'),
        ("az", "AZURE_STORAGE_ACCOUNT_KEY", "{}"),
        ("az", "AZURE_STORAGE_SAS_TOKEN", "sv=1&sig={}"),
        ("hf", "HF_TOKEN", "{}"),
        ("https", "HTTPS_PROXY", "http://user:{}@127.0.0.1:1"),
    ],
)
def test_environment_is_not_quoted(scheme: str, name: str, shape: str) -> None:
    secret = "hunter2hunter2/abc"
    value = shape.format(
        json.dumps(secret)
        if "{{" in shape
        else urllib.parse.quote(secret, safe="")
        if "://" in shape
        else secret
    )
    more = {"AZURE_STORAGE_ACCOUNT_NAME": "a", "AWS_ACCESS_KEY_ID": "a-key-of-mine"}
    path = (
        "hf://datasets/o/n/x.parquet" if scheme == "hf" else f"{scheme}://bucket.invalid/x.parquet"
    )
    output = command(
        "head",
        path,
        "--storage-option",
        "retry_timeout=0.1",
        "--storage-option",
        "request_timeout=0.1",
        **more,
        **{name: value},
    )
    assert "error" in output
    assert_absent(secret, output)


def test_words_that_a_file_system_raises_are_shown_without_its_settings() -> None:
    fsspec = pytest.importorskip("fsspec")

    class Talkative(fsspec.AbstractFileSystem):
        protocol = "talkative"

        def info(self, path: str, **_: Any) -> Any:
            raise OSError(f"cannot log in as {self.storage_options}")

        find = info

    system = Talkative(
        user="someone",
        password="hunter2hunter2",
        nested={"token": ["tok-tok-tok"]},
        skip_instance_cache=True,
    )
    with witness() as said:
        sm.Dataset("talkative://a/x.parquet", storage_options=system)
    assert "cannot log in" in said[0]
    for text in said:
        assert_absent("hunter2hunter2", text)
        assert_absent("tok-tok-tok", text)


def test_harmless_words_stay() -> None:
    """What is told of a failure names the place."""
    sm.storage.configure(
        "s3://harmless-bucket",
        {
            "secret_access_key": "hunter2hunter2",
            "access_key_id": "x" * 20,
            "region": "eu-central-1",
        },
    )
    shown = native.without_secrets(
        {"secret_access_key": "x", "region": "eu-central-1", "service_account": "y", "key": "z"}
    )
    assert shown == {"region": "eu-central-1"}
    for text in (
        "s3://harmless-bucket/a@b/c?.parquet",
        "/data/a=b?c#d@e",
        "hf://datasets/o/n@main/x",
        "at 10:20: no",
        "eu-central-1",
    ):
        assert native.redacted(text) == text
